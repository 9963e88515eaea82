package servers

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// Somebody has stored something large under the key of a lock. It is an answer like any other: the
// connection that all callers share goes on, and the node is asked for no such value again.
func TestLockOnALargeValueBreaksNothing(t *testing.T) {
	t.Parallel()
	cert, trusted := certificate(t)
	for name, c := range map[string]struct {
		node func(t *testing.T, n *testcluster.Node) redlock.Node
		size int
		ends int64 // connections that end because of it
	}{
		"own connection":       {func(_ *testing.T, n *testcluster.Node) redlock.Node { return redlock.NewNode(n.Addr()) }, 2 << 20, 0},
		"own connection, huge": {func(_ *testing.T, n *testcluster.Node) redlock.Node { return redlock.NewNode(n.Addr()) }, 40 << 20, 1},
		"TLS": {func(t *testing.T, n *testcluster.Node) redlock.Node {
			t.Helper()
			return redlock.NewNode("rediss://"+terminateTLS(t, n, cert), redis.DialTLSConfig(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}))
		}, 2 << 20, 0},
		"a pool": {func(_ *testing.T, n *testcluster.Node) redlock.Node {
			return redlock.Node{Name: n.Addr(), Pool: n.Pool()}
		}, 2 << 20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testcluster.RunServers(t, 1)
			n := server.Nodes[0]
			r := newPatient(t, []redlock.Node{c.node(t, n)}, redlock.WithNodeTimeout(20*time.Second), redlock.WithConnectTimeout(20*time.Second))
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
			assert.LessOrEqual(t, strings.Count(stats, "cmdstat_set:"), 1)
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
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		_, err = r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, l.Unlock(t.Context()))
	}
	stats, err := redis.String(admin(t, n, "INFO", "commandstats"), nil)
	require.NoError(t, err)
	assert.Contains(t, stats, "cmdstat_set:calls=20,")
	assert.Contains(t, stats, "cmdstat_pttl:calls=20,")
	assert.Contains(t, stats, "cmdstat_evalsha:calls=10,", "the releases")
	for range 3 { // Another type at the key is this node's vote, and no other one's business.
		admin(t, n, "LPUSH", "list", "x")
		_, err = r.TryLock(t.Context(), []string{"list"}, time.Minute)
		require.ErrorContains(t, err, "WRONGTYPE")
	}
	assert.Equal(t, int64(1), r.Stats().Nodes[0].Connects)
}
