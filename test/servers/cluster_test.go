package servers

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockcheck"
)

// Redis Cluster refuses a script whose keys are in several slots, and there is no lock without the
// library's own keys. A hash tag in the prefix puts all of them into one, also those that
// scripts make up.
func TestRedisClusterAsTheOnlyNode(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 1, testcluster.WithArgs("--cluster-enabled", "yes"))
	n := c.Nodes[0]
	const slots = 16384
	all := []any{"ADDSLOTS"}
	for slot := range slots {
		all = append(all, slot)
	}
	admin(t, n, "CLUSTER", all...)
	await(t, 30*time.Second, "the cluster is up", func() bool {
		info, ok := admin(t, n, "CLUSTER", "INFO").([]byte)
		return ok && strings.Contains(string(info), "cluster_state:ok")
	})

	_, err := newPatient(t, serverNodes(c)).TryLock(t.Context(), []string{"a"}, time.Minute)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, "CROSSSLOT")
	found := checked(t, serverNodes(c)).Findings
	assert.Contains(t, found, redlockcheck.Finding{
		Node: n.Addr(), Check: "cluster", Verdict: redlockcheck.Unfit,
		Text:   "it is a node of a Redis Cluster, which refuses locks whose keys are in several slots",
		Advice: `Put all keys into one slot with a hash tag, such as WithPrefix("{locks}:"); or use a master outside of Redis Cluster`,
	})

	opts := []redlock.Option{redlock.WithPrefix("{locks}:"), redlock.WithQuarantine(time.Hour), redlock.WithFencing()}
	a, b := newPatient(t, serverNodes(c), opts...), newPatient(t, serverNodes(c), opts...)
	require.NoError(t, a.Admit(t.Context(), serverNodes(c)[0].Name))
	held, err := a.TryLock(t.Context(), []string{"a", "b"}, time.Minute)
	require.NoError(t, err)
	require.NoError(t, held.Extend(t.Context(), 2*time.Minute))
	took := handOver(t, held, b, "b", redlock.WithRetryDelay(time.Minute))
	assert.Less(t, took, 30*time.Second, "it was told of the release, and has not polled")
	later, err := b.TryLock(t.Context(), []string{"b"}, time.Minute)
	require.NoError(t, err)
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
