package redlock

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// These are tests of callers that are alone which look deeper.

// A caller that the system did not let run between setting the timer and asking the node does not wait for the answer:
// its time is over, and nothing interrupts it any more.
func TestAloneCallerThatAsksWhenItsTimeIsOver(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newOver(t, dialed(c), WithNodeTimeout(20*time.Millisecond))
		for range 5 {
			cycleOf(t, r)
		}
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		require.NoError(t, c.Nodes[0].Hang())

		rd := r.newRound(t.Context(), l.claim, extendCommand(l.claim, int64(60_000), false), lease.Extending, 0)
		rd.lock, rd.rules.Valid = l, &l.rules.Until
		began := time.Now()
		rd.mu.Lock()
		rd.task.Limit = 20 * time.Millisecond
		rd.rules.Start = began
		require.True(t, rd.rules.Begin(began, 20*time.Millisecond).Has(lease.Ask))
		asks := rd.asksLocked(nil)
		rd.armLocked()
		rd.mu.Unlock()
		<-rd.decided
		synctest.Wait()
		require.NoError(t, rd.enqueue(asks[0], true, time.Now()))
		require.True(t, rd.alone)
		require.NoError(t, rd.wait(context.Background(), nil))
		assert.Equal(t, 20*time.Millisecond, time.Since(began))
		require.NoError(t, c.Nodes[0].Resume())
	})
}

// dialed is the first node, with connections of which a caller that is alone may read.
func dialed(c *testcluster.Cluster) []Node {
	return []Node{{"a", &conn.Dialer{
		Dial:    func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Nodes[0].Dial(ctx) },
		Network: "tcp", Address: c.Nodes[0].Addr(),
	}}}
}

// What is asked aside is no sign of life, so the watchdog may sleep: the reader must not rest then.
func TestAloneConnectionThatBreaksAfterAQuestionAside(t *testing.T) {
	for at := 135 * time.Millisecond; at < 250*time.Millisecond; at += 20 * time.Millisecond {
		inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
			r := newOver(t, dialed(c))
			for range 3 {
				cycleOf(t, r)
			}
			time.Sleep(5 * time.Second)
			cycleOf(t, r) // With the look at the notes that is three requests; it takes four.
			time.Sleep(at)
			require.True(t, r.nodes[0].Aside(0, inspectCommand("b"), nil))
			time.Sleep(350 * time.Millisecond)
			require.Zero(t, r.nodes[0].Stats().Backlog)
			c.Nodes[0].Proxy().Kill()
			synctest.Wait()
			time.Sleep(500 * time.Millisecond)
			assert.EqualValues(t, 2, r.nodes[0].Stats().Connects, "after %v", at)
		})
	}
}

func cycleOf(t *testing.T, r *Redlock) {
	t.Helper()
	l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
}

// The user's code ends the caller, by a panic or as FailNow does, when nobody else reads.
func TestAloneCallerThatIsEndedByTheUsersCode(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("Done") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
				r := newOver(t, dialed(c), WithNodeTimeout(20*time.Millisecond))
				for range 5 {
					cycleOf(t, r)
				}
				var call sync.WaitGroup
				call.Go(func() {
					defer func() { _ = recover() }()
					_, _ = r.TryLock(endsAtDone{t.Context(), end}, []string{"b"}, time.Minute)
				})
				call.Wait()
				for range 5 {
					cycleOf(t, r)
				}
				assert.EqualValues(t, 1, r.nodes[0].Stats().Connects)
			})
		})
	}
}

type endsAtDone struct {
	context.Context //nolint:containedctx // It is one itself.

	end func()
}

func (c endsAtDone) Done() <-chan struct{} {
	c.end()
	return nil
}

// A connection that broke while nobody read is made anew before the attempt, and not within its node timeout.
func TestAloneCallerWaitsForAConnectionThatBroke(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newOver(t, dialed(c), WithNodeTimeout(50*time.Millisecond))
		require.NoError(t, c.Slow(15*time.Millisecond, 15*time.Millisecond))
		for range 5 {
			cycleOf(t, r)
		}
		c.Nodes[0].Proxy().Kill()
		synctest.Wait()
		cycleOf(t, r)
		assert.EqualValues(t, 2, r.nodes[0].Stats().Connects)
	})
}
