package redlock_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// What these tests share with those of package redlock has the same names here as there.
var (
	newRedlock     = redlock.NewRedlock
	newOver        = redlock.NewOver
	nodesOf        = redlock.NodesOf
	dialerOf       = redlock.DialerOf
	forbiddenNodes = redlock.ForbiddenNodes
	inBubble       = redlock.InBubble
	keys           = redlock.Keys
	requireNoKeys  = redlock.RequireNoKeys
	holders        = redlock.Holders
	warm           = redlock.Warm
	votesOf        = redlock.VotesOf
	tapped         = redlock.Tapped
	rounds         = redlock.Rounds
	between        = redlock.Between
	magnitude      = redlock.Magnitude
	envNumber      = redlock.EnvNumber
)

const (
	ttl         = redlock.TTL
	raceEnabled = redlock.RaceEnabled
)

// scenario is how long a scenario runs, in real or in fake time, or a step of it takes;
// see rounds.
func scenario(usual, short time.Duration) time.Duration {
	if testing.Short() {
		return short
	}
	return usual
}

// connects returns how often the nodes have been connected to.
func connects(r *redlock.Redlock) (n int64) {
	for _, s := range r.Stats().Nodes {
		n += s.Connects
	}
	return n
}

// allUp reports whether all nodes are connected.
func allUp(r *redlock.Redlock) bool {
	for _, s := range r.Stats().Nodes {
		if !s.Up {
			return false
		}
	}
	return true
}

// voteOf returns a node's vote in a failed round.
func voteOf(t *testing.T, err error, node string) redlock.Vote {
	t.Helper()
	for _, v := range votesOf(t, err) {
		if v.Node == node {
			return v
		}
	}
	require.Failf(t, "no vote", "of %s in %v", node, err)
	return redlock.Vote{}
}

// cycle locks a resource, which must be free, and releases it.
func cycle(t *testing.T, r *redlock.Redlock, resource string, life time.Duration) {
	t.Helper()
	l, err := r.TryLock(t.Context(), []string{resource}, life)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
}

// lockElsewhere has another process lock a resource.
func lockElsewhere(t *testing.T, c *testcluster.Cluster, resource string, life time.Duration) *redlock.Lock {
	t.Helper()
	l, err := newRedlock(t, c).TryLock(t.Context(), []string{resource}, life)
	require.NoError(t, err)
	return l
}

// names returns the names of all nodes.
func names(c *testcluster.Cluster) []string {
	all := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		all[i] = n.Name()
	}
	return all
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

// onScript has fn called before a node runs a script whose arguments include mark.
func onScript(t *testing.T, n *testcluster.Node, mark string, fn func()) {
	t.Helper()
	require.NoError(t, n.OnCommand(func(cmd string, args []string) {
		if strings.HasPrefix(cmd, "EVAL") && strings.Contains(strings.Join(args, " "), mark) {
			fn()
		}
	}))
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
