package testkit

import (
	"context"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/calls"
	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/waiting"
	"github.com/seed6c881748/redlock/redlock"
)

// TTL is that of locks for which any will do.
const TTL = 10 * time.Second

// InBubble runs fn in a bubble of fake time with n in-memory nodes.
func InBubble(t *testing.T, n int, fn func(t *testing.T, c *testcluster.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(t, testcluster.RunBubble(t, n)) })
}

// WithRedlock is InBubble with a Redlock over these nodes.
func WithRedlock(t *testing.T, n int, fn func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := testcluster.RunBubble(t, n)
		fn(t, c, NewRedlock(t, c))
	})
}

// RunInBubble is InBubble in a subtest.
func RunInBubble(t *testing.T, name string, n int, fn func(t *testing.T, c *testcluster.Cluster)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { InBubble(t, n, fn) })
}

// RunWithRedlock is WithRedlock in a subtest.
func RunWithRedlock(t *testing.T, name string, n int, fn func(*testing.T, *testcluster.Cluster, *redlock.Redlock)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { WithRedlock(t, n, fn) })
}

// WithWarm is WithRedlock with one that is connected to all nodes, see [Warm].
func WithWarm(t *testing.T, n int, fn func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock)) {
	t.Helper()
	WithRedlock(t, n, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		t.Helper()
		Warm(t, r)
		fn(t, c, r)
	})
}

// RunWithWarm is WithWarm in a subtest.
func RunWithWarm(t *testing.T, name string, n int, fn func(*testing.T, *testcluster.Cluster, *redlock.Redlock)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { WithWarm(t, n, fn) })
}

// NodesOf returns the nodes of a cluster: every other one with a pool of the user's, the others
// as NewNode makes them.
func NodesOf(c *testcluster.Cluster) []redlock.Node {
	nodes := make([]redlock.Node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = redlock.Node{Name: n.Name(), Pool: n.Pool()}
		if i%2 == 1 {
			nodes[i].Pool = DialerOf(n)
		}
	}
	return nodes
}

// DialerOf returns what NewNode would, if the node had an address. What it dials goes through the wraps.
func DialerOf(n *testcluster.Node, wraps ...func(net.Conn) net.Conn) *conn.Dialer {
	return &conn.Dialer{
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := n.Dial(ctx)
			if err != nil {
				return nil, err
			}
			for _, wrap := range wraps {
				c = wrap(c)
			}
			return c, nil
		},
		Network: "tcp", Address: n.Addr(),
	}
}

// NewRedlock returns a Redlock over a cluster that ends with the test.
func NewRedlock(t *testing.T, c *testcluster.Cluster, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	return NewOver(t, NodesOf(c), opts...)
}

// NewWarm is NewRedlock with one that is connected to all nodes, see [Warm].
func NewWarm(t *testing.T, c *testcluster.Cluster, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	r := NewRedlock(t, c, opts...)
	Warm(t, r)
	return r
}

// NewOver returns a Redlock over nodes that ends with the test.
func NewOver(tb testing.TB, nodes []redlock.Node, opts ...redlock.Option) *redlock.Redlock {
	tb.Helper()
	r, err := redlock.New(nodes, opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

// forbidden is a pool that must not be used.
type forbidden struct{ t *testing.T }

func (p forbidden) GetContext(context.Context) (redis.Conn, error) {
	p.t.Error("I/O")
	return nil, nil //nolint:nilnil // Not reached.
}

// ForbiddenNodes returns up to three nodes, a to c, that no test must get to.
func ForbiddenNodes(t *testing.T, n int) []redlock.Node {
	t.Helper()
	pool := forbidden{t}
	return []redlock.Node{{Name: "a", Pool: pool}, {Name: "b", Pool: pool}, {Name: "c", Pool: pool}}[:n]
}

// Warm makes all connections, so that a test's times are those of requests. It needs a bubble.
func Warm(t *testing.T, r *redlock.Redlock) {
	t.Helper()
	l := TryLock(t, r, []string{"warm"}, TTL)
	synctest.Wait()
	require.NoError(t, l.Unlock(t.Context()))
	synctest.Wait()
}

// TryLock locks resources, which must be free.
func TryLock(
	tb testing.TB, r *redlock.Redlock, resources []string, life time.Duration, opts ...redlock.Option,
) *redlock.Lock {
	tb.Helper()
	l, err := r.TryLock(tb.Context(), resources, life, opts...)
	require.NoError(tb, err)
	return l
}

// LockOnAll is TryLock, and waits for the nodes beyond the quorum, too. It needs a bubble.
func LockOnAll(
	t *testing.T, r *redlock.Redlock, resources []string, life time.Duration, opts ...redlock.Option,
) *redlock.Lock {
	t.Helper()
	l := TryLock(t, r, resources, life, opts...)
	synctest.Wait()
	return l
}

// WaitLock locks resources, for which it may have to wait.
func WaitLock(
	tb testing.TB, r *redlock.Redlock, resources []string, life time.Duration, opts ...redlock.Option,
) *redlock.Lock {
	tb.Helper()
	l, err := r.Lock(tb.Context(), resources, life, opts...)
	require.NoError(tb, err)
	return l
}

// Refused has a TryLock fail for a reason.
func Refused(
	tb testing.TB, reason error, r *redlock.Redlock, resources []string, life time.Duration, opts ...redlock.Option,
) {
	tb.Helper()
	_ = Refusal(tb, reason, r, resources, life, opts...)
}

// Refusal is Refused, and returns the error.
func Refusal(
	tb testing.TB, reason error, r *redlock.Redlock, resources []string, life time.Duration, opts ...redlock.Option,
) error {
	tb.Helper()
	_, err := r.TryLock(tb.Context(), resources, life, opts...)
	require.ErrorIs(tb, err, reason)
	return err
}

// Cycle locks a resource, which must be free, and releases it.
func Cycle(t *testing.T, r *redlock.Redlock, resource string, life time.Duration) {
	t.Helper()
	require.NoError(t, TryLock(t, r, []string{resource}, life).Unlock(t.Context()))
}

// QuorumErrorOf returns the error of the round that has failed.
func QuorumErrorOf(t *testing.T, err error) (qe *redlock.QuorumError) {
	t.Helper()
	require.ErrorAs(t, err, &qe)
	return qe
}

// VotesOf returns the votes of a failed round.
func VotesOf(t *testing.T, err error) []redlock.Vote {
	t.Helper()
	return QuorumErrorOf(t, err).Votes
}

// Connects returns how often the nodes have been connected to.
func Connects(r *redlock.Redlock) (n int64) {
	for _, s := range r.Stats().Nodes {
		n += s.Connects
	}
	return n
}

// AllUp reports whether all nodes are connected.
func AllUp(r *redlock.Redlock) bool {
	for _, s := range r.Stats().Nodes {
		if !s.Up {
			return false
		}
	}
	return true
}

// The three things from inside that these tests need, and users do not.

// WallOffset is added to a Redlock's wall clock: the jumps and differences that the clock of a
// test does not have.
func WallOffset(r *redlock.Redlock) *atomic.Int64 { return settings.Inside(r).WallOffset }

// WaitersOf returns of how many resources something is known in this process, and how many wait.
func WaitersOf(r *redlock.Redlock) (resources, waiters int) {
	settings.Inside(r).Line.Do(func(q *waiting.Queue, _ time.Time) { resources, waiters = q.Len() })
	return resources, waiters
}

// AdmissionOf returns what decides how many of its calls may ask the nodes at the same time.
func AdmissionOf(r *redlock.Redlock) *calls.Gate {
	return settings.Inside(r).Gate
}

// Validity is how long a lock of this ttl lasts from the start of its attempt, with the default
// drift factor.
func Validity(ttl time.Duration) time.Duration {
	return ttl - time.Duration(math.Ceil(float64(ttl)*DefaultDriftFactor)) - 2*time.Millisecond
}

// OddOwner is a label with all that could break a Lua pattern, a format or a reply.
const OddOwner = `host-1/4711 %a+().[x]^$-%% "ü" owner=日本`

// Slowly has Lock poll so seldom that a test notices if it had to.
func Slowly() []redlock.Option {
	return []redlock.Option{redlock.WithRetryCount(-1), redlock.WithRetryDelay(time.Minute), redlock.WithRetryJitter(0)}
}
