package testkit

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// Patience is how long a test waits for what takes milliseconds, or a second, on an idle machine.
const Patience = 2 * time.Minute

// Await calls done until it is true, on the test's own goroutine so that it may
// end the test, and returns how long that took.
func Await(t *testing.T, within time.Duration, what string, done func() bool) time.Duration {
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

// Release unlocks l. At the default node timeout a busy machine alone may cost a
// quorum; a release may be repeated then.
func Release(t *testing.T, l *redlock.Lock) {
	t.Helper()
	Await(t, Patience, "the lock is released", func() bool {
		err := l.Unlock(t.Context())
		if err != nil {
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		}
		return err == nil
	})
}

// AwaitAll waits until locks are on all nodes, and returns how long that took.
func AwaitAll(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, within time.Duration) time.Duration {
	t.Helper()
	return Await(t, within, "all nodes have locks", func() bool { return LockEverywhere(t, c, r, "everywhere") })
}

// LockEverywhere takes and releases a lock, and reports whether all nodes had
// it: a lock is granted as soon as a quorum has it, so the others get a moment.
func LockEverywhere(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, resource string) bool {
	t.Helper()
	l, err := r.TryLock(t.Context(), []string{resource}, time.Minute)
	if err != nil {
		return false
	}
	had := Holders(t, c, l)
	for end := time.Now().Add(200 * time.Millisecond); had < len(c.Nodes) && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond)
		had = Holders(t, c, l)
	}
	Release(t, l)
	return had == len(c.Nodes)
}

// Admin runs a command on a server's own port, past the proxy.
func Admin(t *testing.T, n *testcluster.Node, cmd string, args ...any) any {
	t.Helper()
	conn := AdminConn(t, n)
	reply, err := conn.Do(cmd, args...)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	return reply
}

// AdminConn returns a connection to a server's own port, past the proxy.
func AdminConn(t *testing.T, n *testcluster.Node, opts ...redis.DialOption) redis.Conn {
	t.Helper()
	opts = append(opts, redis.DialReadTimeout(Patience), redis.DialWriteTimeout(Patience))
	conn, err := redis.Dial("tcp", n.DirectAddr(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Clients returns how many clients a server has, besides the one that asks.
func Clients(t *testing.T, n *testcluster.Node) int {
	t.Helper()
	list, err := redis.String(Admin(t, n, "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	return strings.Count(strings.TrimSpace(list), "\n")
}

// ServerNodes returns the nodes of a cluster of servers, without their proxies.
func ServerNodes(c *testcluster.Cluster) []redlock.Node {
	nodes := make([]redlock.Node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = redlock.NewNode(n.DirectAddr())
	}
	return nodes
}

// NewPatient returns a patient Redlock that ends with the test.
func NewPatient(t *testing.T, nodes []redlock.Node, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	return NewOver(t, nodes, append([]redlock.Option{redlock.WithNodeTimeout(Patient)}, opts...)...)
}

// Patient is a node timeout for tests in which every call must succeed: the
// default of 250 ms is sometimes exceeded by the scheduler alone.
const Patient = 5 * time.Second

// Secret has characters that a URL must escape.
const Secret = "s3cret/with@odd:characters"

// SetUser creates a user, or skips the test on a server older than the ACLs.
func SetUser(t *testing.T, n *testcluster.Node, name string, rules ...string) {
	t.Helper()
	conn := AdminConn(t, n)
	args := []any{"SETUSER", name, "reset", "on", ">" + Secret}
	for _, r := range rules {
		args = append(args, r)
	}
	_, err := conn.Do("ACL", args...)
	if err != nil && strings.Contains(err.Error(), "unknown command") {
		t.Skip("the server has no ACLs: ", err)
	}
	require.NoError(t, err)
}
