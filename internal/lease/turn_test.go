package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// turnOf is the turn of a lock of one node whose counter was found, and is the fence now.
func turnOf(t *testing.T, now time.Time, length time.Duration, fence, found int64) (*Round, Turn) {
	t.Helper()
	r := fencedRound(now, 1)
	r.Fencing.OwnBlock()
	r.Begin(now, time.Hour)
	require.True(t, r.told(t, 0, fence, found).Has(Done))
	return r, r.NewTurn(length, now)
}

// take takes so many fences of a turn.
func (t *Turn) take(n int) (all []int64) {
	for range n {
		all = append(all, t.Fence())
	}
	return all
}

func TestTurnTakesItsNumbersFromTheSmallestUp(t *testing.T) {
	now := time.Now()
	_, turn := turnOf(t, now, time.Millisecond, 90, 87)
	assert.Equal(t, []int64{88, 89, 90, 0, 0}, turn.take(5))
	_, turn = turnOf(t, now, time.Millisecond, 1, 0)
	assert.Equal(t, []int64{1, 0}, turn.take(2))
}

// However far below the counter was, a turn begins no more numbers below its fence than it has microseconds.
func TestTurnHasANumberForEachMicrosecond(t *testing.T) {
	now := time.Now()
	_, turn := turnOf(t, now, 4*time.Microsecond, 1000, 7)
	assert.Equal(t, []int64{997, 998, 999, 1000, 0}, turn.take(5))
	_, turn = turnOf(t, now, time.Nanosecond, 1000, 7)
	assert.Equal(t, []int64{1000, 0}, turn.take(2))
}

func TestTurnWithoutFencingHasNoNumbers(t *testing.T) {
	now := time.Now()
	r := fencedRound(now, 1)
	r.Fencing = nil
	turn := r.NewTurn(time.Second, now)
	l := r.Got()
	l.Unlock(now)
	for range 3 {
		assert.Zero(t, turn.Fence())
		assert.True(t, l.MayPass(&turn, time.Hour, 0, now))
	}
}

func TestMayPass(t *testing.T) {
	now := time.Now()
	const validity, length = time.Hour, 10 * time.Minute
	for _, tc := range []struct {
		name string
		do   func(l *Lease, turn *Turn, at *time.Time)
		may  bool
	}{
		{"at once", func(*Lease, *Turn, *time.Time) {}, true},
		{"with nine tenths left", func(l *Lease, _ *Turn, _ *time.Time) { l.Until = NewDeadline(now, validity*9/10, 0) }, true},
		{"with less", func(l *Lease, _ *Turn, _ *time.Time) { l.Until = NewDeadline(now, validity*9/10-1, 0) }, false},
		{"at the end of the turn", func(l *Lease, _ *Turn, at *time.Time) {
			*at, l.Until = now.Add(length), NewDeadline(now, 2*validity, 0)
		}, false},
		{"just before", func(l *Lease, _ *Turn, at *time.Time) {
			*at, l.Until = now.Add(length-1), NewDeadline(now, 2*validity, 0)
		}, true},
		{"with one number left", func(_ *Lease, turn *Turn, _ *time.Time) { turn.take(2) }, true},
		{"with none", func(_ *Lease, turn *Turn, _ *time.Time) { turn.take(3) }, false},
		{"that had expired", func(l *Lease, _ *Turn, at *time.Time) {
			*at = now.Add(2 * validity)
			l.Check(*at)
			*at, l.Until = now, NewDeadline(now, validity, 0) // Even then.
		}, false},
		{"that was lost", func(l *Lease, _ *Turn, _ *time.Time) { l.Lose(now) }, false},
		{"whose release is repeated", func(l *Lease, _ *Turn, _ *time.Time) {
			l.Unlock(now)
			l.Unlocked(NoQuorum)
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, turn := turnOf(t, now, length, 90, 87)
			l, at := r.Got(), now
			tc.do(&l, &turn, &at)
			l.Unlock(at)
			assert.Equal(t, tc.may, l.MayPass(&turn, validity, 0, at))
		})
	}
}

// No validity that was asked for is so short that a lock is passed on which has ended.
func TestMayPassNothingThatHasEnded(t *testing.T) {
	now := time.Now()
	r, turn := turnOf(t, now, time.Minute, 90, 87)
	l := r.Got()
	l.Until = NewDeadline(now, time.Second, 0)
	l.Unlock(now)
	assert.True(t, l.MayPass(&turn, 1, 0, now.Add(time.Second-1)))
	assert.False(t, l.MayPass(&turn, 1, 0, now.Add(time.Second)))
}

// Of what is left to a caller's work, it gets nine tenths, too.
func TestMayPassByTheStopTime(t *testing.T) {
	now := time.Now()
	const validity, stopTime = time.Hour, 50 * time.Minute
	for left, may := range map[time.Duration]bool{stopTime + 9*time.Minute: true, stopTime + 9*time.Minute - 1: false} {
		r, turn := turnOf(t, now, time.Minute, 90, 87)
		l := r.Got()
		l.Until = NewDeadline(now, left, 0)
		l.Unlock(now)
		assert.Equal(t, may, l.MayPass(&turn, validity, stopTime, now), left)
	}
}

// A machine that slept has spent the turn, and the validity.
func TestMayPassByAllClocks(t *testing.T) {
	now, lead := time.Now(), time.Duration(0)
	r, _ := turnOf(t, now, time.Minute, 90, 87)
	r.Clock = func(now time.Time) (time.Time, time.Duration) { return now, lead }
	turn := r.NewTurn(time.Minute, now)
	l := r.Got()
	l.Unlock(now)
	lead = time.Minute - 1
	assert.True(t, l.MayPass(&turn, time.Minute, 0, now))
	lead = time.Minute
	assert.False(t, l.MayPass(&turn, time.Minute, 0, now))
}

// Whom a lock is passed on to has a lease of its own, that ends when the nodes' keys do. The one before stays over.
func TestPass(t *testing.T) {
	now := time.Now()
	r, _ := turnOf(t, now, time.Minute, 90, 87)
	before := r.Got()
	extended := now.Add(time.Second)
	before.Extended, before.Until = extended, NewDeadline(now, 2*time.Hour, 0)
	_, may := before.MayRepair(0, 1, now)
	require.True(t, may)

	at := now.Add(time.Minute)
	before.Unlock(at)
	l := before.Pass(at)
	assert.Equal(t, at, l.Start)
	assert.Equal(t, extended, l.Extended)
	assert.Equal(t, before.Until, l.Until)
	assert.Equal(t, Undecided, l.Check(at))
	assert.Equal(t, Held, l.Release)
	assert.Equal(t, Lost, before.Check(at))
	assert.Equal(t, time.Minute, before.Lasted)
	assert.Equal(t, time.Second, l.HeldFor(at.Add(time.Second)))

	_, again := l.MayRepair(0, 1, at)
	assert.False(t, again, "a repair is under way")
	before.Repaired(0) // It has no more to do with it.
	l.Repaired(0)
	_, again = l.MayRepair(0, 1, at)
	assert.True(t, again)
}

func TestLose(t *testing.T) {
	now := time.Now()
	r, _ := turnOf(t, now, time.Minute, 90, 87)
	l := r.Got()
	l.Lose(now.Add(time.Second))
	assert.Equal(t, Lost, l.Check(now))
	assert.Equal(t, time.Second, l.Lasted)
	l = r.Got()
	l.Check(now.Add(2 * time.Hour))
	l.Lose(now.Add(3 * time.Hour))
	assert.Equal(t, Expired, l.Ended, "it had ended before")
	assert.Equal(t, time.Hour, l.Lasted)
}
