package redlock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockcheck"
	"github.com/seed6c881748/redlock/test/testkit"
)

// shortMaxTTL and longMaxTTL are those of the tests of quarantine in test/servers.
const (
	shortMaxTTL = 2 * time.Second
	longMaxTTL  = time.Minute
)

// The texts of a run are learnt by an EVAL that looks, so that one that comes to another
// run has corrected the marker; and what a server has forgotten is not taught again.
func TestQuarantineTextOfAnEarlierRunOnAServer(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	r := newPatient(t, nodesOf(c), redlock.WithQuarantine(longMaxTTL))
	require.NoError(t, r.Admit(t.Context(), names(c)...))
	cycle(t, r, "warm", time.Second)
	require.NotNil(t, redlock.NodesIn(r)[0].Speaks().(*quarantine.ConnDialect).Fast(redlock.LockScript))
	conn := adminConn(t, n)
	known := func(s *node.Script) bool {
		found, failed := redis.Ints(conn.Do("SCRIPT", "EXISTS", s.Hash))
		require.NoError(t, failed)
		return found[0] == 1
	}
	require.True(t, known(redlock.NodesIn(r)[0].Speaks().(*quarantine.ConnDialect).Fast(redlock.LockScript)))
	require.NoError(t, n.FlushScripts())
	cycle(t, r, "x", time.Second)
	assert.False(t, known(redlock.NodesIn(r)[0].Speaks().(*quarantine.ConnDialect).Fast(redlock.LockScript)))
	assert.True(t, known(redlock.GrantingScripts.Slow(redlock.LockScript)))

	earlier := strings.Repeat("ab", 20)
	nodes, maxTTL := "1", longMaxTTL.Milliseconds()
	require.NoError(t, n.Set(testkit.MarkerKey, earlier+" votes "+nodes+" 2000 0", time.Hour))
	stray := redlock.GrantingScripts.Fast(earlier, testkit.MarkerKey, nodes)[redlock.LockScript]
	other := redlock.GrantingScripts.Fast(earlier, "p:"+testkit.MarkerKey, nodes)[redlock.LockScript]
	require.NotEqual(t, stray.Hash, other.Hash, "or it would hide the restart from clients with another prefix")
	ask := func(verb string, program any, look string) any {
		reply, failed := conn.Do(verb, program, 3, "x", "stone", testkit.MarkerKey, "token", 1000, 1, look, nodes, maxTTL)
		require.NoError(t, failed)
		return reply
	}
	for _, look := range []string{"1", "0"} {
		answer, ok := ask("EVAL", stray.Source, look).([]any)
		require.True(t, ok)
		assert.Equal(t, "Q", string(answer[0].([]byte)))
	}
	require.Empty(t, keys(t, n))
	state, _, err := n.Get(testkit.MarkerKey)
	require.NoError(t, err)
	assert.NotContains(t, state, earlier)
}

// A node that hears of a larger maxTTL abstains at once, also if it has forgotten it since
// the client with it connected; and each client has its way with the texts of the run.
func TestQuarantineHearsOfALargerMaxTTLInEveryRequestOnAServer(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	small := newPatient(t, nodesOf(c), redlock.WithPolling(), redlock.WithQuarantine(longMaxTTL))
	large := newPatient(t, nodesOf(c), redlock.WithPolling(), redlock.WithQuarantine(time.Hour))
	require.NoError(t, small.Admit(t.Context(), names(c)...))
	try := func(r *redlock.Redlock) error {
		l, err := r.TryLock(t.Context(), []string{"x"}, time.Second)
		if err == nil {
			err = l.Unlock(t.Context())
		}
		return err
	}
	for range 3 { // The first time, large connects.
		require.NoError(t, try(large))
		require.NotNil(t, redlock.NodesIn(large)[0].Speaks().(*quarantine.ConnDialect).Fast(redlock.LockScript))
		require.Equal(t, time.Hour, markerOf(t, n).MaxTTL)
		require.NoError(t, try(small))
		require.NoError(t, small.Admit(t.Context(), names(c)...))
		require.Equal(t, longMaxTTL, markerOf(t, n).MaxTTL)
	}
	require.NoError(t, n.Flush())
	require.ErrorContains(t, try(small), "quarantined")
	require.ErrorContains(t, try(large), "quarantined for another 1h0m")
	require.ErrorContains(t, try(small), "quarantined for another 1h0m")
	require.ErrorIs(t, small.Stats().Nodes[0].Abstains, redlock.ErrQuarantined)
	says := func(opts ...redlock.Option) string {
		report, err := redlockcheck.Run(t.Context(), nodesOf(c), opts...)
		require.NoError(t, err)
		return report.String()
	}
	require.Regexp(t, "quarantine: it is in quarantine for another (1h0m|59m)", says(redlock.WithQuarantine(longMaxTTL)))
	require.Contains(t, says(), "quarantine: its other clients have quarantine", "a stray one")
	require.NoError(t, large.Admit(t.Context(), names(c)...))
	require.NoError(t, try(small))
	require.Contains(t, says(redlock.WithQuarantine(longMaxTTL)), "abstains for 1h0m0s after a restart")
}

// While clients of two sizes come, neither needs an INFO for a lock.
func TestQuarantineFastTextsServeBothSizesOnAServer(t *testing.T) {
	c := testcluster.RunServers(t, 2)
	one := newPatient(t, nodesOf(c)[:1], redlock.WithPolling(), redlock.WithQuarantine(longMaxTTL))
	two := newPatient(t, nodesOf(c), redlock.WithPolling(), redlock.WithQuarantine(longMaxTTL))
	require.NoError(t, one.Admit(t.Context(), names(c)[0]))
	require.NoError(t, two.Admit(t.Context(), names(c)[1]))
	conn := adminConn(t, c.Nodes[0])
	for _, r := range []*redlock.Redlock{one, two, one} {
		cycle(t, r, "warm", time.Second)
		_, err := conn.Do("CONFIG", "RESETSTAT")
		require.NoError(t, err)
		cycle(t, r, "x", time.Second)
		stats, err := redis.String(conn.Do("INFO", "commandstats"))
		require.NoError(t, err)
		assert.Contains(t, stats, "cmdstat_evalsha:")
		assert.NotContains(t, stats, "cmdstat_info:")
	}
	assert.Equal(t, 2, markerOf(t, c.Nodes[0]).Other)
}

// A server that refuses writes does not even cache a text that names a run.
func TestQuarantineLookThatIsRefusedLeavesNoTextOnAServer(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	conn := adminConn(t, n)
	text := redlock.GrantingScripts.Fast(strings.Repeat("ab", 20), "marker", "1")[redlock.LockScript]
	known := func() int {
		found, err := redis.Ints(conn.Do("SCRIPT", "EXISTS", text.Hash))
		require.NoError(t, err)
		return found[0]
	}
	for setting, values := range map[string][2]string{"maxmemory": {"1", "0"}, "min-replicas-to-write": {"1", "0"}} {
		admin(t, n, "CONFIG", "SET", setting, values[0])
		_, err := conn.Do("EVAL", text.Source, 1, "marker", "1", "1", shortMaxTTL.Milliseconds())
		require.Error(t, err, setting)
		assert.Zero(t, known(), setting)
		admin(t, n, "CONFIG", "SET", setting, values[1])
	}
	_, err := conn.Do("REPLICAOF", "127.0.0.1", "1")
	require.NoError(t, err)
	_, err = conn.Do("EVAL", text.Source, 1, "marker", "1", "1", shortMaxTTL.Milliseconds())
	require.ErrorContains(t, err, "READONLY")
	assert.Zero(t, known())
	_, err = conn.Do("REPLICAOF", "NO", "ONE")
	require.NoError(t, err)
	_, err = conn.Do("EVAL", text.Source, 1, "marker", "1", "1", shortMaxTTL.Milliseconds())
	require.NoError(t, err)
	assert.Equal(t, 1, known())
}
