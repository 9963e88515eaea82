package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// The connections on which releases are heard are there while somebody waits, and
// for a while after.
func TestWaitSubscriptionsEndWhenNobodyWaits(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, taps := tapped(c)
		r := newOver(t, nodes)
		requireOpen := func(now, ever int) {
			t.Helper()
			synctest.Wait()
			for _, tp := range taps {
				n, e := tp.Open()
				require.Equal(t, []int{now, ever}, []int{n, e})
			}
		}
		cycle(t, r, "free", ttl)
		require.NoError(t, lockElsewhere(t, c, "x", time.Second).Err())
		require.NoError(t, waitLock(t, r, []string{"x"}, ttl, redlock.WithPolling()).Unlock(t.Context()))
		requireOpen(0, 0) // Nobody had to wait, but who polls.
		for i := range 2 {
			held := lockElsewhere(t, c, "x", time.Hour)
			w := startLock(t, r, []string{"x"}, slowly()...)
			time.Sleep(5 * node.IdlePing) // Also by firewalls that forget silent connections.
			requireOpen(1, i+1)
			require.NoError(t, held.Unlock(t.Context()))
			require.NoError(t, w.got(t).Unlock(t.Context()))
			time.Sleep(link.ListenFor - time.Second)
			requireOpen(1, i+1)
			time.Sleep(2 * time.Second)
			requireOpen(0, i+1)
			assert.False(t, r.Stats().Nodes[0].Listens)
		}
	})
}

// What was released meanwhile is noticed when it is back.
func TestWaitSubscriptionThatBrokeComesBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, taps := tapped(c)
		r := newOver(t, nodes)
		for i := range 6 {
			held := lockElsewhere(t, c, "x", time.Hour)
			w := startLock(t, r, []string{"x"}, slowly()...)
			for _, tp := range taps {
				tp.Cut()
			}
			if i%2 == 0 {
				w.takesOver(t, held, 2*link.MaxRelisten)
				continue
			}
			time.Sleep(2 * link.MaxRelisten)
			for _, tp := range taps { // Of subscriptions that have lasted.
				tp.Cut()
			}
			time.Sleep(100 * time.Millisecond)
			for _, n := range r.Stats().Nodes {
				assert.True(t, n.Listens)
			}
			w.takesOver(t, held, 10*time.Millisecond)
		}
	})
}

// After an outage a client hears of releases as soon as it reaches the node, however long the outage was.
func TestWaitSubscriptionComesBackWithItsNode(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		held := lockElsewhere(t, c, "x", time.Hour)
		startLock(t, r, []string{"x"}, slowly()...)
		time.Sleep(link.MaxRelisten) // It has just cut a pause short.
		for outage := range 8 {
			require.NoError(t, c.Nodes[0].Stop())
			time.Sleep(time.Duration(outage+1) * 3 * time.Second)
			require.NoError(t, c.Nodes[0].Restart(true))
			for !r.Stats().Nodes[0].Up {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Millisecond)
			require.True(t, r.Stats().Nodes[0].Listens, "after %d", outage)
		}
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// overSpentPools returns a Redlock that is connected, and whose nodes give no further connection while they are spent.
func overSpentPools(
	t *testing.T, c *testcluster.Cluster, spent *atomic.Bool, opts ...redlock.Option,
) (r *redlock.Redlock, rec *recorder) {
	t.Helper()
	nodes := make([]redlock.Node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = redlock.Node{Name: n.Name(), Pool: redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
			if spent.Load() {
				return nil, errors.New("spent")
			}
			return n.Conn(ctx)
		})}
	}
	rec = new(recorder)
	r = newOver(t, nodes, append(opts, redlock.WithHook(rec.Hook))...)
	warm(t, r)
	return r, rec
}

// A fault of a moment as somebody begins to listen is no event: the next attempt comes after a pause.
func TestWaitSubscriptionThatFailsForAMomentIsNotTold(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var spent atomic.Bool
		r, rec := overSpentPools(t, c, &spent)
		held := lockElsewhere(t, c, "x", time.Hour)
		spent.Store(true)
		time.AfterFunc(20*time.Millisecond, func() { spent.Store(false) })
		w := startLock(t, r, []string{"x"}, slowly()...)
		time.Sleep(time.Second)
		assert.Empty(t, rec.TakeOf(redlock.EventPolling))
		w.takesOver(t, held, 10*time.Millisecond)
	})
}

// A pool that has only one connection to give leaves none to listen on.
func TestWaitSubscriptionIsDoneWithoutIfThePoolHasOneConnection(t *testing.T) {
	for _, wait := range []bool{false, true} {
		runInBubble(t, fmt.Sprintf("wait=%v", wait), 3, func(t *testing.T, c *testcluster.Cluster) {
			var rec recorder
			r := newOver(t, withOneConnection(c, wait), redlock.WithHook(rec.Hook))
			held := lockElsewhere(t, c, "x", time.Hour)
			w := startLock(t, r, []string{"x"}, redlock.WithRetryCount(-1))
			time.Sleep(20 * time.Second)
			c.Kill() // The node's own connection must not find the pool empty.
			time.Sleep(3 * time.Second)
			assert.True(t, testkit.AllUp(r))
			w.takesOver(t, held, 400*time.Millisecond)
			require.NoError(t, r.Close(t.Context()))
			assert.Len(t, rec.TakeOf(redlock.EventPolling), 3, "each node's, once")
		})
	}
}

// That nothing is heard of a node is told once, and again if it has worked meanwhile.
func TestWaitSubscriptionThatFailsAgainIsToldAgain(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var spent atomic.Bool // No node gets a second connection.
		r, rec := overSpentPools(t, c, &spent)
		for range 3 {
			held := lockElsewhere(t, c, "x", time.Hour)
			spent.Store(true)
			w := startLock(t, r, []string{"x"}, slowly()...)
			time.Sleep(10 * link.MaxRelisten)
			said := map[string]int{}
			for _, e := range rec.TakeOf(redlock.EventPolling) {
				said[e.Node]++
			}
			for _, n := range c.Nodes {
				assert.Equal(t, 1, said[n.Name()])
			}
			spent.Store(false)
			time.Sleep(2 * link.MaxRelisten)
			w.takesOver(t, held, 10*time.Millisecond)
			assert.Empty(t, rec.TakeOf(redlock.EventPolling))
			time.Sleep(link.ListenFor + time.Second)
		}
	})
}
