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

// What redsync's README shows, on a Redlock.
func Example() {
	r, end := connect() // redlock.New
	defer end()
	rs := redsync.Over(r)

	mutex := rs.NewMutex("my-global-mutex")
	if err := mutex.Lock(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("nobody else has", mutex.Name())
	if ok, err := mutex.Unlock(); !ok || err != nil {
		log.Fatal("unlock failed: ", err)
	}
	// Output: nobody else has my-global-mutex
}

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

// Another process unlocks what this one has locked.
func ExampleWithValue() {
	r, end := connect()
	defer end()
	rs := redsync.Over(r)
	mutex := rs.NewMutex("job", redsync.WithExpiry(time.Minute))
	if err := mutex.Lock(); err != nil {
		log.Fatal(err)
	}
	value := mutex.Value() // Is handed to the worker.

	ok, err := rs.NewMutex("job", redsync.WithValue(value)).Unlock()
	fmt.Println(ok, err)
	// Output: true <nil>
}

// connect returns a Redlock on three servers in memory.
var connect = nodetest.Example
