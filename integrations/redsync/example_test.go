package redsync_test

import (
	"fmt"
	"log"
	"time"

	redigolib "github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/integrations/redsync"
	"github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/integrations/redsync/redis/redigo"
)

// Pools are those of redsync, from the packages of this module.
func ExampleNew() {
	var pools []redis.Pool
	for _, addr := range nodetest.Addrs() { // Of independent masters.
		pool := &redigolib.Pool{MaxIdle: 3, Dial: func() (redigolib.Conn, error) { return redigolib.Dial("tcp", addr) }}
		defer func() { _ = pool.Close() }()
		pools = append(pools, redigo.NewPool(pool))
	}
	rs := redsync.New(pools...)

	mutex := rs.NewMutex("job", redsync.WithExpiry(time.Minute))
	if err := mutex.Lock(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(mutex.Unlock())
	// Output: true <nil>
}
