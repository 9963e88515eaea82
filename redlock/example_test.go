package redlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A job that only one process may do at a time. doc.go has the same.
func Example() {
	r, err := redlock.New(nodes)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = r.Close(ctx) }()

	err = r.Do(ctx, []string{"account:42"}, 10*time.Second, func(ctx context.Context, lock *redlock.Lock) error {
		// The lock is extended until this function returns. If it is lost all the same, ctx ends.
		fmt.Println("nobody else works on", lock.Resources())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: nobody else works on [account:42]
}

// What the examples use and do not make themselves. It is in a file of its own, as godoc would
// otherwise show it with each of them.
var (
	ctx = context.Background()

	// cluster has five Redis servers in memory. A program has addresses of real ones. On a busy
	// machine they may take long to answer.
	cluster = redlocktest.New(&testkit.ExampleTB{}, 5, redlock.WithNodeTimeout(10*time.Second))

	// nodes are those of the cluster; see ExampleNewNode for others.
	nodes = cluster.Nodes()

	// r is a Redlock over the nodes, as New returns it; other is that of another process.
	r, other = cluster.Redlock, cluster.NewRedlock()
)

// locked is a lock that is held for ten seconds at least. The examples of Lock and TryLock show how to take one.
func locked(r *redlock.Redlock, resource string, opts ...redlock.Option) *redlock.Lock {
	lock, err := r.Lock(ctx, []string{resource}, 10*time.Second, opts...)
	if err != nil {
		log.Fatal(err)
	}
	return lock
}
