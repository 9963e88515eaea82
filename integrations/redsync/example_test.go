package redsync_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	redigolib "github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/integrations/redsync"
	"github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/integrations/redsync/redis/redigo"
	"github.com/seed6c881748/redlock/redlock"
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

// Errors are told apart as before, or by those of the library.
func ExampleErrTaken() {
	r, end := connect()
	defer end()
	rs := redsync.Over(r)
	if err := rs.NewMutex("job").Lock(); err != nil {
		log.Fatal(err)
	}

	err := rs.NewMutex("job").TryLock()
	var taken *redsync.ErrTaken
	fmt.Println(errors.As(err, &taken), errors.Is(err, redlock.ErrTaken))
	// Output: true true
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

// What is new takes the Redlock itself, on the same resources.
func ExampleOver() {
	r, end := connect()
	defer end()
	rs := redsync.Over(r)
	err := r.Do(context.Background(), []string{"job"}, 10*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
		var taken *redsync.ErrTaken
		fmt.Println(errors.As(rs.NewMutex("job").TryLockContext(ctx), &taken))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: true
}

// connect returns a Redlock on three servers in memory.
var connect = nodetest.Example
