package compat

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// keyPrefix is that of all keys of pairs.
const keyPrefix = "key:"

// pairs calls f for each two kinds of clients, each of them once as the first, with keys of
// their own, all at the same time. At the end nothing may be left of their locks.
func pairs(t *testing.T, f func(t *testing.T, first, second contender, keys []string)) {
	t.Helper()
	c := testcluster.RunServers(t, nodes)
	all := contenders(t, c)
	t.Run("pairs", func(t *testing.T) { // Ends when all of them have.
		for _, first := range all {
			for _, second := range all {
				name := first.name + " " + second.name
				var keys []string
				for _, k := range []string{"a", "b", "c"} {
					keys = append(keys, keyPrefix+name+":"+k)
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					f(t, first, second, keys)
				})
			}
		}
	})
	require.Eventually(t, func() bool { return !anyKey(t, c) }, time.Minute, pollDelay)
}

// anyKey reports whether a node has a key of pairs.
func anyKey(t *testing.T, c *testcluster.Cluster) bool {
	t.Helper()
	for _, n := range c.Nodes {
		all, err := n.Keys()
		require.NoError(t, err)
		for k := range all {
			if strings.HasPrefix(k, keyPrefix) {
				return true
			}
		}
	}
	return false
}

// Whoever has a key excludes all others, before and after an extension, until it releases it.
func TestEachExcludesEachOther(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, first, second contender, keys []string) {
		ctx, keys := t.Context(), keys[:1]
		h, err := first.client.lock(ctx, keys, longTTL, true)
		require.NoError(t, err)
		_, err = second.client.lock(ctx, keys, longTTL, false)
		require.ErrorIs(t, err, errTaken)
		require.NoError(t, h.extend(ctx, longTTL))
		_, err = second.client.lock(ctx, keys, longTTL, false)
		require.ErrorIs(t, err, errTaken)
		require.NoError(t, h.unlock(ctx))
		h, err = second.client.lock(ctx, keys, longTTL, true)
		require.NoError(t, err)
		require.NoError(t, h.unlock(ctx))
	})
}

// A lock of several keys excludes who wants one of them, and is refused as a whole.
func TestLocksOfSeveralKeysExcludeEachOther(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, first, second contender, keys []string) {
		ctx := t.Context()
		firsts, seconds := keys[:2], keys[1:]
		if first.oneKey {
			firsts = keys[1:2]
		}
		if second.oneKey {
			seconds = keys[1:2]
		}
		h, err := first.client.lock(ctx, firsts, longTTL, true)
		require.NoError(t, err)
		_, err = second.client.lock(ctx, seconds, longTTL, false)
		require.ErrorIs(t, err, errTaken)
		free, err := second.client.lock(ctx, keys[2:], longTTL, true)
		require.NoError(t, err)
		require.NoError(t, free.unlock(ctx))
		require.NoError(t, h.unlock(ctx))
		h, err = second.client.lock(ctx, seconds, longTTL, true)
		require.NoError(t, err)
		require.NoError(t, h.unlock(ctx))
	})
}

// A holder that vanishes excludes others for its ttl, and no longer.
func TestALockOfAHolderThatVanishedEndsWithItsTTL(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	pairs(t, func(t *testing.T, first, second contender, keys []string) {
		begin := time.Now()
		_, err := first.client.lock(t.Context(), keys[:1], ttl, true)
		require.NoError(t, err)
		h, err := second.client.lock(t.Context(), keys[:1], longTTL, true)
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(begin), ttl)
		require.NoError(t, h.unlock(t.Context()))
	})
}

// A lock that is extended while its holder works excludes others for longer than its ttl:
// ours with KeepAlive, and that of using in redlock@5.
func TestALockThatIsExtendedByItselfOutlivesItsTTL(t *testing.T) {
	t.Parallel()
	requireNode(t)
	const ttl = 3 * time.Second
	c := testcluster.RunServers(t, nodes)
	all := contenders(t, c)
	for name, hold := range map[string]func(ctx context.Context) (func(context.Context) error, error){
		"KeepAlive": func(ctx context.Context) (func(context.Context) error, error) {
			l, err := all[0].client.(ours).r.Lock(ctx, []string{"KeepAlive"}, ttl)
			if err != nil {
				return nil, err
			}
			l.KeepAlive(ctx)
			return l.Unlock, nil
		},
		"using": func(ctx context.Context) (func(context.Context) error, error) {
			h, err := startAgent(t, "5", c.Addrs()).using(ctx, []string{"using"}, ttl)
			return h.unlock, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			unlock, err := hold(ctx)
			require.NoError(t, err)
			for end := time.Now().Add(ttl + ttl/2); time.Now().Before(end); time.Sleep(pollDelay) {
				for _, other := range all {
					_, err = other.client.lock(ctx, []string{name}, longTTL, false)
					require.ErrorIs(t, err, errTaken, other.name)
				}
			}
			require.NoError(t, unlock(ctx))
			for _, other := range all {
				h, err := other.client.lock(ctx, []string{name}, longTTL, true)
				require.NoError(t, err)
				require.NoError(t, h.unlock(ctx))
			}
		})
	}
}
