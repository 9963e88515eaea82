package servers

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockcheck"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Somebody has stored something large under the key of a lock. It is an answer like any other: the
// connection that all callers share goes on, and the node is asked for no such value again.
func TestLockOnALargeValueBreaksNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		node func(n *testcluster.Node) redlock.Node
		size int
		ends int64 // connections that end because of it
	}{
		"own connection":       {func(n *testcluster.Node) redlock.Node { return redlock.NewNode(n.Addr()) }, 2 << 20, 0},
		"own connection, huge": {func(n *testcluster.Node) redlock.Node { return redlock.NewNode(n.Addr()) }, 40 << 20, 1},
		"a pool":               {func(n *testcluster.Node) redlock.Node { return redlock.Node{Name: n.Addr(), Pool: n.Pool()} }, 2 << 20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testcluster.RunServers(t, 1)
			n := server.Nodes[0]
			r := newPatient(t, []redlock.Node{c.node(n)}, redlock.WithNodeTimeout(20*time.Second), redlock.WithConnectTimeout(20*time.Second))
			require.True(t, lockEverywhere(t, server, r, "other"))
			admin(t, n, "SETRANGE", "a", c.size-1, "x")
			l, err := r.TryLock(t.Context(), []string{"b"}, time.Minute)
			require.NoError(t, err)
			before := r.Stats().Nodes[0].Connects
			for range 3 {
				_, err = r.TryLock(context.Background(), []string{"a"}, time.Minute)
				require.Error(t, err)
			}
			require.ErrorIs(t, err, redlock.ErrTaken, "in the end it is told")
			require.NoError(t, l.Extend(t.Context(), time.Minute))
			require.NoError(t, l.Unlock(t.Context()))
			assert.Equal(t, before+c.ends, r.Stats().Nodes[0].Connects)
			stats, err := redis.String(admin(t, n, "INFO", "commandstats"), nil)
			require.NoError(t, err)
			assert.Contains(t, stats, "cmdstat_evalsha", "once it was seen, the script is sent")
		})
	}
}

// What a lock and its release are on the wire.
func TestLockIsACommandOfTheServer(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	r := newPatient(t, nodesOf(c))
	require.True(t, lockEverywhere(t, c, r, "first"))
	admin(t, n, "CONFIG", "RESETSTAT")
	for range 10 {
		l := tryLock(t, r, []string{"a"}, time.Minute)
		refused(t, redlock.ErrTaken, r, []string{"a"}, time.Minute)
		require.NoError(t, l.Unlock(t.Context()))
	}
	stats, err := redis.String(admin(t, n, "INFO", "commandstats"), nil)
	require.NoError(t, err)
	assert.Contains(t, stats, "cmdstat_set:calls=20,")
	if deletes := deletesBy(t, n); deletes != "" {
		assert.Contains(t, stats, "cmdstat_"+deletes+":calls=10,")
		assert.NotContains(t, stats, "cmdstat_evalsha")
	} else {
		assert.Contains(t, stats, "cmdstat_evalsha:calls=10,", "the releases")
	}
	if deletes := deletesBy(t, n); deletes != "" { // Where the user may not use it, the script is sent. That is no vote.
		setUser(t, n, "locker", append(slices.Clone(leastPrivilege), "~*")...)
		user := newPatient(t, []redlock.Node{redlock.NewNode("redis://locker:" + url.QueryEscape(secret) + "@" + n.DirectAddr())})
		cycle(t, user, "first", time.Minute)
		admin(t, n, "ACL", "SETUSER", "locker", "-"+deletes)
		cycle(t, user, "a", time.Minute)
		assert.Zero(t, user.Stats().Nodes[0].Votes.Failed)
	}
	for range 3 { // Another type at the key is this node's vote, and no other one's business.
		admin(t, n, "LPUSH", "list", "x")
		require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, r, []string{"list"}, time.Minute), "WRONGTYPE")
	}
	assert.Equal(t, int64(1), r.Stats().Nodes[0].Connects)
}

// One mistaken call, of a resource whose key is something else or that the user may not touch, must not take a node out
// for everybody when its connection breaks.
func TestRefusalOfAMistakenCallHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	r := newPatient(t, nodesBy(c, func(n *testcluster.Node) redlock.Node {
		setUser(t, n, "locker", append([]string{"~app:*", "~__redlock__:*"}, leastPrivilege...)...)
		admin(t, n, "RPUSH", "app:jobs", "x")
		return redlock.NewNode("redis://locker:" + url.QueryEscape(secret) + "@" + n.Addr())
	}))
	for resource, says := range map[string]string{"app:jobs": "WRONGTYPE", "other": notPermitted} {
		await(t, patience, "all nodes have a lock", func() bool { return lockEverywhere(t, c, r, "app:fine") })
		for _, n := range c.Nodes {
			n.Proxy().DropReplies(true) // The outcome is left unknown.
		}
		for _, res := range []string{resource, "app:fine"} {
			refused(t, redlock.ErrNoQuorum, r, []string{res}, time.Hour, redlock.WithNodeTimeout(50*time.Millisecond))
		}
		for _, n := range c.Nodes {
			n.Proxy().DropReplies(false)
			n.Proxy().Reset()
		}
		await(t, patience, "all nodes have a lock", func() bool { return lockEverywhere(t, c, r, "app:fine") })
		for _, resources := range [][]string{{resource}, {"app:fine", resource}} {
			require.Regexp(t, says, refusal(t, redlock.ErrNoQuorum, r, resources, time.Hour).Error())
		}
	}
}

// A server that is out of memory gives no new locks. But the connection to it can be made again, clean-up included, and
// held locks be extended and released, and keep their counters.
func TestMemoryThatIsFullStillLetsLocksBeKeptAndReleased(t *testing.T) {
	c := testcluster.RunServers(t, 1, testcluster.WithProxy())
	n := c.Nodes[0]
	r := newPatient(t, nodesOf(c))
	held := tryLock(t, r, []string{"held"}, time.Minute, redlock.WithFencing())
	n.Proxy().DropReplies(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() {
		_, lockErr := r.TryLock(ctx, []string{"unknown"}, time.Minute)
		ended <- lockErr
	}()
	await(t, patience, "the server has carried it out", func() bool { return keys(t, n)["unknown"].Value != "" })
	cancel()
	require.Error(t, <-ended)
	admin(t, n, "CONFIG", "SET", "maxmemory", "1")
	n.Proxy().DropReplies(false)
	n.Proxy().Reset()
	await(t, patience, "it is cleaned up", func() bool { return r.Stats().Nodes[0].Cleaned == 1 })
	err := refusal(t, redlock.ErrNoQuorum, r, []string{"new"}, time.Minute)
	require.ErrorContains(t, err, "OOM")
	probe := func() (any, error) { return adminConn(t, n).Do("EVAL", node.Probe.Source, 1, "none") }
	_, err = probe()
	require.ErrorContains(t, err, "OOM", "it shows what a PING does not")
	for _, ttl := range []time.Duration{2 * time.Minute, 30 * time.Second} { // Longer than what is left, and shorter.
		require.NoError(t, n.Del(testkit.CounterKey("held")))
		require.NoError(t, held.Extend(t.Context(), ttl))
	}
	require.NoError(t, held.Unlock(t.Context()))
	admin(t, n, "CONFIG", "SET", "maxmemory", "0")
	reply, err := probe()
	require.NoError(t, err)
	require.Equal(t, int64(1), reply)
	requireNoKeys(t, c)
}

// Redis Cluster refuses a script whose keys are in several slots, and there is no lock without the
// library's own keys. A hash tag in the prefix puts all of them into one, also those that
// scripts make up.
func TestRedisClusterAsTheOnlyNode(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 1, testcluster.WithArgs("--cluster-enabled", "yes"))
	n := c.Nodes[0]
	all := []any{"ADDSLOTS"}
	for slot := range 16384 {
		all = append(all, slot)
	}
	admin(t, n, "CLUSTER", all...)
	await(t, patience, "the cluster is up", func() bool {
		info, ok := admin(t, n, "CLUSTER", "INFO").([]byte)
		return ok && strings.Contains(string(info), "cluster_state:ok")
	})

	err := refusal(t, redlock.ErrNoQuorum, newPatient(t, serverNodes(c)), []string{"a"}, time.Minute)
	require.ErrorContains(t, err, "CROSSSLOT")
	found := checked(t, serverNodes(c)).String()
	assert.Contains(t, found, "it is a node of a Redis Cluster, which refuses locks whose keys are in several slots")

	opts := []redlock.Option{redlock.WithPrefix("{locks}:"), redlock.WithQuarantine(time.Hour), redlock.WithFencing()}
	a, b := newPatient(t, serverNodes(c), opts...), newPatient(t, serverNodes(c), opts...)
	require.NoError(t, a.Admit(t.Context(), serverNodes(c)[0].Name))
	held := tryLock(t, a, []string{"a", "b"}, time.Minute)
	require.NoError(t, held.Extend(t.Context(), 2*time.Minute))
	took := handOver(t, held, b, "b", redlock.WithRetryDelay(time.Minute))
	assert.Less(t, took, 30*time.Second, "it was told of the release, and has not polled")
	later := tryLock(t, b, []string{"b"}, time.Minute)
	assert.Greater(t, later.Fence(), held.Fence())
	require.NoError(t, later.Unlock(t.Context()))
	for _, f := range checked(t, serverNodes(c), opts...).Findings {
		assert.True(t, f.Verdict == redlockcheck.OK || f.Check == "node-count", "%+v", f)
	}
}

// checked returns what a check says of nodes, and shows it.
func checked(t *testing.T, nodes []redlock.Node, opts ...redlock.Option) redlockcheck.Report {
	t.Helper()
	report, err := redlockcheck.Run(t.Context(), nodes, append([]redlock.Option{redlock.WithNodeTimeout(patient)}, opts...)...)
	require.NoError(t, err)
	t.Log("\n" + report.String())
	return report
}

// deletesBy is the command by which the library releases a lock on the server; empty if that has none.
func deletesBy(t *testing.T, n *testcluster.Node) string {
	t.Helper()
	conn := adminConn(t, n)
	for _, command := range [][]any{{"DELEX", "none", "IFEQ", ""}, {"DELIFEQ", "none", ""}} {
		if _, err := conn.Do(command[0].(string), command[1:]...); err == nil {
			return strings.ToLower(command[0].(string))
		}
	}
	return ""
}
