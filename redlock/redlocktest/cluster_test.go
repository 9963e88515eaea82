package redlocktest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
)

// ttl is one that no test waits for in real time.
const ttl = 30 * time.Second

// everywhere runs fn in a bubble and outside of one.
func everywhere(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, fn) })
	t.Run("real time", func(t *testing.T) {
		requireNoLeaks(t)
		fn(t)
	})
}

// inRealTime reports whether everywhere runs this one outside of a bubble.
func inRealTime(t *testing.T) bool {
	t.Helper()
	return strings.HasSuffix(t.Name(), "/real_time")
}

// calm is a node timeout that a busy machine does not exceed.
func calm() redlock.Option { return redlock.WithNodeTimeout(patience) }

// requireNoLeaks fails the test if goroutines of the library or of the nodes
// outlive its cleanup. Bubbles check the same by themselves.
func requireNoLeaks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return len(leaks()) == 0 }, patience, time.Millisecond, "%s", leaks())
	})
}

func leaks() (left []string) {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		ours := strings.Contains(stack, "redlock.(") || strings.Contains(stack, "testcluster.") || strings.Contains(stack, "miniredis")
		if ours && !strings.Contains(stack, "testing.tRunner") {
			left = append(left, stack)
		}
	}
	return left
}

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

// within returns when the context has ended, and its cause.
func within(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return fmt.Errorf("the context did not end within %v", d)
	}
}

// A recorder is a TB that notes what is reported to it. The rest is that of a
// real one.
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
	r.mu.Lock()
	defer r.mu.Unlock()
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
	everywhere(t, func(t *testing.T) {
		var events int // Of the nodes' first connections; none may come from New.
		c := New(t, 3, redlock.WithPrefix("app:"), calm(),
			redlock.WithHook(func(context.Context, redlock.Event) { events++ }))
		require.Equal(t, "app:", c.prefix)
		require.Zero(t, events)

		release := c.Take("a", 0)
		require.Equal(t, []string{"a"}, c.Held())
		refused(t, c.Redlock, "a", redlock.ErrTaken)
		release()
		l := tryLock(t, c.Redlock, "a")
		require.Equal(t, l.Token(), c.Holder("a"))
		c.Lose(l)
		require.ErrorIs(t, l.Err(), redlock.ErrLost)
		tryLock(t, c.Redlock, "a")
		c.Forget("a")
		c.AssertFree()
	})
}

func TestBadArguments(t *testing.T) {
	tb := &recorder{TB: t}
	for _, n := range []int{0, -1} {
		require.Nil(t, New(tb, n))
	}
	require.Nil(t, New(tb, 3, redlock.WithRetryCount(-2)))
	require.Len(t, tb.fatal, 3)
	require.Equal(t, "redlocktest: New with 0 nodes: it takes 1 or more", tb.fatal[0])
	require.Contains(t, tb.fatal[2], "retry count -2")
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
	require.Nil(t, c.NewRedlock(redlock.WithDriftFactor(2)))
	tb.finish()
	require.Len(t, tb.errors, 4)
	require.Contains(t, tb.errors[3], "another Cluster")
	require.Len(t, tb.fatal, 1)
}

// TestHoldThatDoesNotEnd: what outlives the test is reported, and not waited for
// longer than said.
func TestHoldThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := &recorder{TB: t}
		c := New(tb, 3)
		ctx := tryLock(t, c.Redlock, "a").KeepAlive(t.Context())
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
	unused, used := New(t, 3), New(t, 3)
	lock, err := used.Redlock.TryLock(t.Context(), []string{"a"}, time.Minute)
	require.NoError(t, err)
	for _, n := range used.nodes { // An answer from outside of the bubble must not come to the release inside.
		require.NoError(t, n.Hang())
	}
	synctest.Test(t, func(t *testing.T) {
		for _, r := range []*redlock.Redlock{unused.Redlock, used.Redlock} {
			require.PanicsWithValue(t, says, func() { _, _ = r.TryLock(t.Context(), []string{"b"}, time.Minute) })
			require.PanicsWithValue(t, says, func() {
				_ = r.Do(t.Context(), []string{"b"}, time.Minute, func(context.Context, *redlock.Lock) error { return nil })
			})
		}
		require.PanicsWithValue(t, says, func() { _ = lock.Unlock(t.Context()) })
		require.PanicsWithValue(t, says, func() { used.NewRedlock() })
		time.Sleep(2 * longLife) // Fake time goes on in a Cluster of the bubble.
		inside := New(t, 3)
		time.Sleep(2 * longLife)
		require.NoError(t, inside.Redlock.Do(t.Context(), []string{"b"}, time.Minute, func(context.Context, *redlock.Lock) error { return nil }))
	})
	for _, n := range used.nodes {
		require.NoError(t, n.Resume())
	}
	require.NoError(t, lock.Unlock(t.Context()), "it was not harmed")
}

const longLife = 365 * 24 * time.Hour
