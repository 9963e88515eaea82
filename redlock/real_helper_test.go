package redlock_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// The tests with Real in their names run against real server processes, where
// there are any: what they are for is what a fake server and a fake clock
// cannot show. All their bounds are generous, since a busy machine is not a
// failing one.

// rest waits for a random time that is part of a scenario. It reports false when
// ctx has ended.
func rest(ctx context.Context, minimum, maximum time.Duration) bool {
	t := time.NewTimer(minimum + rand.N(maximum-minimum+1))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// eventful returns a context for a scenario of this length. On a slow machine it goes on, for a
// minute at most, until enough has happened to show something.
func eventful(t *testing.T, length time.Duration, enough func() bool) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length+time.Minute)
	t.Cleanup(cancel)
	go func() {
		defer cancel()
		for rest(ctx, length, length); ctx.Err() == nil && !enough(); {
			rest(ctx, 10*time.Millisecond, 10*time.Millisecond)
		}
	}()
	return ctx
}

// await calls done until it is true, on the test's own goroutine so that it may
// end the test, and returns how long that took.
func await(t *testing.T, within time.Duration, what string, done func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		require.Less(t, time.Since(start), within, "waiting until %s", what)
		<-tick.C
	}
	return time.Since(start)
}

// awaitNoKeys waits until no node stores a lock. On failure it shows what is
// left.
func awaitNoKeys(t *testing.T, c *testcluster.Cluster, within time.Duration) time.Duration {
	t.Helper()
	left := make(map[string]testcluster.KeyState)
	start := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		clear(left)
		for _, n := range c.Nodes {
			for k, s := range keys(t, n) {
				left[n.Name()+": "+k] = s
			}
		}
		if len(left) == 0 {
			return time.Since(start)
		}
		require.Less(t, time.Since(start), within, "keys left: %v", left)
		<-tick.C
	}
}

// lockEverywhere takes and releases a lock, and reports whether all nodes had
// it: a lock is granted as soon as a quorum has it, so the others get a moment.
func lockEverywhere(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, resource string) bool {
	t.Helper()
	l, err := r.TryLock(t.Context(), []string{resource}, time.Minute)
	if err != nil {
		return false
	}
	had := holders(t, c, l)
	for end := time.Now().Add(200 * time.Millisecond); had < len(c.Nodes) && time.Now().Before(end); {
		rest(t.Context(), time.Millisecond, 5*time.Millisecond)
		had = holders(t, c, l)
	}
	release(t, l)
	return had == len(c.Nodes)
}

// release unlocks l. At the default node timeout a busy machine alone may cost a
// quorum; a release may be repeated then.
func release(t *testing.T, l *redlock.Lock) {
	t.Helper()
	await(t, 30*time.Second, "the lock is released", func() bool {
		err := l.Unlock(t.Context())
		if err != nil {
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		}
		return err == nil
	})
}

// awaitAll waits until locks are on all nodes, and returns how long that took.
func awaitAll(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, within time.Duration) time.Duration {
	t.Helper()
	return await(t, within, "all nodes have locks", func() bool { return lockEverywhere(t, c, r, "everywhere") })
}

// admin runs a command on a server's own port, past the proxy.
func admin(t *testing.T, n *testcluster.Node, cmd string, args ...any) any {
	t.Helper()
	conn := adminConn(t, n)
	reply, err := conn.Do(cmd, args...)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	return reply
}

func adminConn(t *testing.T, n *testcluster.Node, opts ...redis.DialOption) redis.Conn {
	t.Helper()
	opts = append(opts, redis.DialReadTimeout(20*time.Second), redis.DialWriteTimeout(20*time.Second))
	conn, err := redis.Dial("tcp", n.DirectAddr(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// clients returns how many clients a server has, besides the one that asks.
func clients(t *testing.T, n *testcluster.Node) int {
	t.Helper()
	list, err := redis.String(admin(t, n, "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	return strings.Count(strings.TrimSpace(list), "\n")
}

// realNodes returns the nodes of a cluster of servers, without their proxies.
func realNodes(c *testcluster.Cluster) []redlock.Node {
	nodes := make([]redlock.Node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = redlock.NewNode(n.DirectAddr())
	}
	return nodes
}

// newRealRedlock returns a patient Redlock that ends with the test.
func newRealRedlock(t *testing.T, nodes []redlock.Node, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	return newOver(t, nodes, append([]redlock.Option{redlock.WithNodeTimeout(patient)}, opts...)...)
}

// patient is a node timeout for tests in which every call must succeed: the
// default of 100 ms is sometimes exceeded by the scheduler alone.
const patient = 5 * time.Second
