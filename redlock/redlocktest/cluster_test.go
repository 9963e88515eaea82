package redlocktest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
)

// The tests are in bubbles, which fail if a goroutine is left. The examples are the same in real time.

const ttl = 30 * time.Second

// tryLock locks resource, which must succeed.
func tryLock(t *testing.T, r *redlock.Redlock, resource string) *redlock.Lock {
	t.Helper()
	l, err := r.TryLock(t.Context(), []string{resource}, ttl)
	require.NoError(t, err)
	return l
}

// refused tries to lock resource, which must fail with want.
func refused(t *testing.T, r *redlock.Redlock, resource string, want error) {
	t.Helper()
	_, err := r.TryLock(t.Context(), []string{resource}, ttl)
	require.ErrorIs(t, err, want)
}

// A recorder is a TB that notes what is reported to it. The rest is that of a real one.
type recorder struct {
	testing.TB

	mu            sync.Mutex
	errors, fatal []string
	cleanups      []func()
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = append(r.fatal, fmt.Sprintf(format, args...))
}

func (r *recorder) Cleanup(fn func()) { r.cleanups = append(r.cleanups, fn) }

// finish ends the recorded test.
func (r *recorder) finish() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

func TestPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events int // Of the nodes' first connections; none may come from New.
		c := New(t, 3, redlock.WithPrefix("app:"), redlock.WithHook(func(context.Context, redlock.Event) { events++ }))
		require.Zero(t, events)
		release := c.Take("a", 0)
		require.Equal(t, []string{"a"}, c.Held())
		refused(t, c.Redlock, "a", redlock.ErrTaken)
		release()
		l := tryLock(t, c.Redlock, "a")
		require.Equal(t, l.Token(), c.Holder("a"))
		c.Lose(l)
		tryLock(t, c.Redlock, "a")
		c.Forget("a")
		c.AssertFree()
	})
}

func TestBadArguments(t *testing.T) {
	tb := &recorder{TB: t}
	require.Nil(t, New(tb, 0))
	require.Nil(t, New(tb, 3, redlock.WithRetryCount(-2)))
	require.Len(t, tb.fatal, 2)
	require.Equal(t, "redlocktest: New with 0 nodes: it takes 1 or more", tb.fatal[0])
	require.Contains(t, tb.fatal[1], "retry count -2")
	tb.finish()

	tb = &recorder{TB: t}
	c, other := New(tb, 3), New(t, 3)
	c.Take("", time.Second)()
	c.Take("a", -1)()
	c.Slow(-1)
	require.Empty(t, c.Held())
	l := tryLock(t, other.Redlock, "a")
	c.Lose(l)
	require.NoError(t, l.Err())
	tb.finish()
	require.Len(t, tb.errors, 4)
	require.Contains(t, tb.errors[3], "another Cluster")
}

// What outlives the test is reported, and not waited for longer than said.
func TestHoldThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := &recorder{TB: t}
		ctx := tryLock(t, New(tb, 3).Redlock, "a").KeepAlive(t.Context())
		start := time.Now()
		tb.finish()
		require.Equal(t, redlock.ErrClosed, context.Cause(ctx))
		require.Equal(t, patience, time.Since(start))
		require.Len(t, tb.errors, 1)
		require.Contains(t, tb.errors[0], "Kept:1")
	})
}

// The mistake is easy to make, and the runtime ends the program with a stack that does not tell.
func TestAClusterThatWasMadeOutsideOfTheBubbleSaysSo(t *testing.T) {
	const says = "redlocktest: the Cluster was made outside of the bubble that uses it: call New inside, with the T of the bubble"
	const longLife = 365 * 24 * time.Hour
	nothing := func(context.Context, *redlock.Lock) error { return nil }
	unused, used := New(t, 3), New(t, 3)
	lock, err := used.Redlock.TryLock(t.Context(), []string{"a"}, time.Minute)
	require.NoError(t, err)
	for _, n := range used.nodes { // An answer from outside of the bubble must not come to the release inside.
		require.NoError(t, n.Hang())
	}
	synctest.Test(t, func(t *testing.T) {
		for _, r := range []*redlock.Redlock{unused.Redlock, used.Redlock} {
			require.PanicsWithValue(t, says, func() { _, _ = r.TryLock(t.Context(), []string{"b"}, time.Minute) })
			require.PanicsWithValue(t, says, func() { _ = r.Do(t.Context(), []string{"b"}, time.Minute, nothing) })
		}
		require.PanicsWithValue(t, says, func() { _ = lock.Unlock(t.Context()) })
		require.PanicsWithValue(t, says, func() { used.NewRedlock() })
		time.Sleep(2 * longLife) // Fake time goes on in a Cluster of the bubble.
		inside := New(t, 3)
		time.Sleep(2 * longLife)
		require.NoError(t, inside.Redlock.Do(t.Context(), []string{"b"}, time.Minute, nothing))
	})
	for _, n := range used.nodes {
		require.NoError(t, n.Resume())
	}
	require.NoError(t, lock.Unlock(t.Context()), "it was not harmed")
}

// Without a quorum calls fail, and after Recover they succeed at once: also if connections have been given up meanwhile
// and attempts to connect have failed. What was locked is locked.
func TestWithoutQuorum(t *testing.T) {
	for name, fault := range map[string]func(*Cluster){
		"hang": (*Cluster).HangMajority,
		"stop": (*Cluster).StopMajority,
		"slow": func(c *Cluster) { c.Slow(time.Minute) },
		"all":  func(c *Cluster) { c.HangMajority(); c.StopMajority(); c.Slow(time.Second) },
	} {
		for _, n := range []int{1, 3, 4} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := New(t, n, redlock.WithRetryCount(-1))
					other := c.NewRedlock()
					require.NoError(t, c.NewRedlock().Close(t.Context()))
					for _, long := range []time.Duration{0, 601 * time.Millisecond, 7 * time.Second} {
						l := tryLock(t, other, "a")
						fault(c)
						refused(t, c.Redlock, "b", redlock.ErrNoQuorum)
						require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrNoQuorum)
						release := c.Take("b", 0)
						ctx, cancel := context.WithTimeout(t.Context(), long)
						_, err := c.Redlock.Lock(ctx, []string{"c"}, ttl)
						cancel()
						require.Error(t, err)
						start := time.Now()
						c.Recover()
						require.LessOrEqual(t, time.Since(start), 1500*time.Millisecond)
						refused(t, c.Redlock, "b", redlock.ErrTaken)
						release()
						require.NoError(t, l.Extend(t.Context(), ttl))
						require.NoError(t, l.Unlock(t.Context()))
						require.NoError(t, tryLock(t, c.Redlock, "c").Unlock(t.Context()))
						c.AssertFree()
					}
				})
			})
		}
	}
}

// A busy machine may run no node for a second, which is longer than package redlock waits by default; and a test may
// want that default.
func TestNodeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t, 3)
		impatient := c.NewRedlock(redlock.WithNodeTimeout(250 * time.Millisecond))
		tryLock(t, c.Redlock, "a")
		tryLock(t, impatient, "b")
		c.Slow(time.Second)
		tryLock(t, c.Redlock, "c")
		refused(t, impatient, "d", redlock.ErrNoQuorum)
		c.Recover()
	})
}

func TestAssertFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := &recorder{TB: t}
		c := New(tb, 3)
		time.AfterFunc(4*time.Second, c.Take("a", 0))
		c.AssertFree()
		require.Empty(t, tb.errors)
		c.Take("b", 0)
		c.Take("a", 0)
		c.AssertFree()
		require.Equal(t, []string{`redlocktest: still locked on some node: ["a" "b"]`}, tb.errors)
		tb.finish()
	})
}

// A lock with turns has a Token that no key has.
func TestLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := &recorder{TB: t}
		c := New(tb, 3, redlock.WithTurn(10*time.Millisecond))
		l, err := c.Redlock.Lock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		ctx := l.KeepAlive(t.Context())
		again := l.KeepAlive(t.Context())
		c.Lose(l)
		require.Equal(t, redlock.ErrLost, l.Err())
		require.Equal(t, redlock.ErrLost, context.Cause(ctx))
		require.Equal(t, redlock.ErrLost, context.Cause(again))

		// Once more: nothing is left to lose, and what somebody else has got is theirs.
		release := c.Take("a", time.Minute)
		c.Lose(l)
		require.NotEmpty(t, c.Holder("a"))
		release()
		require.Empty(t, tb.errors)

		l = tryLock(t, c.Redlock, "a")
		c.HangMajority()
		c.Lose(l)
		require.NoError(t, l.Err())
		require.Len(t, tb.errors, 1)
		require.Contains(t, tb.errors[0], "no quorum")
		tb.finish()
	})
}

// A release that comes again does no harm. Ttls end by the bubble's clock.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t, 3)
		release := c.Take("a", time.Hour)
		refused(t, c.Redlock, "a", redlock.ErrTaken)
		tryLock(t, c.Redlock, "b")
		time.AfterFunc(time.Second, release)
		l, err := c.Redlock.Lock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		release()
		require.NoError(t, l.Unlock(t.Context()))

		c.Take("c", 0)
		inspection, err := c.Redlock.Inspect(t.Context(), "c")
		require.NoError(t, err)
		require.True(t, inspection.Held)
		require.Negative(t, inspection.TTL)

		c.Take("a", time.Minute-time.Microsecond)
		time.Sleep(time.Minute - time.Millisecond)
		refused(t, c.Redlock, "a", redlock.ErrTaken)
		time.Sleep(time.Millisecond)
		tryLock(t, c.Redlock, "a")
	})
}

// Whoever holds what is taken finds out by its next extension, or at its release.
func TestTakeFromAHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t, 3)
		err := c.Redlock.Do(t.Context(), []string{"a"}, ttl, func(ctx context.Context, _ *redlock.Lock) error {
			c.Take("a", time.Minute)
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(t, err, redlock.ErrLost)
		require.NotErrorIs(t, err, redlock.ErrExpired)
		l := tryLock(t, c.Redlock, "b")
		c.Take("b", time.Minute)
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrLost)
		require.Equal(t, []string{"a", "b"}, c.Held())
	})
}
