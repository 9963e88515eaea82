package redlock_test

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// What these tests share with the simulation and with the tests with servers, under short names.
var (
	newRedlock     = testkit.NewRedlock
	newOver        = testkit.NewOver
	nodesOf        = testkit.NodesOf
	dialerOf       = testkit.DialerOf
	forbiddenNodes = testkit.ForbiddenNodes
	inBubble       = testkit.InBubble
	withRedlock    = testkit.WithRedlock
	withWarm       = testkit.WithWarm
	runInBubble    = testkit.RunInBubble
	runWithRedlock = testkit.RunWithRedlock
	runWithWarm    = testkit.RunWithWarm
	newWarm        = testkit.NewWarm
	tryLock        = testkit.TryLock
	lockOnAll      = testkit.LockOnAll
	waitLock       = testkit.WaitLock
	refused        = testkit.Refused
	refusal        = testkit.Refusal
	keys           = testkit.Keys
	names          = testkit.Names
	requireNoKeys  = testkit.RequireNoKeys
	holders        = testkit.Holders
	warm           = testkit.Warm
	cycle          = testkit.Cycle
	votesOf        = testkit.VotesOf
	quorumError    = testkit.QuorumErrorOf
	connects       = testkit.Connects
	markerOf       = testkit.MarkerOf
	tapped         = testkit.Tapped
	mute           = testkit.Mute
	rounds         = testkit.Rounds
	scenario       = testkit.Scenario
	kinds          = testkit.Kinds
	newPatient     = testkit.NewPatient
	selecting      = testkit.Selecting
	slowly         = testkit.Slowly
	adminConn      = testkit.AdminConn
)

type recorder = testkit.Recorder

const (
	ttl      = testkit.TTL
	patient  = testkit.Patient
	secret   = testkit.Secret
	oddOwner = testkit.OddOwner
)

// within returns a context that ends after some time.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// cancelled returns a context that has ended.
func cancelled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// meanwhile makes a call, and returns where its error will be.
func meanwhile(call func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	return done
}

// took returns for how long a call has lasted.
func took(call func()) time.Duration {
	start := time.Now()
	call()
	return time.Since(start)
}

// lockError is the error of a call for a lock.
func lockError(_ *redlock.Lock, err error) error { return err }

// lockElsewhere has another process lock a resource.
func lockElsewhere(t *testing.T, c *testcluster.Cluster, resource string, life time.Duration) *redlock.Lock {
	t.Helper()
	return tryLock(t, newRedlock(t, c), []string{resource}, life)
}

// ownWay returns the nodes as one client alone reaches them: each through a proxy of its own.
func ownWay(t *testing.T, c *testcluster.Cluster) (nodes []redlock.Node, way []*testcluster.Proxy) {
	t.Helper()
	for _, n := range c.Nodes {
		p := testcluster.NewProxy(n.Dial)
		t.Cleanup(p.Close)
		dialer := dialerOf(n)
		dialer.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx) }
		nodes, way = append(nodes, redlock.Node{Name: n.Name(), Pool: dialer}), append(way, p)
	}
	return nodes, way
}

// requireReleased checks that no node has a lock, once all that is on its way has
// arrived.
func requireReleased(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	synctest.Wait()
	requireNoKeys(t, c)
}

// isLockRequest reports whether a command is a lock request, without the script or by one.
func isLockRequest(cmd string, args []string) bool {
	return cmd == "SET" || slices.ContainsFunc([]*node.Script{
		redlock.LockScript, redlock.FencedLockScript, redlock.QueueScript,
	}, func(s *node.Script) bool { return len(args) > 0 && args[0] == s.Hash })
}

// countCommands counts, from now on, what nodes are sent: the commands of a name, the calls of
// the script with a hash, or, with "", all.
func countCommands(t *testing.T, what string, nodes ...*testcluster.Node) *atomic.Int64 {
	t.Helper()
	var count atomic.Int64
	for _, n := range nodes {
		require.NoError(t, n.OnCommand(func(cmd string, args []string) {
			if what == "" || cmd == what || len(args) > 0 && args[0] == what {
				count.Add(1)
			}
		}))
	}
	return &count
}
