//go:build unix

package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
)

// stallable is a process's own time in a bubble. stop stops the process, as nothing else does there: time
// goes on without it.
func stallable(t *testing.T, every time.Duration) (o *ownTime, stop func(time.Duration)) {
	t.Helper()
	begun, stopped := time.Now(), time.Duration(0)
	o = startOwnTime(every, func() time.Duration {
		return time.Since(begun) + stopped
	})
	t.Cleanup(o.stop)
	return o, func(d time.Duration) {
		o.mu.Lock()
		defer o.mu.Unlock()
		stopped += d
	}
}

func TestOwnTimeStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, stop := stallable(t, 100*time.Millisecond)
		begin := o.now()
		time.Sleep(time.Hour)
		now := o.now()
		assert.Zero(t, begin.stalled(now))
		assert.Equal(t, time.Hour, now.own)
		stop(time.Minute)
		now = o.now()
		assert.InDelta(t, time.Minute, begin.stalled(now), float64(200*time.Millisecond), "it need not wait for the next tick")
		time.Sleep(time.Hour)
		assert.Equal(t, begin.stalled(now), begin.stalled(o.now()), "a stall counts once")
	})
}

// The reason is this process if it did not run for what it takes to ask again and again, and the nodes
// otherwise.
func TestLapse(t *testing.T) {
	t.Parallel()
	const leeway = 20 * time.Second
	for _, test := range []struct {
		name   string
		happen func(l *lapse, stop func(time.Duration))
		own    string // a part of the reason; empty: the nodes
	}{
		{"the nodes do not answer", func(*lapse, func(time.Duration)) { time.Sleep(leeway) }, ""},
		{"it was stopped at once", func(_ *lapse, stop func(time.Duration)) { stop(leeway) }, "redlock did not run for 19.8s, as it was stopped"},
		{"it was stopped before an extension", func(_ *lapse, stop func(time.Duration)) {
			time.Sleep(leeway / 3)
			stop(leeway * 2 / 3)
		}, "redlock did not run for 13."},
		{"it was stopped again and again", func(_ *lapse, stop func(time.Duration)) {
			for range 10 {
				stop(leeway / 10)
				time.Sleep(time.Second / 2)
			}
		}, "redlock did not run for 19"},
		{"it was stopped for a moment while they did not answer", func(_ *lapse, stop func(time.Duration)) {
			time.Sleep(leeway * 7 / 8)
			stop(leeway / 8)
		}, ""},
		{"it was stopped before the last extension", func(l *lapse, stop func(time.Duration)) {
			stop(time.Hour)
			l.look(l.until)
			time.Sleep(time.Second)
			l.look(l.until.Add(time.Hour))
			time.Sleep(leeway)
		}, ""},
		{"it was stopped after an extension that it has not seen", func(l *lapse, stop func(time.Duration)) {
			time.Sleep(leeway / 2)
			l.look(l.until)
			time.Sleep(leeway / 3)
			stop(leeway)
			l.look(l.until.Add(leeway))
		}, "redlock did not run for 19."},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, stop := stallable(t, 100*time.Millisecond)
				l := startLapse(o, leeway/triesOfLeeway, time.Now().Add(leeway))
				test.happen(l, stop)
				err := l.why()
				if test.own == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, test.own)
			})
		})
	}
}

// That the validity is over does not say why. That the lock is gone does.
func TestJobSaysWhyItsLockWasLost(t *testing.T) {
	t.Parallel()
	j, _, _ := jobOver(t, startHearer(t))
	o := startOwnTime(time.Hour, bootTime)
	t.Cleanup(o.stop)
	j.lapse = startLapse(o, time.Hour, j.lock.Until())
	require.ErrorContains(t, j.why(), "redlock did not run for ")
	j.lapse = nil
	require.ErrorContains(t, j.why(), "too few nodes answered")
	require.NoError(t, j.lock.Unlock(t.Context()))
	j.lapse = startLapse(o, time.Hour, j.lock.Until())
	err := j.why()
	require.ErrorIs(t, err, redlock.ErrLost)
	assert.NotErrorIs(t, err, redlock.ErrExpired)
}

// The answers to an extension may have come while redlock was stopped, of which its guard could not hear:
// it has told the command to end, and that is not the command's own end.
func TestJobKnowsWhatItsGuardHasDone(t *testing.T) {
	t.Parallel()
	g := startHearer(t)
	j, _, _ := jobOver(t, g)
	require.NoError(t, j.guard.watch(j.group, time.Now().Add(j.killAfter+time.Minute)))
	j.look()
	assert.False(t, j.told)
	require.NoError(t, j.guard.watch(j.group, time.Now().Add(j.killAfter)))
	j.look()
	assert.True(t, j.told)
	assert.True(t, j.end.killed)
	require.NoError(t, j.lock.Err(), "the lock is held")
	j, _, _ = jobOver(t, startHearer(t))
	j.guard.last = time.Time{}
	j.look()
	assert.False(t, j.told, "without a guard")
}
