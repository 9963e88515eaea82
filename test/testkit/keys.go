package testkit

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/reserved"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// Reserved is in every key that the library keeps things of its own under.
const Reserved = reserved.Mark

// Keys returns the keys of a node that are locks, not the library's own.
func Keys(t *testing.T, n *testcluster.Node) map[string]testcluster.KeyState {
	t.Helper()
	all, err := n.Keys()
	require.NoError(t, err)
	for k := range all {
		if strings.Contains(k, Reserved) {
			delete(all, k)
		}
	}
	return all
}

// RequireNoKeys checks that no node stores a lock.
func RequireNoKeys(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	for _, n := range c.Nodes {
		require.Empty(t, Keys(t, n), "keys left on %s", n.Name())
	}
}

// Holders returns how many nodes store the lock's token for each resource, whatever the prefix.
func Holders(t *testing.T, c *testcluster.Cluster, l *redlock.Lock) int {
	t.Helper()
	n := 0
	for _, node := range c.Nodes {
		var mine []string
		for key, state := range Keys(t, node) {
			if state.Value == l.Token() {
				mine = append(mine, key)
			}
		}
		if !slices.ContainsFunc(l.Resources(), func(resource string) bool {
			return !slices.ContainsFunc(mine, func(key string) bool { return strings.HasSuffix(key, resource) })
		}) {
			n++
		}
	}
	return n
}

// Names returns the names of all nodes.
func Names(c *testcluster.Cluster) []string {
	all := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		all[i] = n.Name()
	}
	return all
}

// MarkerKey is the key of the quarantine's marker.
const MarkerKey = Reserved + "q"

// MarkerOf returns the quarantine's marker on a node, which must have one.
func MarkerOf(t *testing.T, n *testcluster.Node) quarantine.Marker {
	t.Helper()
	text, _, err := n.Get(MarkerKey)
	require.NoError(t, err)
	m := quarantine.ParseMarker(text)
	require.NotEmpty(t, m.Run, text)
	return m
}

// CounterKey is the key of a resource's counter for fencing.
func CounterKey(resource string) string { return Reserved + fences.Mark + resource }
