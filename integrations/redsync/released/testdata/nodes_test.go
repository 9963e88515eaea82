package redsync

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/go-redsync/redsync/v4/redis"

	"github.com/seed6c881748/redlock/redlock"
)

// This file stands beside redsync's own tests in the copy that suite_test.go makes. For their pools, which they still
// look at the keys with, it has Redlocks on the same servers.

// firstPort is that of 48 free ones.
var firstPort, _ = strconv.Atoi(os.Getenv("REDSYNC_FIRST_PORT"))

var redlocks = map[redis.Pool]*redlock.Redlock{} // by the first pool

// on notes a Redlock for pools that are those of the first servers of a block.
func on(block int, pools []redis.Pool) []redis.Pool {
	nodes := make([]redlock.Node, len(pools))
	for i := range nodes {
		nodes[i] = redlock.NewNode("unix://" + servers[block*ServerPoolSize+i].Socket())
	}
	r, err := redlock.New(nodes)
	if err != nil {
		panic(err)
	}
	redlocks[pools[0]] = r
	return pools
}

// redlockOn is what New is given instead of pools.
func redlockOn(pools []redis.Pool) *redlock.Redlock { return redlocks[pools[0]] }

func quorumOf(m *Mutex) int { return len(m.r.Stats().Nodes)/2 + 1 }

// settle waits until nodes have done what they were asked: a call returns as soon as a quorum has.
func settle(t *testing.T, pools []redis.Pool) {
	t.Helper()
	if _, err := redlockOn(pools).Inspect(context.Background(), "settle"); err != nil {
		t.Fatal(err)
	}
}
