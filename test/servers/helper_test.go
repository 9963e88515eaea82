package servers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// How these tests, which need real servers, are run is in docs/testing.md: what they are for is
// what a fake server and a fake clock cannot show. All their bounds are generous, since a busy
// machine is not a failing one.

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
	holders       = testkit.Holders
	cycle         = testkit.Cycle
	votesOf       = testkit.VotesOf
	connects      = testkit.Connects
	rounds        = testkit.Rounds
	between       = testkit.Between
	magnitude     = testkit.Magnitude
	envNumber     = testkit.EnvNumber

	newPatient     = testkit.NewPatient
	serverNodes    = testkit.ServerNodes
	await          = testkit.Await
	awaitAll       = testkit.AwaitAll
	release        = testkit.Release
	lockEverywhere = testkit.LockEverywhere
	dialler        = testkit.Dialler
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

// awaitNoKeys waits until no node stores a lock. On failure it shows what is
// left.
func awaitNoKeys(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	left := make(map[string]testcluster.KeyState)
	start := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		clear(left)
		for _, n := range c.Nodes {
			for k, s := range keys(t, n) {
				left[n.Name()+": "+k] = s
			}
		}
		if len(left) == 0 {
			return
		}
		require.Less(t, time.Since(start), patience, "keys left: %v", left)
		<-tick.C
	}
}
