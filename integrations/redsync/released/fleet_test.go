package released

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	theirs "github.com/go-redsync/redsync/v4"
	theirredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredislib "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/redsync"
	ourredis "github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v9"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A mutex is that of either package.
type mutex interface {
	Lock() error
	Unlock() (bool, error)
	Until() time.Time
}

// kinds make what makes the mutexes of a process, on connections of its own.
var kinds = map[string]func(addrs []string) func(key string) mutex{
	"redsync": func(addrs []string) func(string) mutex {
		var pools []theirredis.Pool
		for _, addr := range addrs {
			pools = append(pools, redigo.NewPool(&redis.Pool{MaxIdle: 136, Dial: func() (redis.Conn, error) {
				const limit = time.Second
				return redis.Dial("tcp", addr, redis.DialConnectTimeout(limit), redis.DialReadTimeout(limit), redis.DialWriteTimeout(limit))
			}}))
		}
		rs := theirs.New(pools...)
		return func(key string) mutex { return rs.NewMutex(key) }
	},
	"drop-in": func(addrs []string) func(string) mutex {
		var pools []ourredis.Pool
		for _, addr := range addrs {
			pools = append(pools, goredis.NewPool(goredislib.NewClient(&goredislib.Options{Addr: addr})))
		}
		rs := redsync.New(pools...)
		return func(key string) mutex { return rs.NewMutex(key) }
	},
}

// A referee knows who is in a section, and until when it may be.
type referee struct {
	mu     sync.Mutex
	inside map[string]mutex
	turns  map[string]int // by kind
}

// turn has one of a kind lock a mutex, and be in its section for a while.
func (r *referee) turn(t *testing.T, kind, key string, m mutex) {
	t.Helper()
	if m.Lock() != nil {
		return
	}
	r.mu.Lock()
	if other := r.inside[key]; other != nil {
		assert.Less(t, time.Until(other.Until()), time.Duration(0), "%T has %s while %T has it", m, key, other)
	}
	r.inside[key], r.turns[kind] = m, r.turns[kind]+1
	r.mu.Unlock()
	time.Sleep(rand.N(5 * time.Millisecond))
	r.mu.Lock()
	if r.inside[key] == m {
		delete(r.inside, key)
	}
	r.mu.Unlock()
	_, _ = m.Unlock() // If it fails, the keys end.
}

// enough says whether each kind had some turns: on a busy machine, one may get nothing in a few seconds.
func (r *referee) enough() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns["redsync"] > 2 && r.turns["drop-in"] > 2
}

// A fleet may be changed over process by process: three of each kind take turns in two sections, on five servers. One
// after the other of these is killed, and started again with its data.
func TestAMixedFleetHasNoOverlap(t *testing.T) {
	t.Parallel()
	took := 5 * time.Minute
	if testing.Short() {
		took = 8 * time.Second
	}
	// Without a write to the disk before each answer, a restart may forget a lock.
	c := testcluster.RunServers(t, 5, testcluster.WithAppendOnly(), testcluster.WithArgs("--appendfsync", "always"))
	r := &referee{inside: map[string]mutex{}, turns: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for kind, connect := range kinds {
		for range 3 {
			newMutex := connect(c.Addrs())
			all.Go(func() {
				for ctx.Err() == nil {
					key := fmt.Sprint(rand.IntN(2))
					r.turn(t, kind, key, newMutex(key))
				}
			})
		}
	}
	restarts := 0
	for start := time.Now(); time.Since(start) < took || !r.enough(); restarts++ {
		require.Less(t, time.Since(start), 16*took, "%v", r.turns)
		n := c.Nodes[restarts%len(c.Nodes)]
		time.Sleep(time.Second)
		require.NoError(t, n.Stop())
		time.Sleep(time.Second)
		require.NoError(t, n.Restart(true))
	}
	cancel()
	all.Wait()
	t.Logf("%d servers killed and started again: turns %v", restarts, r.turns)
}
