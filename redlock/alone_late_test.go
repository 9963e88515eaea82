package redlock

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A caller that the system did not let run between setting the timer and asking the node does not wait for the answer:
// its time is over, and nothing interrupts it any more.
func TestAloneCallerThatAsksWhenItsTimeIsOver(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newOver(t, []Node{{"a", &conn.Dialer{
			Dial:    func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Nodes[0].Dial(ctx) },
			Network: "tcp", Address: c.Nodes[0].Addr(),
		}}}, WithNodeTimeout(20*time.Millisecond))
		for range 5 {
			l, err := r.TryLock(t.Context(), []string{"b"}, time.Minute)
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
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
