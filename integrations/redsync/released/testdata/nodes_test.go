package redsync

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/redlock"
)

// This file stands beside redsync's own tests in the copy that suite_test.go makes.

// firstPort is that of 48 free ones.
var firstPort, _ = strconv.Atoi(os.Getenv("REDSYNC_FIRST_PORT"))

// A ownPool is one of the user's own, which has been given the methods of a redis.NodePool.
type ownPool struct {
	redis.Pool

	socket string
}

func (p ownPool) Client() any { return p.socket }

func (p ownPool) Node() (redlock.Node, string, error) {
	return redlock.NewNode("unix://" + p.socket), "", nil
}

// on has pools that are none of the drop-in's be those of the first servers of a block.
func on(block int, pools []redis.Pool) []redis.Pool {
	for i, p := range pools {
		if _, ok := p.(redis.NodePool); !ok {
			pools[i] = ownPool{p, servers[block*ServerPoolSize+i].Socket()}
		} else if name := fmt.Sprintf("%T", p); name != "*redigo.pool" && name != "*goredis.pool" {
			panic(name)
		}
	}
	return pools
}

func quorumOf(m *Mutex) int { return len(m.rs.pools)/2 + 1 }

// settle waits until nodes have done what they were asked: a call returns as soon as a quorum has.
func settle(t *testing.T, pools []redis.Pool) {
	t.Helper()
	s, err := New(pools...).use()
	if err != nil {
		t.Fatal(err)
	}
	defer s.end()
	if _, err := s.r.Inspect(context.Background(), "settle"); err != nil {
		t.Fatal(err)
	}
}
