package compat

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/compat/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// keyPrefix is that of all keys of a pair.
const keyPrefix = "key:"

// A pair is two clients, of different kinds or of the same, with keys of their own.
type pair struct {
	first, second contender
	keys          []string
}

func (p pair) String() string { return p.first.name + " " + p.second.name }

// newPairs returns all pairs of kinds, each kind once as the first. At the end of the test
// nothing may be left of their locks.
func newPairs(t *testing.T) []pair {
	t.Helper()
	c := testcluster.RunServers(t, nodes)
	all := contenders(t, c)
	var pairs []pair
	for _, first := range all {
		for _, second := range all {
			p := pair{first: first, second: second}
			for _, k := range []string{"a", "b", "c"} {
				p.keys = append(p.keys, keyPrefix+p.String()+":"+k)
			}
			pairs = append(pairs, p)
		}
	}
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return !anyKey(t, c, keyPrefix) }, 2*time.Minute, pollDelay)
	})
	return pairs
}

// anyKey reports whether a node has a key that begins so.
func anyKey(t *testing.T, c *testcluster.Cluster, prefix string) bool {
	t.Helper()
	for _, n := range c.Nodes {
		all, err := n.Keys()
		require.NoError(t, err)
		for k := range all {
			if strings.HasPrefix(k, prefix) {
				return true
			}
		}
	}
	return false
}

// Whoever has a key excludes all others, before and after an extension, until it releases it.
func TestEachExcludesEachOther(t *testing.T) {
	t.Parallel()
	for _, p := range newPairs(t) {
		t.Run(p.String(), func(t *testing.T) { excludes(t.Context(), t, p.first.client, p.second.client, p.keys[:1]) })
	}
}

func excludes(ctx context.Context, t *testing.T, first, second client, keys []string) {
	t.Helper()
	h, err := first.lock(ctx, keys, longTTL, true)
	require.NoError(t, err)
	_, err = second.lock(ctx, keys, longTTL, false)
	require.ErrorIs(t, err, errTaken)
	require.NoError(t, h.extend(ctx, longTTL))
	_, err = second.lock(ctx, keys, longTTL, false)
	require.ErrorIs(t, err, errTaken)
	require.NoError(t, h.unlock(ctx))
	h, err = second.lock(ctx, keys, longTTL, true)
	require.NoError(t, err)
	require.NoError(t, h.unlock(ctx))
}

// A lock of several keys excludes who wants one of them, and is refused as a whole.
func TestLocksOfSeveralKeysExcludeEachOther(t *testing.T) {
	t.Parallel()
	for _, p := range newPairs(t) {
		t.Run(p.String(), func(t *testing.T) { excludesSeveral(t.Context(), t, p) })
	}
}

func excludesSeveral(ctx context.Context, t *testing.T, p pair) {
	t.Helper()
	first, second := p.first.client, p.second.client
	firsts, seconds := p.keys[:2], p.keys[1:]
	if p.first.oneKey {
		firsts = p.keys[1:2]
	}
	if p.second.oneKey {
		seconds = p.keys[1:2]
	}
	h, err := first.lock(ctx, firsts, longTTL, true)
	require.NoError(t, err)
	_, err = second.lock(ctx, seconds, longTTL, false)
	require.ErrorIs(t, err, errTaken)
	// What it was refused for is taken, and nothing else is.
	free, err := second.lock(ctx, p.keys[2:], longTTL, true)
	require.NoError(t, err)
	require.NoError(t, free.unlock(ctx))
	require.NoError(t, h.unlock(ctx))
	h, err = second.lock(ctx, seconds, longTTL, true)
	require.NoError(t, err)
	require.NoError(t, h.unlock(ctx))
}

// A holder that vanishes excludes others for its ttl, and no longer. All pairs wait at once.
func TestALockOfAHolderThatVanishedEndsWithItsTTL(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	ctx := t.Context()
	var waits sync.WaitGroup
	for _, p := range newPairs(t) {
		waits.Go(func() {
			begin := time.Now()
			_, err := p.first.client.lock(ctx, p.keys[:1], ttl, true)
			if err != nil {
				t.Errorf("%s: %v", p, err)
				return
			}
			h, err := p.second.client.lock(ctx, p.keys[:1], longTTL, true)
			if err != nil {
				t.Errorf("%s: %v", p, err)
				return
			}
			assert.GreaterOrEqual(t, time.Since(begin), ttl, p)
			assert.NoError(t, h.unlock(ctx), p)
		})
	}
	waits.Wait()
}

// A lock that is extended while its holder works excludes others for longer than its ttl:
// ours with KeepAlive, and that of using in redlock@5.
func TestALockThatIsExtendedByItselfOutlivesItsTTL(t *testing.T) {
	t.Parallel()
	node.Require(t)
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
