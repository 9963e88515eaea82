package redlock_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// oneTurn is so long that the waiters of startLock come within it.
const oneTurn = 500 * time.Millisecond

func inTurns(opts ...redlock.Option) []redlock.Option {
	return append(slowly(), append(opts, redlock.WithTurn(oneTurn))...)
}

func lockInTurn(t *testing.T, r *redlock.Redlock, opts ...redlock.Option) *redlock.Lock {
	t.Helper()
	return waitLock(t, r, []string{"x"}, ttl, inTurns(opts...)...)
}

// requirePassed releases a lock, and returns the one that the waiter of the same process was passed, at that very moment.
func requirePassed(t *testing.T, l *redlock.Lock, w *waitingLock) *redlock.Lock {
	t.Helper()
	now := time.Now()
	require.NoError(t, l.Unlock(t.Context()))
	next := w.got(t)
	require.Equal(t, now, w.at)
	return next
}

// values are the tokens of x, by node; empty where it is free.
func values(t *testing.T, c *testcluster.Cluster) (all []string) {
	t.Helper()
	for _, n := range c.Nodes {
		all = append(all, keys(t, n)["x"].Value)
	}
	return all
}

func TestTurnPassesALockOn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, redlock.WithHook(rec.Hook))
		first := lockInTurn(t, r, redlock.WithOwner("first"))
		first.Wanted() // Who rests is told of without another look.
		second := startLock(t, r, []string{"x"}, inTurns(redlock.WithOwner("second"))...)
		third := startLock(t, r, []string{"x"}, inTurns()...)
		stored := values(t, c)
		rec.Take()
		asked := countCommands(t, "", c.Nodes...)
		assert.True(t, isWanted(first), "at once")

		l := requirePassed(t, first, second)
		require.NoError(t, l.Err())
		assert.Equal(t, first.Until(), l.Until())
		assert.Equal(t, "second", l.Owner())
		assert.Equal(t, first.Holder(), l.Holder(), "as nodes show it")
		assert.Equal(t, 1, l.Attempts())
		assert.NotEqual(t, first.Token(), l.Token())
		assert.NotContains(t, stored, l.Token())

		require.ErrorIs(t, first.Err(), redlock.ErrLost)
		require.ErrorIs(t, first.Extend(t.Context(), ttl), redlock.ErrLost)
		require.NoError(t, first.Unlock(t.Context()), "once more")
		synctest.Wait()
		assert.Zero(t, asked.Load(), "no node was asked")
		assert.Equal(t, stored, values(t, c))
		require.NoError(t, l.Err())

		last := requirePassed(t, l, third)
		require.NoError(t, last.Unlock(t.Context()))
		requireReleased(t, c)
		s := r.Stats()
		assert.EqualValues(t, 3, s.Acquired)
		assert.EqualValues(t, 2, s.Passed)
		assert.EqualValues(t, 3, s.Unlocked)
		var passed []bool
		for _, e := range rec.TakeLife() {
			if e.Kind == redlock.EventAcquired || e.Kind == redlock.EventReleased {
				passed = append(passed, e.Passed)
			}
		}
		assert.ElementsMatch(t, []bool{true, true, true, true, false}, passed, "two were passed on, and the last was released")
	})
}

// Once its time is over, whoever has waited longest comes, in any process.
func TestTurnEnds(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockInTurn(t, r)
		elsewhere := startLock(t, newRedlock(t, c), []string{"x"}, inTurns()...)
		here := startLock(t, r, []string{"x"}, inTurns()...)
		later := startLock(t, newRedlock(t, c), []string{"x"}, inTurns()...)
		time.Sleep(oneTurn)
		require.NoError(t, l.Unlock(t.Context()))
		requireInOrder(t, elsewhere, here)
		require.NoError(t, later.got(t).Unlock(t.Context()))
		assert.False(t, later.at.Before(here.at))
		assert.Zero(t, r.Stats().Passed)
	})
}

// A caller without the option takes no part: it may release its lock by token.
func TestTurnIsForThoseThatAskForIt(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockInTurn(t, r)
		w := startLock(t, r, []string{"x"}, slowly()...)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.Zero(t, r.Stats().Passed)
	})
}

// Whoever is first in line and cannot be passed the lock ends the turn: nobody overtakes it.
func TestTurnPassesNobodyBy(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) { // Who is first in one of its lines only.
		l := waitLock(t, r, []string{"x", "y"}, ttl, inTurns()...)
		y := startLock(t, r, []string{"y"}, slowly()...)
		both := startLock(t, r, []string{"x", "y"}, inTurns()...)
		require.NoError(t, l.Unlock(t.Context()))
		requireInOrder(t, y, both)
	})
}

// Retries are counted from the end of the turn, and those that have come in it count them, too.
func TestTurnAndRetries(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockInTurn(t, r)
		began := time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				opts := append(every(100*time.Millisecond, 3), redlock.WithTurn(oneTurn))
				err := givesUp(t, redlock.ErrTaken, r, []string{"x"}, opts...)
				assert.InDelta(t, oneTurn+300*time.Millisecond, time.Since(began), float64(10*time.Millisecond))
				assert.GreaterOrEqual(t, quorumError(t, err).Attempt, 3)
			})
		}
		all.Wait()
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// Nothing is passed on of a lock beside which this process has got another one, of whatever kind: nodes must have lost
// it.
func TestTurnEndsWithTheNextOne(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockInTurn(t, r)
		require.NoError(t, c.Del("x"))
		other := tryLock(t, r, []string{"w", "x"}, ttl)
		w := startLock(t, r, []string{"x"}, inTurns()...)
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrLost)
		require.NoError(t, other.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.Zero(t, r.Stats().Passed)
	})
}

// A turn that New was given is cut to a tenth of the validity. It may be longer than anything else that is remembered of
// a line in which nobody waits.
func TestTurnIsCutAndNotForgotten(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, append(slowly(), redlock.WithTurn(time.Hour))...)
		l := waitLock(t, r, []string{"x"}, time.Hour)
		time.Sleep(10 * time.Second)
		require.NoError(t, waitLock(t, r, []string{"y"}, ttl).Unlock(t.Context()))
		l = requirePassed(t, l, underWay(t, r, []string{"x"}, time.Hour))
		time.Sleep(6 * time.Minute)
		w := underWay(t, r, []string{"x"}, time.Hour)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.EqualValues(t, 1, r.Stats().Passed)
	})
}

// An extension that was under way when the lock was passed on is the next one's: its success, and the loss that it shows.
func TestTurnInheritsAnExtension(t *testing.T) {
	for _, lost := range []bool{false, true} {
		withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			l := lockInTurn(t, r)
			second := startLock(t, r, []string{"x"}, inTurns()...)
			third := startLock(t, r, []string{"x"}, inTurns()...)
			if lost {
				require.NoError(t, c.Set("x", "thief", 0))
			}
			slowDown(t, c)
			extended := meanwhile(func() error { return l.Extend(t.Context(), ttl) })
			time.Sleep(50 * time.Microsecond) // It is under way.
			until := l.Until()
			next := requirePassed(t, l, second)
			kept := next.KeepAlive(t.Context())
			require.NoError(t, next.Err())
			require.ErrorIs(t, <-extended, redlock.ErrLost, "of the handle that it was asked of")
			synctest.Wait()
			if !lost {
				require.NoError(t, next.Err())
				assert.True(t, next.Until().After(until))
				last := requirePassed(t, next, third)
				assert.Equal(t, next.Until(), last.Until())
				require.NoError(t, last.Unlock(t.Context()))
				return
			}
			require.ErrorIs(t, next.Err(), redlock.ErrLost)
			require.ErrorIs(t, context.Cause(kept), redlock.ErrLost)
			require.ErrorIs(t, next.Unlock(t.Context()), redlock.ErrLost)
			assert.EqualValues(t, 1, r.Stats().Passed)
			third.leaves()
		})
	}
}

// A caller that is passed the lock as Close comes, and only then runs, could not release it: it gives it back.
func TestTurnGivesBackWhatIsPassedAsCloseComes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // Whoever was passed the lock runs when this goroutine waits.
	givenBack := 0
	for range 20 {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			l := lockInTurn(t, r)
			w := startLock(t, r, []string{"x"}, inTurns()...)
			synctest.Wait()
			require.NoError(t, l.Unlock(t.Context()))
			require.NoError(t, r.Close(t.Context()))
			if <-w.done; w.err == nil {
				return // It has run before Close had begun, as may happen on a busy machine.
			}
			require.ErrorIs(t, w.err, redlock.ErrClosed)
			requireNoKeys(t, c)
			givenBack++
		})
	}
	assert.Positive(t, givenBack)
}

// The lock cannot be released by token: a process that is late would release that of a later caller.
func TestTurnHasNoTokenToReleaseBy(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockInTurn(t, r, redlock.WithOwner("me"))
		require.ErrorContains(t, newOver(t, forbiddenNodes(t, 3)).Release(t.Context(), []string{"x"}, l.Token()), "released by its handle")
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A caller that has asked for a fence, or for more room for clocks, must not be passed a lock without. It may let its
// lock end by itself, and a counter has to outlive what its caller says: no life is passed on that is longer, or
// shorter, than what it has asked for.
func TestTurnPassesOnlyWhatWasAskedFor(t *testing.T) {
	fenced, counted := redlock.WithFencing(), []redlock.Option{redlock.WithFencing(), redlock.WithFenceLife(time.Hour)}
	for name, tt := range map[string]struct {
		first, next []redlock.Option
		ttl         time.Duration
		passed      bool
		fence       bool // the next one has one
	}{
		"both fences":           {counted, counted, time.Second, true, true},
		"the next wants one":    {nil, []redlock.Option{fenced}, time.Second, false, true},
		"the next wants none":   {[]redlock.Option{fenced}, nil, time.Second, false, false},
		"a larger drift factor": {nil, []redlock.Option{redlock.WithDriftFactor(0.05)}, time.Second, false, false},
		"a shorter ttl":         {counted, counted, time.Second - time.Millisecond, false, true},
		"a much longer one":     {counted, counted, 2 * time.Second, false, true},
		"a longer fence life":   {counted, []redlock.Option{fenced, redlock.WithFenceLife(time.Hour + 1)}, time.Second, false, true},
	} {
		runWithWarm(t, name, 3, func(t *testing.T, _ *testcluster.Cluster, r *redlock.Redlock) {
			// Numbers below a fence are known to be free if somebody has had the resource some time before.
			require.NoError(t, lockOnAll(t, r, []string{"a"}, time.Second, fenced).Unlock(t.Context()))
			time.Sleep(time.Millisecond)
			turn := redlock.WithTurn(50 * time.Millisecond)
			l := waitLock(t, r, []string{"a"}, time.Second, append(tt.first, turn)...)
			w := underWay(t, r, []string{"a"}, tt.ttl, append(tt.next, turn)...)
			require.NoError(t, l.Unlock(t.Context()))
			next := w.got(t)
			require.Equal(t, tt.passed, r.Stats().Passed == 1)
			require.Equal(t, tt.passed, next.Holder() == l.Holder())
			require.Equal(t, tt.fence, next.Fence() > 0)
			require.LessOrEqual(t, time.Until(next.Until()), tt.ttl)
			require.NoError(t, next.Unlock(t.Context()))
		})
	}
}
