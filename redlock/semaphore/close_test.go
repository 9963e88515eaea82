package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Close of the Redlock ends all waits, and leaves the permits that are held.
func TestCloseEndsWaits(t *testing.T) {
	testkit.WithRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		s := newSemaphore(t, r, 2)
		held := acquireAll(t, s, 2)
		var calls []*call
		for range 5 {
			calls = append(calls, start(t.Context(), s))
		}
		time.Sleep(time.Second)
		began := time.Now()
		require.NoError(t, r.Close(t.Context()))
		for _, call := range calls {
			<-call.done
			assert.Equal(t, began, call.at)
			require.ErrorIs(t, call.err, redlock.ErrClosed)
			require.ErrorIs(t, call.err, redlock.ErrNotAcquired)
		}
		for _, p := range held {
			require.NoError(t, p.Err())
			assert.Equal(t, 3, testkit.Holders(t, c, p.Lock))
		}
		_, err := s.Acquire(t.Context())
		require.ErrorIs(t, err, redlock.ErrClosed)
		_, err = s.TryAcquire(t.Context())
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
	})
}

// slow has a call of Lock return only when the test says so, after it has got its lock, and a release take its
// time before it begins.
type slow struct{ got, on chan struct{} }

func (l slow) Begin(ctx context.Context, op redlock.Op, _ []string) context.Context {
	if op == redlock.OpUnlock {
		time.Sleep(time.Second)
	}
	return ctx
}

func (l slow) End(_ context.Context, e redlock.Event) {
	if e.Kind == redlock.EventAcquired {
		l.got <- struct{}{}
		<-l.on
	}
}

func (slow) Wants(context.Context, redlock.EventKind) bool { return false }

func (slow) Event(context.Context, redlock.Event) {}

// A slot that was won when its caller has just given up is given back, also if Close comes before that.
// Close waits for the release, however late it begins.
func TestCloseWaitsForTheSurplus(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		stop := slow{make(chan struct{}), make(chan struct{})}
		r := testkit.NewRedlock(t, c, redlock.WithTracer(stop))
		ctx, cancel := context.WithCancel(t.Context())
		waiting := start(ctx, newSemaphore(t, r, 2))
		<-stop.got
		cancel()
		<-waiting.done
		require.ErrorIs(t, waiting.err, context.Canceled)
		closed := make(chan error)
		go func() { closed <- r.Close(context.WithoutCancel(ctx)) }()
		synctest.Wait()
		close(stop.on)
		require.NoError(t, <-closed)
		testkit.RequireNoKeys(t, c)
	})
}

// So it is with what TryAcquire gets in surplus.
func TestCloseWaitsForTheSurplusOfATry(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		stop := slow{make(chan struct{}), make(chan struct{})}
		r := testkit.NewRedlock(t, c, redlock.WithTracer(stop))
		s := newSemaphore(t, r, 3)
		held := acquire(t, process(t, c, 3))
		held.KeepAlive(t.Context()) // However many rounds it takes, of a second each.
		for both := false; !both; { // Until the slot that it asks for first is taken: then it gets the other two.
			got := make(chan *semaphore.Permit)
			go func() {
				p, err := s.TryAcquire(t.Context())
				assert.NoError(t, err)
				got <- p
			}()
			<-stop.got
			synctest.Wait()
			select {
			case <-stop.got:
				both = true
				stop.on <- struct{}{}
			default:
			}
			stop.on <- struct{}{}
			p := <-got
			if both {
				require.NoError(t, r.Close(t.Context()))
				require.Equal(t, map[string]bool{held.Resources()[0]: true, p.Resources()[0]: true}, taken(t, c))
			} else {
				unlock(t, p)
			}
		}
	})
}
