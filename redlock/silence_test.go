package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func TestConnectionIsNotFailedByOneCallersShortTimeout(t *testing.T) {
	for name, short := range map[string]func(r *redlock.Redlock) (*redlock.Lock, error){
		"node timeout": func(r *redlock.Redlock) (*redlock.Lock, error) {
			return r.TryLock(context.Background(), []string{"x"}, ttl, redlock.WithNodeTimeout(time.Millisecond))
		},
		"ttl": func(r *redlock.Redlock) (*redlock.Lock, error) {
			return r.TryLock(context.Background(), []string{"x"}, 5*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c)
				warm(t, r)
				require.NoError(t, c.Slow(10*time.Millisecond, 10*time.Millisecond))
				go func() {
					_, err := short(r)
					assert.ErrorIs(t, err, redlock.ErrNoQuorum)
				}()
				time.Sleep(15 * time.Millisecond)
				cycle(t, r, "a", ttl)
			})
		})
	}
}

func TestConnectionThatIsDeadIsNotKeptByOneCallersLongTimeout(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		c.Nodes[0].Proxy().BlackHole(true)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Hour, redlock.WithNodeTimeout(time.Minute))
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		assert.True(t, r.Stats().Nodes[0].Up, "nobody else has asked")
		c.Nodes[0].Proxy().BlackHole(false)
		start := time.Now()
		for {
			in, err := r.Inspect(t.Context(), "b")
			require.NoError(t, err)
			if in.Nodes[0].Err == nil {
				break
			}
			require.Less(t, time.Since(start), 3*time.Second)
			time.Sleep(50 * time.Millisecond)
		}
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestConnectionWithALongTimeoutIsWaitedFor(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.Nodes[0].Slow(2*time.Second, 2*time.Second))
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Hour, redlock.WithNodeTimeout(10*time.Second))
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestConnectionThatIsIdleIsKeptAlive(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		pings := countCommands(t, "PING", c.Nodes[0])
		time.Sleep(10 * time.Minute)
		assert.InDelta(t, 40, pings.Load(), 2)
		assert.Equal(t, int64(1), r.Stats().Nodes[0].Connects)
		// A black hole is noticed although nobody asks for anything.
		c.Nodes[0].Proxy().BlackHole(true)
		time.Sleep(time.Minute)
		assert.False(t, r.Stats().Nodes[0].Up)
		c.Nodes[0].Proxy().BlackHole(false)
		time.Sleep(3 * time.Second)
		assert.True(t, r.Stats().Nodes[0].Up)
	})
}

func TestConnectionThatIsDeadIsFoundWithinAboutASecond(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		c.Nodes[0].Proxy().BlackHole(true)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()                     // The request to the node, for which nobody waits, is swallowed.
		c.Nodes[0].Proxy().BlackHole(false) // Only for connections made from now on.
		time.Sleep(1300 * time.Millisecond)
		require.True(t, r.Stats().Nodes[0].Up)
		require.EqualValues(t, 2, r.Stats().Nodes[0].Connects)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// One that asks when the oldest request has been unanswered for the node timeout
// would only time out, too.
func TestConnectionThatIsSilentIsNotAskedOnceTheNodeTimeoutIsOver(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.Nodes[0].Hang())
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		vote := func() error {
			in, err := r.Inspect(t.Context(), "b")
			require.NoError(t, err)
			return in.Nodes[0].Err
		}
		time.Sleep(time.Millisecond)
		require.ErrorIs(t, vote(), redlock.ErrNodeTimeout, "it was asked: it was not late yet")
		require.ErrorIs(t, vote(), node.ErrSilent)
		require.NoError(t, c.Nodes[0].Resume())
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestConnectionHealsWithin3sAfterABlackHoleOf60s(t *testing.T) {
	pools := map[string]func(t *testing.T, c *testcluster.Cluster, n *testcluster.Node) redlock.Node{
		"NewNode": func(_ *testing.T, c *testcluster.Cluster, n *testcluster.Node) redlock.Node {
			return redlock.NewNode(n.Addr(), redis.DialContextFunc(c.DialContext))
		},
		"deaf pool": func(t *testing.T, _ *testcluster.Cluster, n *testcluster.Node) redlock.Node {
			pool := deafPool(n)
			t.Cleanup(func() { _ = pool.Close() })
			return redlock.Node{Name: n.Name(), Pool: pool}
		},
	}
	for name, node := range pools {
		for _, connected := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				// Several holes, as the waits between the attempts are random.
				for range rounds(5, 1) {
					inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
						var nodes []redlock.Node
						for _, n := range c.Nodes {
							nodes = append(nodes, node(t, c, n))
						}
						r := newOver(t, nodes)
						if connected {
							warm(t, r)
						}
						c.Nodes[0].Proxy().BlackHole(true)
						for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
							l, lockErr := r.TryLock(t.Context(), []string{"a"}, time.Minute)
							require.NoError(t, lockErr)
							require.NoError(t, l.Unlock(t.Context()))
						}
						c.Nodes[0].Proxy().BlackHole(false)
						time.Sleep(3 * time.Second)
						synctest.Wait()
						l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
						require.NoError(t, err)
						synctest.Wait()
						require.Equal(t, 3, holders(t, c, l), "%v", r.Stats().Nodes[0])
						require.NoError(t, l.Unlock(t.Context()))
						synctest.Wait()
						requireNoKeys(t, c)
					})
				}
			})
		}
	}
}

// A pool whose calls hang for good must not keep its node away for good.
func TestConnectionComesBackFromAHoleOfAnyLength(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		pool := deafPool(n)
		defer func() { _ = pool.Close() }()
		r := newOver(t, []redlock.Node{{n.Name(), pool}})
		warm(t, r)
		n.Proxy().BlackHole(true)
		time.Sleep(time.Hour)
		require.Less(t, redlock.NodesIn(r)[0].Source.Stuck(), conn.MaxStuck+130, "one more every StuckPause")
		n.Proxy().BlackHole(false)
		time.Sleep(conn.StuckPause + 3*time.Second)
		cycle(t, r, "a", ttl)
	})
}
