package testkit

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A Call is one that may have to wait, on a goroutine of its own.
type Call[H any] struct {
	Done chan struct{} // It has returned.
	Held H
	Err  error
	At   time.Time // when it returned
}

// Start begins a call.
func Start[H any](ctx context.Context, do func(context.Context) (H, error)) *Call[H] {
	c := &Call[H]{Done: make(chan struct{})}
	go func() {
		c.Held, c.Err = do(ctx)
		c.At = time.Now()
		close(c.Done)
	}()
	return c
}

// Waits reports whether the call has not returned when nothing happens any more but by time. It needs a bubble.
func (c *Call[H]) Waits() bool {
	synctest.Wait()
	select {
	case <-c.Done:
		return false
	default:
		return true
	}
}

// Got waits for what the call gets.
func (c *Call[H]) Got(t *testing.T) H {
	t.Helper()
	require.NoError(t, c.Failed(t))
	return c.Held
}

// Failed waits for the call's error.
func (c *Call[H]) Failed(t *testing.T) error {
	t.Helper()
	select {
	case <-c.Done:
	case <-time.After(5 * time.Minute):
		require.Fail(t, "it waits for ever")
	}
	return c.Err
}

// RequireNothingLeft checks that no node has a lock, once all that is on its way has arrived. It needs a bubble.
func RequireNothingLeft(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	synctest.Wait()
	RequireNoKeys(t, c)
}

// A Tracer calls functions as calls begin and end. It wants no other event.
type Tracer struct {
	Begins func(op redlock.Op)
	Ends   func(e redlock.Event)
}

// Begin implements [redlock.Tracer].
func (t Tracer) Begin(ctx context.Context, op redlock.Op, _ []string) context.Context {
	if t.Begins != nil {
		t.Begins(op)
	}
	return ctx
}

// End implements [redlock.Tracer].
func (t Tracer) End(_ context.Context, e redlock.Event) { t.Ends(e) }

// Wants implements [redlock.Tracer].
func (Tracer) Wants(context.Context, redlock.EventKind) bool { return false }

// Event implements [redlock.Tracer].
func (Tracer) Event(context.Context, redlock.Event) {}

// A Latch is a tracer that has a call which has got a lock return only when the test says so.
type Latch struct {
	Tracer
	Got, On chan struct{}
}

// NewLatch returns one for locks of resources that begin so, whose releases take their time before they begin.
func NewLatch(prefix string, release time.Duration) Latch {
	l := Latch{Got: make(chan struct{}), On: make(chan struct{})}
	l.Begins = func(op redlock.Op) {
		if op == redlock.OpUnlock {
			time.Sleep(release)
		}
	}
	l.Ends = func(e redlock.Event) {
		if e.Kind == redlock.EventAcquired && strings.HasPrefix(e.Resources[0], prefix) {
			l.Got <- struct{}{}
			<-l.On
		}
	}
	return l
}
