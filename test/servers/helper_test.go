package servers

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// These tests are for what a fake server and a fake clock cannot show. All their bounds are generous, since a busy machine is
// not a failing one.

// What these tests share with the simulation and with those of redlock/, under short names.
var (
	newRedlock    = testkit.NewRedlock
	newOver       = testkit.NewOver
	tryLock       = testkit.TryLock
	waitLock      = testkit.WaitLock
	refused       = testkit.Refused
	refusal       = testkit.Refusal
	nodesOf       = testkit.NodesOf
	keys          = testkit.Keys
	names         = testkit.Names
	requireNoKeys = testkit.RequireNoKeys
	cycle         = testkit.Cycle
	connects      = testkit.Connects
	rounds        = testkit.Rounds
	between       = testkit.Between

	newPatient     = testkit.NewPatient
	serverNodes    = testkit.ServerNodes
	await          = testkit.Await
	awaitAll       = testkit.AwaitAll
	release        = testkit.Release
	lockEverywhere = testkit.LockEverywhere
	selecting      = testkit.Selecting
	setUser        = testkit.SetUser
	heap           = testkit.Heap
	admin          = testkit.Admin
	adminConn      = testkit.AdminConn
)

const (
	ttl      = testkit.TTL
	patient  = testkit.Patient
	patience = testkit.Patience
	secret   = testkit.Secret
)

// nodesBy returns a node for each server of a cluster.
func nodesBy(c *testcluster.Cluster, node func(n *testcluster.Node) redlock.Node) (all []redlock.Node) {
	for _, n := range c.Nodes {
		all = append(all, node(n))
	}
	return all
}

// rest waits for a time that is part of a scenario.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// awaitNoKeys waits until no node stores a lock.
func awaitNoKeys(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	await(t, patience, "no node has keys", func() bool {
		return !slices.ContainsFunc(c.Nodes, func(n *testcluster.Node) bool { return len(keys(t, n)) > 0 })
	})
}
