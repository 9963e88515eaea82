package redlock_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
)

// oneTurn is so long that the waiters of startLock come within it.
const oneTurn = 500 * time.Millisecond

func inTurns(opts ...redlock.Option) []redlock.Option {
	return append(slowly(), append(opts, redlock.WithTurn(oneTurn))...)
}

func lockInTurn(t *testing.T, r *redlock.Redlock, opts ...redlock.Option) *redlock.Lock {
	t.Helper()
	l := waitLock(t, r, []string{"x"}, ttl, inTurns(opts...)...)
	return l
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
		second := startLock(t, r, []string{"x"}, inTurns(redlock.WithOwner("second"))...)
		third := startLock(t, r, []string{"x"}, inTurns()...)
		stored := values(t, c)
		rec.Take()
		var asked atomic.Int64
		for _, n := range c.Nodes {
			require.NoError(t, n.OnCommand(func(string, []string) { asked.Add(1) }))
		}

		l := requirePassed(t, first, second)
		require.NoError(t, l.Err())
		assert.Equal(t, first.Until(), l.Until())
		assert.Equal(t, "second", l.Owner())
		assert.Equal(t, first.Holder(), l.Holder(), "as nodes show it")
		assert.Equal(t, 1, l.Attempts())
		assert.NotEqual(t, first.Token(), l.Token())
		token := l.Token()
		assert.Equal(t, token, l.Token())
		assert.NotContains(t, stored, first.Token())
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
		synctest.Wait()
		requireNoKeys(t, c)
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

// Neither a TryLock nor a call that polls takes part, nor one that wants something else.
func TestTurnIsForThoseThatWaitForTheSame(t *testing.T) {
	for name, other := range map[string]struct {
		resources []string
		opts      []redlock.Option
	}{
		"without the option": {[]string{"x"}, slowly()},
		"more":               {[]string{"x", "y"}, inTurns()},
		"polls":              {[]string{"x"}, append(inTurns(), redlock.WithPolling(), redlock.WithRetryDelay(time.Second))},
		"a longer ttl":       {[]string{"x"}, inTurns()},
	} {
		runWithRedlock(t, name, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			life := ttl
			if name == "a longer ttl" {
				life = ttl / 2
			}
			l := waitLock(t, r, []string{"x"}, life, append(slowly(), redlock.WithTurn(oneTurn/2))...)
			w := startLock(t, r, other.resources, other.opts...)
			require.NoError(t, l.Unlock(t.Context()))
			require.NoError(t, w.got(t).Unlock(t.Context()))
			assert.Zero(t, r.Stats().Passed)
		})
	}
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := tryLock(t, r, []string{"x"}, ttl, redlock.WithTurn(oneTurn))
		w := startLock(t, r, []string{"x"}, inTurns()...)
		assert.Contains(t, values(t, c), l.Token())
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.Zero(t, r.Stats().Passed)
	})
}

// Whoever is first in line and cannot be passed the lock ends the turn: nobody overtakes it.
func TestTurnPassesNobodyBy(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockInTurn(t, r)
		plain := startLock(t, r, []string{"x"}, slowly()...)
		w := startLock(t, r, []string{"x"}, inTurns()...)
		require.NoError(t, l.Unlock(t.Context()))
		requireInOrder(t, plain, w)
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) { // Who is first in one of its lines only.
		r := newRedlock(t, c)
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

// A caller that gives up is passed by, and nobody's lock is forgotten. It has asked no node, but knows that the
// resource was taken; and it has waited.
func TestTurnAndCallersThatGiveUp(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockInTurn(t, r)
		first := startLock(t, r, []string{"x"}, inTurns()...)
		assert.Equal(t, 1, r.Stats().Waiting)
		second := startLock(t, r, []string{"x"}, inTurns()...)
		first.leaves()
		assert.Equal(t, 1, r.Stats().Waiting)
		require.ErrorIs(t, first.err, context.Canceled)
		_, err := r.Lock(t.Context(), []string{"x"}, ttl, inTurns(redlock.WithWait(100*time.Millisecond))...)
		for _, err := range []error{first.err, err} {
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.ErrorIs(t, err, redlock.ErrNotAcquired)
			require.NotErrorIs(t, err, redlock.ErrNoQuorum)
			require.ErrorContains(t, err, "a lock of this process had it")
		}
		require.NoError(t, requirePassed(t, l, second).Unlock(t.Context()))
		requireReleased(t, c)
	})
}

// A lock is passed on while it is held by its own clocks, and not after a loss.
func TestTurnEndsWithTheLock(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockInTurn(t, r)
		w := startLock(t, r, []string{"x"}, inTurns()...)
		require.NoError(t, c.Del("x"))
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrLost)
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrLost)
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.Zero(t, r.Stats().Passed)
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) { // Nobody looks before the end of the turn.
		r := newRedlock(t, c)
		l := lockInTurn(t, r)
		w := startLock(t, r, []string{"x"}, inTurns()...)
		require.NoError(t, c.Set("x", "thief", 0))
		next := requirePassed(t, l, w)
		require.ErrorIs(t, next.Unlock(t.Context()), redlock.ErrLost)
	})
}

// Nothing is passed on of a lock beside which this process has got another one, of whatever kind: nodes must have lost
// it.
func TestTurnEndsWithTheNextOne(t *testing.T) {
	for name, next := range map[string]struct {
		resources []string
		opts      []redlock.Option
	}{
		"in its turn":        {[]string{"x", "y"}, inTurns()},
		"that does not wait": {[]string{"w", "x"}, []redlock.Option{redlock.WithRetryCount(0)}},
		"without the option": {[]string{"x"}, nil},
	} {
		runWithRedlock(t, name, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			l := lockInTurn(t, r)
			require.NoError(t, c.Del("x"))
			other := waitLock(t, r, next.resources, ttl, next.opts...)
			w := startLock(t, r, []string{"x"}, inTurns()...)
			require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrLost)
			require.NoError(t, other.Unlock(t.Context()))
			require.NoError(t, w.got(t).Unlock(t.Context()))
			assert.Zero(t, r.Stats().Passed)
		})
	}
}

// A turn may be longer than anything else that is remembered of a line in which nobody waits.
func TestTurnIsNotForgotten(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		long := append(slowly(), redlock.WithTurn(time.Minute))
		l := waitLock(t, r, []string{"x"}, time.Hour, long...)
		time.Sleep(10 * time.Second)
		require.NoError(t, tryLock(t, r, []string{"y"}, ttl).Unlock(t.Context()))
		require.NoError(t, waitLock(t, r, []string{"z"}, ttl).Unlock(t.Context()))
		w := underWay(t, r, []string{"x"}, time.Hour, long...)
		require.NoError(t, requirePassed(t, l, w).Unlock(t.Context()))
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

// A node that has lost its keys gets them again once, whoever has the lock then.
func TestTurnPassesRepairsOn(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockInTurn(t, r)
		w := startLock(t, r, []string{"x"}, inTurns()...)
		do(t, c.Nodes[0], "FLUSHALL")
		slowDown(t, c)
		go func() { _ = l.Extend(t.Context(), ttl) }()
		time.Sleep(50 * time.Microsecond)
		next := requirePassed(t, l, w)
		time.Sleep(100 * time.Millisecond)
		assert.NotEmpty(t, values(t, c)[0])
		do(t, c.Nodes[0], "FLUSHALL")
		require.NoError(t, next.Extend(t.Context(), ttl))
		time.Sleep(100 * time.Millisecond)
		assert.NotEmpty(t, values(t, c)[0])
		require.NoError(t, next.Unlock(t.Context()))
	})
}

// The context of the one ends before the other has the lock, and each has its own limits.
func TestTurnHasAHoldForEach(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockInTurn(t, r, redlock.WithMaxHold(400*time.Millisecond))
		w := startLock(t, r, []string{"x"}, inTurns(redlock.WithMaxHold(400*time.Millisecond))...)
		kept := l.KeepAlive(t.Context())
		time.Sleep(300 * time.Millisecond)
		next := requirePassed(t, l, w)
		require.ErrorIs(t, kept.Err(), context.Canceled)
		passed := time.Now()
		ctx := next.KeepAlive(t.Context())
		<-ctx.Done()
		assert.Equal(t, 400*time.Millisecond, time.Since(passed))
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrMaxHold)
		require.NoError(t, next.Unlock(t.Context()))
	})
}

// While the Redlock is being closed, nothing is passed on.
func TestTurnEndsWithClose(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockInTurn(t, r)
		w := startLock(t, r, []string{"x"}, inTurns()...)
		l.KeepAlive(t.Context()) // Close waits for it.
		closed := meanwhile(func() error { return r.Close(t.Context()) })
		<-w.done
		require.ErrorIs(t, w.err, redlock.ErrClosed)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, <-closed)
		requireNoKeys(t, c)
	})
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

// Each slot of a semaphore is passed on by itself.
func TestTurnsOfASemaphore(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		s, err := semaphore.New(r, "s", 2, ttl, redlock.WithTurn(oneTurn))
		require.NoError(t, err)
		var all sync.WaitGroup
		held, most := 0, 0
		var mu sync.Mutex
		count := func(d int) {
			mu.Lock()
			defer mu.Unlock()
			held += d
			most = max(most, held)
		}
		for range 8 {
			all.Go(func() {
				for range 20 {
					p, err := s.Acquire(t.Context())
					if assert.NoError(t, err) {
						count(1)
						time.Sleep(10 * time.Millisecond)
						count(-1)
						assert.NoError(t, p.Unlock(t.Context()))
					}
				}
			})
		}
		all.Wait()
		assert.Equal(t, 2, most)
		assert.Greater(t, r.Stats().Passed, int64(50))
		synctest.Wait()
		requireNoKeys(t, c)
	})
}

func TestTurnArguments(t *testing.T) {
	r := newOver(t, forbiddenNodes(t, 3))
	for want, opts := range map[string][]redlock.Option{
		"turn -1s: must not be negative":               {redlock.WithTurn(-time.Second)},
		"turn 5ns: is below":                           {redlock.WithTurn(5)},
		"turn 1s: must not exceed a tenth":             {redlock.WithTurn(time.Second)},
		"cannot be combined with a min hold, which is": {redlock.WithTurn(time.Millisecond), redlock.WithMinHold(time.Second)},
	} {
		_, err := r.Lock(t.Context(), []string{"x"}, ttl, opts...)
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
	}
	_, err := redlock.New(forbiddenNodes(t, 3), redlock.WithTurn(time.Millisecond), redlock.WithMinHold(time.Second))
	require.ErrorContains(t, err, "min hold")
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) { // That of New is cut.
		r := newRedlock(t, c, append(slowly(), redlock.WithTurn(time.Hour))...)
		l := waitLock(t, r, []string{"x"}, ttl)
		w := startLock(t, r, []string{"x"})
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.Zero(t, r.Stats().Passed)
		l = waitLock(t, r, []string{"x"}, ttl)
		require.NoError(t, requirePassed(t, l, startLock(t, r, []string{"x"})).Unlock(t.Context()))
		require.NoError(t, tryLock(t, r, []string{"y"}, time.Second).Unlock(t.Context()))
	})
}

// A caller that has asked for a fence, or for more room for clocks, must not be passed a lock without. It may let its
// lock end by itself, and a counter has to outlive what its caller says: no life is passed on that is longer, or
// shorter, than what it has asked for.
func TestTurnPassesOnlyWhatWasAskedFor(t *testing.T) {
	fenced := redlock.WithFencing()
	countedFor := func(life time.Duration) []redlock.Option {
		return []redlock.Option{fenced, redlock.WithFenceLife(life)}
	}
	counted := countedFor(time.Hour)
	for name, tt := range map[string]struct {
		first, next []redlock.Option
		ttl         time.Duration
		passed      bool
		fence       bool // the next one has one
	}{
		"the same":              {nil, nil, time.Second, true, false},
		"both fences":           {counted, counted, time.Second, true, true},
		"the next wants one":    {nil, []redlock.Option{fenced}, time.Second, false, true},
		"the next wants none":   {[]redlock.Option{fenced}, nil, time.Second, false, false},
		"a larger drift factor": {nil, []redlock.Option{redlock.WithDriftFactor(0.05)}, time.Second, false, false},
		"a smaller one":         {nil, []redlock.Option{redlock.WithDriftFactor(0.005)}, time.Second, true, false},
		"a shorter ttl":         {counted, counted, time.Second - time.Millisecond, false, true},
		"a longer one":          {counted, counted, time.Second + time.Millisecond, true, true},
		"a much longer one":     {counted, counted, 2 * time.Second, false, true},
		"a shorter fence life":  {counted, countedFor(time.Minute), time.Second, true, true},
		"a longer fence life":   {counted, countedFor(time.Hour + 1), time.Second, false, true},
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

// A caller that rests until it is passed the lock waits like any other, and the holder hears of it at once.
func TestTurnTellsTheHolderWhoRests(t *testing.T) {
	withWarm(t, 3, func(t *testing.T, _ *testcluster.Cluster, r *redlock.Redlock) {
		turn := redlock.WithTurn(50 * time.Millisecond)
		l := waitLock(t, r, []string{"a"}, time.Second, turn)
		wanted := l.Wanted()
		done := make(chan error)
		go func() { done <- waitLock(t, r, []string{"a"}, time.Second, turn).Unlock(t.Context()) }()
		synctest.Wait()
		select {
		case <-wanted:
		default:
			require.Fail(t, "the holder has not heard of it")
		}
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, <-done)
	})
}
