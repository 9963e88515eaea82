package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// farNodes returns the nodes of a cluster with a round trip to them, which making a
// connection takes, too, and one more for each of so many exchanges (TLS, AUTH) before
// the handshake.
func farNodes(t *testing.T, c *testcluster.Cluster, trip time.Duration, exchanges int) []redlock.Node {
	t.Helper()
	nodes := make([]redlock.Node, len(c.Nodes))
	for i, n := range c.Nodes {
		require.NoError(t, n.Slow(trip/2, trip/2))
		nodes[i] = redlock.Node{Name: n.Name(), Pool: redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
			time.Sleep(time.Duration(1+exchanges) * trip)
			return dialerOf(n).GetContext(ctx)
		})}
	}
	return nodes
}

func TestConnectingIsWaitedForByTheFirstLock(t *testing.T) {
	const ms = time.Millisecond
	calls := map[string]func(t *testing.T, r *redlock.Redlock) error{
		"TryLock": func(t *testing.T, r *redlock.Redlock) error {
			l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			if err == nil {
				assert.Greater(t, time.Until(l.Until()), ttl*98/100, "the wait has used up no validity")
				err = l.Unlock(t.Context())
			}
			return err
		},
		"Do": func(t *testing.T, r *redlock.Redlock) error {
			return r.Do(t.Context(), []string{"a"}, ttl, func(context.Context, *redlock.Lock) error { return nil }, redlock.WithRetryCount(0))
		},
		"Inspect": func(t *testing.T, r *redlock.Redlock) error {
			in, err := r.Inspect(t.Context(), "a")
			for _, n := range in.Nodes {
				err = errors.Join(err, n.Err)
			}
			return err
		},
	}
	for name, call := range calls {
		for _, trip := range []time.Duration{0, ms, 20 * ms, 40 * ms, 80 * ms} {
			for _, n := range []int{1, 3, 5} {
				inBubble(t, n, func(t *testing.T, c *testcluster.Cluster) {
					r := newOver(t, farNodes(t, c, trip, 3))
					require.NoError(t, call(t, r), "%s, round trip %v, %d nodes", name, trip, n)
				})
			}
		}
	}
}

func TestConnectingIsWaitedForByAReleaseByToken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		holder := newRedlock(t, c)
		l, err := holder.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		r := newOver(t, farNodes(t, c, 80*time.Millisecond, 3))
		ended, cancel := context.WithCancel(t.Context())
		cancel() // It does not matter.
		require.NoError(t, r.Release(ended, []string{"a"}, l.Token()))
	})
}

// A majority that hangs costs the connect timeout once, and no more when it is known.
func TestConnectTimeoutIsPaidOnceForAHungMajority(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		for _, n := range c.Nodes[:3] {
			require.NoError(t, n.Hang())
		}
		for i, limit := range []time.Duration{redlock.DefaultConnectTimeout + redlock.DefaultNodeTimeout, redlock.DefaultNodeTimeout, redlock.DefaultNodeTimeout} {
			start := time.Now()
			_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.LessOrEqual(t, time.Since(start), limit, "call %d", i)
		}
		for _, n := range c.Nodes[:3] {
			require.NoError(t, n.Resume())
		}
		time.Sleep(5 * time.Second)
		warm(t, r)
	})
}

// Nor does it when it hangs after it has been connected to.
func TestConnectTimeoutIsNotPaidForAMajorityThatFallsSilent(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		for _, n := range c.Nodes[:3] {
			require.NoError(t, n.Hang())
		}
		for range 100 {
			start := time.Now()
			_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.LessOrEqual(t, time.Since(start), redlock.DefaultNodeTimeout)
			time.Sleep(50 * time.Millisecond)
		}
		for _, n := range c.Nodes[:3] {
			require.NoError(t, n.Resume())
		}
		time.Sleep(5 * time.Second)
	})
}

// A minority that hangs, is dead or slow to connect to costs nothing, from the first call on.
func TestConnectingOfAMinorityCostsTheFirstCallNothing(t *testing.T) {
	for name, fault := range map[string]func(n *testcluster.Node) error{
		"hung":       (*testcluster.Node).Hang,
		"dead":       (*testcluster.Node).Stop,
		"black hole": func(n *testcluster.Node) error { n.Proxy().BlackHole(true); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c)
				for _, n := range c.Nodes[:2] {
					require.NoError(t, fault(n))
				}
				start := time.Now()
				cycle(t, r, "a", ttl)
				assert.Less(t, time.Since(start), 10*time.Millisecond)
				require.NoError(t, r.Close(t.Context()))
			})
		})
	}
}

// A majority that is dead fails the first call at once.
func TestConnectingIsNotWaitedForWithADeadMajority(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		for _, n := range c.Nodes[:2] {
			require.NoError(t, n.Stop())
		}
		start := time.Now()
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.Less(t, time.Since(start), 10*time.Millisecond)
	})
}

// Nor is one longer than until it fails, when the others are connected already.
func TestConnectingIsNotWaitedForOnceAMajorityHasFailed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := nodesOf(c)
		for i := range nodes[:2] {
			nodes[i].Pool = redlock.PoolFunc(func(context.Context) (redis.Conn, error) {
				time.Sleep(100 * time.Millisecond)
				return nil, errors.New("no route to host")
			})
		}
		r := newOver(t, nodes)
		start := time.Now()
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
		require.NoError(t, r.Close(t.Context()))
	})
}

// Connections that have broken, and are being made again, are waited for as the first ones.
func TestConnectingIsWaitedForByALockAfterABreak(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newOver(t, farNodes(t, c, 80*time.Millisecond, 3))
		warm(t, r)
		time.Sleep(time.Second)
		for _, n := range c.Nodes {
			n.Proxy().Reset()
		}
		synctest.Wait()
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(time.Second)
	})
}

func TestConnectingIsWaitedForNoLongerThanTheCall(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(cancel context.CancelFunc, r *redlock.Redlock)
		want error
	}{
		"cancel": {func(cancel context.CancelFunc, _ *redlock.Redlock) { cancel() }, context.Canceled},
		"Close":  {func(_ context.CancelFunc, r *redlock.Redlock) { _ = r.Close(context.Background()) }, redlock.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, cl *testcluster.Cluster) {
				asked := countCommands(t, "SET", cl.Nodes...)
				r, err := redlock.New(farNodes(t, cl, 100*time.Millisecond, 3))
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := time.Now()
				time.AfterFunc(150*time.Millisecond, func() { c.end(cancel, r) })
				_, err = r.TryLock(ctx, []string{"a"}, ttl)
				require.ErrorIs(t, err, c.want)
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				assert.Equal(t, 150*time.Millisecond, time.Since(start))
				var no *redlock.QuorumError
				require.ErrorAs(t, err, &no)
				require.Len(t, no.Votes, 3)
				for _, v := range no.Votes {
					require.ErrorIs(t, v.Err, node.ErrUnreached)
				}
				time.Sleep(5 * time.Second)
				require.NoError(t, r.Close(context.Background()))
				synctest.Wait()
				assert.Zero(t, asked.Load(), "no node was asked")
			})
		})
	}
}

func TestConnectTimeoutOfZeroDoesNotWait(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r, err := redlock.New(farNodes(t, c, 100*time.Millisecond, 3), redlock.WithConnectTimeout(0))
		require.NoError(t, err)
		start := time.Now()
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.Equal(t, redlock.DefaultNodeTimeout, time.Since(start))
		time.Sleep(time.Second)
		cycle(t, r, "a", ttl)
		require.NoError(t, r.Close(t.Context()))
	})
}

// The connect timeout is also the least that an attempt to connect gets.
func TestConnectTimeoutThatIsLongLetsConnectingTakeThatLong(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r, err := redlock.New(farNodes(t, c, 200*time.Millisecond, 10), redlock.WithConnectTimeout(5*time.Second))
		require.NoError(t, err)
		cycle(t, r, "a", ttl)
		require.NoError(t, r.Close(t.Context()))
	})
}

// Connecting takes one round trip besides those of the network and of TLS: the login and the
// scripts go together.
func TestConnectHandshakeTakesOneRoundTrip(t *testing.T) {
	const trip = 100 * time.Millisecond
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := nodesOf(c)
		for i, n := range c.Nodes {
			d := dialerOf(n)
			d.Login = [][]any{{"SELECT", 3}}
			nodes[i].Pool = d
			require.NoError(t, n.Slow(trip/2, trip/2))
		}
		r := newOver(t, nodes)
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		assert.Equal(t, 2*trip, time.Since(start))
		requireNoKeys(t, c) // Those of database 0.
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(time.Second)
	})
}

func TestConnectLoginThatIsRefusedIsTheVote(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := nodesOf(c)
		d := dialerOf(c.Nodes[0])
		d.Login = [][]any{{"AUTH", "wrong"}, {"SELECT", 3}}
		nodes[0].Pool = d
		r := newOver(t, nodes)
		cycle(t, r, "a", ttl)
		synctest.Wait()
		s := r.Stats().Nodes[0]
		require.False(t, s.Up)
		require.ErrorContains(t, s.Err, "AUTH")
		require.NotContains(t, s.Err.Error(), "wrong")
	})
}
