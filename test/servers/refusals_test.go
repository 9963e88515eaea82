package servers

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// One mistaken call, of a resource whose key is something else, must not take a
// node out for everybody when its connection breaks.
func TestRefusalForAKeyOfAnotherTypeHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	r := newPatient(t, nodesOf(c))
	await(t, 30*time.Second, "all nodes have a lock", func() bool { return lockEverywhere(t, c, r, "fine") })
	for _, n := range c.Nodes {
		admin(t, n, "RPUSH", "jobs", "x")
		n.Proxy().DropReplies(true) // The outcome is left unknown.
	}
	_, err := r.TryLock(t.Context(), []string{"jobs"}, time.Hour, redlock.WithNodeTimeout(50*time.Millisecond))
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	for _, n := range c.Nodes {
		n.Proxy().DropReplies(false)
		n.Proxy().Reset()
	}
	await(t, 30*time.Second, "all nodes have a lock", func() bool { return lockEverywhere(t, c, r, "fine") })
	_, err = r.TryLock(t.Context(), []string{"jobs"}, time.Hour)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, "WRONGTYPE")
	for _, n := range c.Nodes {
		admin(t, n, "DEL", "jobs")
	}
}

func TestRefusalForALockWhoseKeyBecomesAnotherTypeIsALoss(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	r := newPatient(t, nodesOf(c))
	for _, stolen := range []string{"a", "b"} {
		await(t, 30*time.Second, "all nodes have a lock", func() bool { return lockEverywhere(t, c, r, "fine") })
		l, err := r.TryLock(t.Context(), []string{"a", "b"}, time.Hour)
		require.NoError(t, err)
		await(t, 30*time.Second, "all nodes have it", func() bool { return holders(t, c, l) == 3 })
		for _, n := range c.Nodes {
			admin(t, n, "DEL", stolen)
			admin(t, n, "RPUSH", stolen, "x")
		}
		require.ErrorIs(t, l.Extend(t.Context(), time.Hour), redlock.ErrLost)
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrLost)
		for _, n := range c.Nodes {
			admin(t, n, "DEL", stolen)
		}
		awaitNoKeys(t, c, 30*time.Second)
	}
}

// The same with a resource that the user of the servers may not touch.
func TestRefusalForAForbiddenKeyHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	var nodes []redlock.Node
	for _, n := range c.Nodes {
		setUser(t, n, "locker", append([]string{"~app:*", "~__redlock__:*"}, leastPrivilege...)...)
		nodes = append(nodes, redlock.NewNode("redis://locker:"+url.QueryEscape(secret)+"@"+n.Addr()))
	}
	r := newPatient(t, nodes)
	await(t, 30*time.Second, "all nodes have a lock", func() bool { return lockEverywhere(t, c, r, "app:fine") })
	for _, n := range c.Nodes {
		n.Proxy().DropReplies(true)
	}
	for _, resource := range []string{"other", "app:fine"} {
		_, err := r.TryLock(t.Context(), []string{resource}, time.Hour, redlock.WithNodeTimeout(50*time.Millisecond))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	}
	for _, n := range c.Nodes {
		n.Proxy().DropReplies(false)
		n.Proxy().Reset()
	}
	await(t, 30*time.Second, "all nodes have a lock", func() bool { return lockEverywhere(t, c, r, "app:fine") })
}
