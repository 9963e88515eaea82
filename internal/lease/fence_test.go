package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
)

func TestAgreement(t *testing.T) {
	for _, tc := range []struct {
		fences         []int64
		fence          int64
		exact, granted int
	}{
		{nil, 0, 0, 0},
		{[]int64{0, 7, 7}, 7, 2, 2},
		{[]int64{8, 7, 8, 0, 1}, 8, 2, 4},
		{[]int64{7, 9, 7}, 7, 2, 3}, // A quorum has said 7: it need not be the largest.
		{[]int64{9, 7, 7, 8, 0}, 7, 2, 4},
		{[]int64{9, 1, 0}, 9, 1, 2},
	} {
		fence, exact, granted := Agreed(tc.fences, 2)
		assert.Equal(t, tc.fence, fence, tc.fences)
		assert.Equal(t, tc.exact, exact, tc.fences)
		assert.Equal(t, tc.granted, granted, tc.fences)
	}
}

// fencedRound is a round with fencing of so many nodes, with an hour to go.
func fencedRound(now time.Time, nodes int) *Round {
	c := &Config{Need: Need(nodes), Clock: func(now time.Time) (time.Time, time.Duration) { return now, 0 }}
	r := &Round{Config: c, Kind: Locking, Start: now, Validity: time.Hour, Patience: time.Hour}
	r.Ballots, r.Fencing = make([]Ballot, nodes), NewFencing(nodes)
	return r
}

// told has node i, which was asked, grant the lock or raise its counter, and say what that was before.
func (r *Round) told(t *testing.T, i int, counter, found int64) (all Effect) {
	t.Helper()
	require.True(t, r.Asked(i))
	for e := r.Vote(i, &node.Outcome{Stance: node.Yes, Fence: counter, Found: found}, r.Start); ; e = r.Next(r.Start) {
		if all |= e; !e.Has(More) {
			return all &^ More
		}
	}
}

// A grant that comes when a quorum has agreed is a yes, and nothing is asked of its node.
func TestFenceGrantAfterTheAgreementIsLeftAlone(t *testing.T) {
	now := time.Now()
	r := fencedRound(now, 3)
	r.Begin(now, time.Second)
	r.told(t, 0, 9, 0)
	assert.True(t, r.told(t, 1, 9, 0).Has(Done))
	assert.EqualValues(t, 9, r.Fencing.Fence)
	assert.Equal(t, Counted|Settled, r.told(t, 2, 5, 0))
	assert.False(t, r.Asked(2))
	require.NoError(t, r.Ballots[2].Err)
}

// All numbers that counted nodes have not found, up to the fence, are the lock's.
func TestBlock(t *testing.T) {
	type answer struct {
		node           int
		counter, found int64
	}
	for _, tc := range []struct {
		name    string
		answers []answer
		fence   int64
		below   int64
	}{
		{"the largest that was found", []answer{{0, 90, 7}, {1, 90, 50}}, 90, 50},
		{"others between the grant and the raise", []answer{{0, 10, 7}, {1, 90, 8}, {0, 90, 12}}, 90, 89},
		{"a raise after a repeated request", []answer{{0, 10, 0}, {1, 90, 8}, {0, 90, 10}}, 90, 9},
		{"a node that does not count", []answer{{0, 10, 7}, {1, 90, 8}, {2, 95, 94}, {0, 90, 10}}, 90, 8},
		{"a lie", []answer{{0, 90, 7}, {1, 90, 90}}, 90, 89},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := time.Now()
			r := fencedRound(now, 3)
			r.Fencing.OwnBlock()
			r.Begin(now, time.Hour)
			for _, a := range tc.answers {
				r.told(t, a.node, a.counter, a.found)
			}
			require.Equal(t, Granted, r.Verdict)
			assert.Equal(t, tc.fence, r.Fencing.Fence)
			assert.Equal(t, tc.below, r.Fencing.Below)
		})
	}
}

// Without OwnBlock the fence is all that is the lock's, whatever nodes say.
func TestBlockIsAskedFor(t *testing.T) {
	now := time.Now()
	r := fencedRound(now, 1)
	r.Begin(now, time.Hour)
	r.told(t, 0, 90, 7)
	assert.EqualValues(t, 89, r.Fencing.Below)
}

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

// However far below the counter was, a turn begins no more numbers below its fence than it has microseconds.
func TestTurnHasANumberForEachMicrosecond(t *testing.T) {
	now := time.Now()
	_, turn := turnOf(t, now, 4*time.Microsecond, 1000, 7)
	assert.Equal(t, []int64{997, 998, 999, 1000, 0}, turn.take(5))
	_, turn = turnOf(t, now, time.Nanosecond, 1000, 7)
	assert.Equal(t, []int64{1000, 0}, turn.take(2))
}

// A passing is a lock that may be passed on, when it is released, by clocks with this lead.
type passing struct {
	Lease
	turn           Turn
	after, lead    time.Duration // since the start
	left, stopTime time.Duration
}

func TestMayPass(t *testing.T) {
	start := time.Now()
	const hour, minute, length = time.Hour, time.Minute, 10 * time.Minute
	for _, tc := range []struct {
		name string
		do   func(p *passing)
		may  bool
	}{
		{"at once", func(*passing) {}, true},
		{"with less", func(p *passing) { p.left = hour*9/10 - 1 }, false},
		{"at the end of the turn", func(p *passing) { p.after, p.left = length, 2*hour }, false},
		{"just before", func(p *passing) { p.after, p.left = length-1, 2*hour }, true},
		{"when the machine has slept through the turn", func(p *passing) { p.lead, p.left = length, 2*hour }, false},
		{"with none", func(p *passing) { p.turn.take(3) }, false},
		// Of what is left to a caller's work, it gets nine tenths, too.
		{"with a stop time, and less", func(p *passing) { p.stopTime, p.left = 50*minute, 59*minute-1 }, false},
		{"that had expired", func(p *passing) { p.Check(start.Add(2 * hour)) }, false}, // Even if it were not so any more.
		{"that was lost", func(p *passing) { p.Lose(start) }, false},
		{"whose release is repeated", func(p *passing) {
			p.Unlock(start)
			p.Unlocked(NoQuorum)
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, turn := turnOf(t, start, length, 90, 87)
			p := &passing{Lease: r.Got(), turn: turn, left: hour}
			r.Clock = func(now time.Time) (time.Time, time.Duration) { return now, p.lead }
			tc.do(p)
			p.Until = NewDeadline(start, p.left, 0)
			at := start.Add(p.after)
			p.Unlock(at)
			assert.Equal(t, tc.may, p.MayPass(&p.turn, hour, p.stopTime, at))
		})
	}
}

// Whom a lock is passed on to has a lease of its own, with the repairs that are under way. The one before stays over.
func TestPass(t *testing.T) {
	now := time.Now()
	r, _ := turnOf(t, now, time.Minute, 90, 87)
	before := r.Got()
	before.Extended = now.Add(time.Second)
	_, may := before.MayRepair(0, 1, now)
	require.True(t, may)
	at := now.Add(time.Minute)
	before.Unlock(at)
	l := before.Pass(at)
	assert.Equal(t, []time.Time{at, before.Extended}, []time.Time{l.Start, l.Extended})
	assert.Equal(t, before.Until, l.Until)
	_, may = l.MayRepair(0, 1, at)
	assert.False(t, may)
	l.Lose(at.Add(time.Minute))
	for _, of := range []*Lease{&before, &l} {
		assert.Equal(t, Lost, of.Check(at))
		assert.Equal(t, time.Minute, of.Lasted)
	}
}
