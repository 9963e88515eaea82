package servers

import (
	"errors"
	"testing"
	"time"

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

// Other clients see our locks as their own are, also with a label or a fence; our own are shown the label. What others
// store is theirs.
func TestInteropOurLocksExcludeForeignOnes(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	r, other := newPatient(t, nodesOf(c)), newPatient(t, nodesOf(c))
	await(t, patience, "all nodes have a lock", func() bool { return lockEverywhere(t, c, r, "warm") })
	resources := []string{"a", "b"}
	for _, own := range [][]redlock.Option{nil, {redlock.WithFencing()}} {
		for _, owner := range []string{"", oddOwner} {
			l := tryLock(t, r, resources, time.Minute, append(own, redlock.WithOwner(owner))...)
			await(t, patience, "all nodes have it", func() bool { return holders(t, c, l) == 3 })
			for _, n := range c.Nodes {
				for _, res := range resources {
					assert.Equal(t, "string", admin(t, n, "TYPE", res))
					assert.Equal(t, []byte(l.Token()), admin(t, n, "GET", res))
					left := keys(t, n)[res].TTL
					assert.LessOrEqual(t, left, time.Minute)
					assert.GreaterOrEqual(t, left, time.Until(l.Until()), "it lives until then at least")
					assert.False(t, foreignLock(t, n, res, time.Minute))
					for _, script := range []string{foreignUnlock, foreignExtend} {
						for _, token := range []string{foreignToken, "", l.Token()[:tokens.Length-1]} {
							assert.Equal(t, int64(0), admin(t, n, "EVAL", script, 1, res, token, 1))
						}
					}
					// Whoever is given the token can extend by other means.
					admin(t, n, "EVAL", foreignExtend, 1, res, l.Token(), (2 * time.Minute).Milliseconds())
				}
			}
			_, try := other.TryLock(t.Context(), []string{"a"}, time.Minute, own...)
			_, wait := other.Lock(t.Context(), []string{"b"}, time.Minute, append(own, redlock.WithRetryCount(1))...)
			for _, err := range []error{try, wait} {
				require.ErrorIs(t, err, redlock.ErrTaken)
				for _, v := range votesOf(t, err) {
					assert.True(t, v.Owner == owner || !errors.Is(v.Err, redlock.ErrTaken), v)
				}
			}
			in, err := other.Inspect(t.Context(), "b")
			require.NoError(t, err)
			assert.Equal(t, owner, in.Owner)
			require.NoError(t, l.Extend(t.Context(), time.Minute))
			for _, n := range c.Nodes {
				assert.Greater(t, keys(t, n)["b"].TTL, time.Minute, "an extension never shortens")
			}
			require.NoError(t, l.Unlock(t.Context()))
			awaitNoKeys(t, c)
		}
	}
	for _, n := range c.Nodes {
		require.True(t, foreignLock(t, n, "a", time.Minute))
	}
	in, err := r.Inspect(t.Context(), "a")
	require.NoError(t, err)
	assert.True(t, in.Held)
	assert.Empty(t, in.Owner)
}
