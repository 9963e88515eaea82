package redlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

// The code under test gets the Cluster's Redlock.
func ExampleNew() {
	cluster := redlocktest.New(t, 3)

	err := cluster.Redlock.Do(ctx, []string{"report"}, time.Minute,
		func(context.Context, *redlock.Lock) error { return nil })
	fmt.Println(err)
	cluster.AssertFree()
	// Output: <nil>
}

// Another process has a Redlock of its own.
func ExampleCluster_NewRedlock() {
	cluster := redlocktest.New(t, 3)
	other := cluster.NewRedlock(redlock.WithOwner("other"))

	if _, err := other.Lock(ctx, []string{"report"}, time.Minute); err != nil {
		log.Fatal(err)
	}
	_, err := cluster.Redlock.TryLock(ctx, []string{"report"}, time.Minute)
	fmt.Println(errors.Is(err, redlock.ErrTaken))
	// Output: true
}

// For code that makes its own Redlock.
func ExampleCluster_Nodes() {
	cluster := redlocktest.New(t, 3)
	r, err := redlock.New(cluster.Nodes())
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(ctx)
	for _, node := range cluster.Nodes() {
		fmt.Println(node.Name)
	}
	// Output:
	// node1
	// node2
	// node3
}

// Somebody else has the lock, for a while.
func ExampleCluster_Take() {
	cluster := redlocktest.New(t, 3)

	release := cluster.Take("report", time.Minute)
	_, err := cluster.Redlock.TryLock(ctx, []string{"report"}, time.Minute)
	fmt.Println(errors.Is(err, redlock.ErrTaken))

	release()
	_, err = cluster.Redlock.Lock(ctx, []string{"report"}, time.Minute)
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// The lock is lost in the middle of the work: its context ends at once.
func ExampleCluster_Lose() {
	cluster := redlocktest.New(t, 3)
	err := cluster.Redlock.Do(ctx, []string{"report"}, time.Minute, func(ctx context.Context, lock *redlock.Lock) error {
		cluster.Lose(lock)
		<-ctx.Done()
		fmt.Println(context.Cause(ctx))
		return nil
	})
	fmt.Println(errors.Is(err, redlock.ErrLost))
	// Output:
	// redlock: lock lost
	// true
}

// The nodes lose a key, and the holder has not noticed yet.
func ExampleCluster_Forget() {
	cluster := redlocktest.New(t, 3)
	lock, err := cluster.Redlock.Lock(ctx, []string{"report"}, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	cluster.Forget("report")
	fmt.Println(lock.Err())
	fmt.Println(errors.Is(lock.Unlock(ctx), redlock.ErrLost))
	// Output:
	// <nil>
	// true
}

// Too few nodes answer: a call ends at the node timeout.
func ExampleCluster_HangMajority() {
	cluster := redlocktest.New(t, 3, redlock.WithNodeTimeout(50*time.Millisecond))
	cluster.HangMajority()
	_, err := cluster.Redlock.TryLock(ctx, []string{"report"}, time.Minute)
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))
	// Output: true
}

// Too few nodes are there: a call ends at once. Then all is well again.
func ExampleCluster_Recover() {
	cluster := redlocktest.New(t, 3)
	cluster.StopMajority()
	_, err := cluster.Redlock.TryLock(ctx, []string{"report"}, time.Minute)
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))
	cluster.Recover()
	_, err = cluster.Redlock.Lock(ctx, []string{"report"}, time.Minute)
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// Every answer takes 20 ms longer.
func ExampleCluster_Slow() {
	cluster := redlocktest.New(t, 3)
	cluster.Slow(20 * time.Millisecond)
	start := time.Now()
	_, err := cluster.Redlock.Lock(ctx, []string{"report"}, time.Minute)
	fmt.Println(err, time.Since(start) >= 20*time.Millisecond)
	// Output: <nil> true
}

// What is locked, and which token the nodes store.
func ExampleCluster_Held() {
	cluster := redlocktest.New(t, 3)
	lock, err := cluster.Redlock.Lock(ctx, []string{"b", "a"}, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cluster.Held(), cluster.Holder("a") == lock.Token(), cluster.Holder("c") == "")
	// Output: [a b] true true
}
