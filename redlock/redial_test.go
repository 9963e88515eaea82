package redlock_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// movable is a node whose address leads to the second of two servers once moved.
func movable(moved *atomic.Bool, from, to *testcluster.Node) redlock.Pool {
	return &conn.Dialer{
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if moved.Load() {
				return to.Dial(ctx)
			}
			return from.Dial(ctx)
		},
		Network: "tcp", Address: "name:6379",
	}
}

// The addresses of nodes 1 and 2 lead to other, healthy masters from now on (a name or a
// virtual IP after a failover); the old ones answer errors, and keep their connections.
func TestConnectFollowsAFailoverBehindAnAddress(t *testing.T) {
	for _, msg := range []string{
		"READONLY You can't write against a read only replica.",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"NOAUTH Authentication required.",
	} {
		t.Run(msg[:7], func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
				var moved atomic.Bool
				nodes := nodesOf(c)[:3]
				nodes[0].Pool = movable(&moved, c.Nodes[0], c.Nodes[3])
				nodes[1].Pool = movable(&moved, c.Nodes[1], c.Nodes[4])
				var mu sync.Mutex
				var downs []redlock.Event
				r, err := redlock.New(nodes, redlock.WithHook(func(_ context.Context, e redlock.Event) {
					mu.Lock()
					defer mu.Unlock()
					if e.Kind == redlock.EventNodeDown {
						downs = append(downs, e)
					}
				}))
				require.NoError(t, err)
				defer func() { _ = r.Close(context.Background()) }()
				warm(t, r)
				l, err := r.TryLock(t.Context(), []string{"held"}, time.Minute)
				require.NoError(t, err)
				synctest.Wait()
				moved.Store(true)
				for i := range 2 {
					require.NoError(t, c.Nodes[3+i].Set("held", l.Token(), time.Minute)) // It was replicated.
					require.NoError(t, c.Nodes[i].SetError(msg))
				}
				_, err = r.TryLock(t.Context(), []string{"x"}, ttl)
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				require.ErrorContains(t, err, msg, "the one that got the reply has it as its vote")
				time.Sleep(2 * node.MinBackoff)
				cycle(t, r, "x", ttl)
				require.NoError(t, l.Extend(t.Context(), time.Minute))
				require.NoError(t, l.Unlock(t.Context()))
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				require.Len(t, downs, 2)
				for _, e := range downs {
					require.ErrorContains(t, e.Err, msg)
				}
			})
		})
	}
}

// A release that is refused so is given to the next server.
func TestConnectToTheWrongServerLosesNoRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Hour)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.SetError("READONLY You can't write against a read only replica."))
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
		time.Sleep(time.Minute)
		require.NoError(t, c.SetError(""))
		time.Sleep(2 * node.MaxBackoff)
		requireReleased(t, c)
	})
}

// An attempt waits for connections that are being made, but not to nodes that were the wrong server:
// they count as down.
func TestConnectToAWrongServerIsNotWaitedFor(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		const msg = "READONLY You can't write against a read only replica."
		require.NoError(t, c.SetError(msg))
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorContains(t, err, msg)
		synctest.Wait()
		start := time.Now()
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.Zero(t, time.Since(start))
	})
}

// A replica is backed off from, and its state can be seen.
func TestConnectDoesNotDialAReplicaInALoop(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.Nodes[0].SetError("READONLY You can't write."))
		for range 600 {
			cycle(t, r, "a", ttl)
			time.Sleep(100 * time.Millisecond)
		}
		s := r.Stats().Nodes[0]
		assert.False(t, s.Up)
		require.ErrorContains(t, s.Err, "READONLY You can't write.")
		assert.Less(t, s.Connects, int64(100), "in a minute")
	})
}

// repeatedly cuts a node's connections after a random time, again and again.
func repeatedly(ctx context.Context, n *testcluster.Node, atLeast, atMost time.Duration) {
	for i := 0; ctx.Err() == nil; i++ {
		time.Sleep(atLeast + time.Duration(i*7919%1000)*(atMost-atLeast)/1000)
		n.Proxy().Reset()
	}
}

// Each node's connections are reset every 0.3 to 0.7 s. That costs what is on its way at
// that moment, and nothing else.
func TestConnectionsThatAreResetAreMadeAgainAtOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i, n := range c.Nodes {
			go func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				repeatedly(ctx, n, 300*time.Millisecond, 700*time.Millisecond)
			}()
		}
		attempts := rounds(2000, 400)
		failed := 0
		for range attempts {
			l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			if err != nil {
				failed++
			} else {
				_ = l.Unlock(t.Context())
			}
			time.Sleep(10 * time.Millisecond)
		}
		assert.Less(t, failed, attempts/100)
		assert.Greater(t, r.Stats().Nodes[0].Connects, int64(attempts/40))
		cancel()
		time.Sleep(2 * time.Second)
	})
}

// A server that accepts and hangs up is backed off from, also if it answers something
// each time.
func TestConnectionsThatAreShortComeInABoundedLoop(t *testing.T) {
	for name, c := range map[string]struct {
		hangUp string // upon this command
		most   int64  // connections in 10 s
	}{
		"before an answer": {"SET", 30},
		"in the handshake": {"SCRIPT", 30},
		"after an answer":  {"GET", 10*10 + node.Redials + 40},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, cl *testcluster.Cluster) {
				r := newRedlock(t, cl)
				warm(t, r)
				n := cl.Nodes[0]
				served := 0
				require.NoError(t, n.OnCommand(func(cmd string, _ []string) {
					if cmd != "SET" && cmd != "EVALSHA" && cmd != c.hangUp {
						return
					}
					if served++; c.hangUp == "GET" && served%2 == 1 {
						return // Every other request of a connection is answered.
					}
					n.Proxy().Kill()
				}))
				for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(scenario(5*time.Millisecond, 40*time.Millisecond)) {
					cycle(t, r, "a", ttl)
				}
				assert.Less(t, r.Stats().Nodes[0].Connects, c.most)
				require.NoError(t, n.OnCommand(nil))
				time.Sleep(2 * node.MaxBackoff)
			})
		})
	}
}
