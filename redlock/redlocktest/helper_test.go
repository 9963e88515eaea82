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
