package compat

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/testkit"
)

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
				p.keys = append(p.keys, "key:"+p.String()+":"+k)
			}
			pairs = append(pairs, p)
		}
	}
	t.Cleanup(func() {
		for _, n := range c.Nodes {
			require.Eventually(t, func() bool {
				return testkit.Admin(t, n, "EVAL", "return #redis.call('KEYS', 'key:*')", 0) == int64(0)
			}, 2*time.Minute, pollDelay)
		}
	})
	return pairs
}

// Whoever has a key excludes all others, before and after an extension, until it releases it. A lock of several keys
// excludes who wants one of them, and is refused as a whole.
func TestEachExcludesEachOther(t *testing.T) {
	t.Parallel()
	for _, p := range newPairs(t) {
		t.Run(p.String(), func(t *testing.T) {
			excludes(t.Context(), t, p, p.keys[:1], p.keys[:1])
			firsts, seconds := p.keys[:2], p.keys[1:]
			if p.first.oneKey {
				firsts = p.keys[1:2]
			}
			if p.second.oneKey {
				seconds = p.keys[1:2]
			}
			excludes(t.Context(), t, p, firsts, seconds)
		})
	}
}

// excludes has the first one hold its keys, which do not have the last one, while the second one wants its own.
func excludes(ctx context.Context, t *testing.T, p pair, firsts, seconds []string) {
	t.Helper()
	first, second := p.first.client, p.second.client
	h, err := first.lock(ctx, firsts, longTTL, true)
	require.NoError(t, err)
	_, err = second.lock(ctx, seconds, longTTL, false)
	require.ErrorIs(t, err, errTaken)
	require.NoError(t, h.extend(ctx, longTTL))
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
