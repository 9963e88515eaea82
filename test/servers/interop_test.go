package servers

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

// What other Redlock clients (redsync, node-redlock) do on a node.
const (
	foreignToken  = "a token of another kind"
	foreignUnlock = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`
	foreignExtend = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`
)

// foreignLock locks as other clients do and reports whether the node agreed.
func foreignLock(t *testing.T, n *testcluster.Node, resource string, life time.Duration) bool {
	t.Helper()
	return admin(t, n, "SET", resource, foreignToken, "NX", "PX", life.Milliseconds()) == "OK"
}

func TestInteropForeignLocksExcludeOurs(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	r := newPatient(t, nodesOf(c))
	for _, n := range c.Nodes[:2] {
		require.True(t, foreignLock(t, n, "a", time.Minute))
	}
	err := refusal(t, redlock.ErrTaken, r, []string{"a"}, time.Minute)
	refused := 0
	for _, v := range votesOf(t, err) {
		if errors.Is(v.Err, redlock.ErrTaken) {
			refused++
			assert.Equal(t, tokens.Digest(foreignToken), v.Holder)
			assert.InDelta(t, time.Minute, v.HolderTTL, float64(30*time.Second))
		}
	}
	assert.Positive(t, refused)
	in, err := r.Inspect(t.Context(), "a")
	require.NoError(t, err)
	assert.True(t, in.Held)
	// Our attempt has left the third node to others, and theirs to them.
	await(t, 30*time.Second, "our key is gone", func() bool { return len(keys(t, c.Nodes[2])) == 0 })
	for _, n := range c.Nodes[:2] {
		assert.Equal(t, foreignToken, keys(t, n)["a"].Value)
		require.Equal(t, int64(1), admin(t, n, "EVAL", foreignUnlock, 1, "a", foreignToken))
	}
	cycle(t, r, "a", time.Minute)

	// A minority is not enough, and what expires is free.
	require.True(t, foreignLock(t, c.Nodes[0], "b", time.Minute))
	cycle(t, r, "b", time.Minute)
	for _, n := range c.Nodes {
		require.True(t, foreignLock(t, n, "c", 500*time.Millisecond))
	}
	l := waitLock(t, r, []string{"c"}, time.Minute, redlock.WithRetryCount(100), redlock.WithRetryDelay(50*time.Millisecond))
	assert.Greater(t, l.Attempts(), 1)
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, c.Nodes[0].Del("b"))
	awaitNoKeys(t, c, 30*time.Second)
}

func TestInteropOurLocksExcludeForeignOnes(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	r := newPatient(t, nodesOf(c))
	await(t, 30*time.Second, "all nodes have a lock", func() bool { return lockEverywhere(t, c, r, "warm") })
	for _, resources := range [][]string{{"a"}, {"a", "b"}} {
		l, err := r.TryLock(t.Context(), resources, time.Minute)
		require.NoError(t, err)
		await(t, 30*time.Second, "all nodes have it", func() bool { return holders(t, c, l) == 3 })
		for _, n := range c.Nodes {
			for _, res := range resources {
				assert.Equal(t, "string", admin(t, n, "TYPE", res))
				value, err := redis.String(admin(t, n, "GET", res), nil)
				require.NoError(t, err)
				assert.Equal(t, l.Token(), value)
				left, err := redis.Int64(admin(t, n, "PTTL", res), nil)
				require.NoError(t, err)
				assert.Positive(t, left)
				assert.LessOrEqual(t, left, time.Minute.Milliseconds())
				assert.GreaterOrEqual(t, time.Duration(left)*time.Millisecond, time.Until(l.Until()), "it lives until then at least")
				assert.False(t, foreignLock(t, n, res, time.Minute))
				for _, script := range []string{foreignUnlock, foreignExtend} {
					assert.Equal(t, int64(0), admin(t, n, "EVAL", script, 1, res, foreignToken, 1))
				}
			}
		}
		// Whoever is given the token can extend and release by other means.
		for _, n := range c.Nodes {
			for _, res := range resources {
				admin(t, n, "EVAL", foreignExtend, 1, res, l.Token(), (2 * time.Minute).Milliseconds())
			}
		}
		require.NoError(t, l.Extend(t.Context(), time.Minute))
		for _, n := range c.Nodes {
			for _, res := range resources {
				assert.Greater(t, keys(t, n)[res].TTL, time.Minute, "an extension never shortens")
			}
		}
		require.NoError(t, l.Unlock(t.Context()))
		awaitNoKeys(t, c, 30*time.Second)
		for _, n := range c.Nodes {
			assert.True(t, foreignLock(t, n, "a", time.Minute))
			require.NoError(t, n.Del("a"))
		}
	}
}
