package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// Who holds a resource, for people.
func ExampleRedlock_Inspect() {
	lock, err := r.Lock(ctx, []string{"inspected"}, time.Minute, redlock.WithOwner("worker-7"))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)

	in, err := other.Inspect(ctx, "inspected")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(in.Held, in.Owner, in.TTL.Round(time.Minute))
	// Output: true worker-7 1m0s
}

// Counters and what is going on, for metrics.
func ExampleRedlock_Stats() {
	r, err := redlock.New(nodes)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(ctx)
	lock, err := r.Lock(ctx, []string{"counted"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	s := r.Stats()
	fmt.Println("held:", s.Held, "acquired:", s.Acquired, "taken:", s.Taken)
	_ = lock.Unlock(ctx)
	s = r.Stats()
	fmt.Println("held:", s.Held, "acquired:", s.Acquired, "taken:", s.Taken)
	// Output:
	// held: 1 acquired: 1 taken: 0
	// held: 0 acquired: 1 taken: 0
}

// New nodes are in quarantine. An operator who knows that no lock was held on them ends it.
func ExampleRedlock_Admit() {
	r, err := redlock.New(nodes,
		redlock.WithPrefix("admitted:"), redlock.WithQuarantine(time.Minute), redlock.WithNodeTimeout(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(ctx)
	_, err = r.TryLock(ctx, []string{"a"}, 10*time.Second)
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))

	fmt.Println(r.Admit(ctx, "node1", "node2", "node3", "node4", "node5"))
	lock, err := r.Lock(ctx, []string{"a"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	fmt.Println(lock.Resources())
	// Output:
	// true
	// <nil>
	// [a]
}

// What each node said.
func ExampleQuorumError() {
	cluster.StopMajority() // Three of five nodes are down.
	defer cluster.Recover()

	_, err := r.TryLock(ctx, []string{"votes"}, 10*time.Second)
	if failed := (*redlock.QuorumError)(nil); errors.As(err, &failed) {
		fmt.Println(errors.Is(err, redlock.ErrNoQuorum), failed.Op, failed.Need)
		for _, vote := range failed.Votes {
			if vote.Err == nil || errors.Is(vote.Err, redlock.ErrPending) {
				continue // A yes, or an answer that was not waited for.
			}
			fmt.Println(vote.Node, "did not answer") // vote.Err says why.
		}
	}
	// Output:
	// true lock 3
	// node1 did not answer
	// node2 did not answer
	// node3 did not answer
}

// When to come back, for a Retry-After header or a queue.
func ExampleQuorumError_RetryAfter() {
	lock, err := other.Lock(ctx, []string{"later"}, time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)

	_, err = r.TryLock(ctx, []string{"later"}, 10*time.Second)
	if refused := (*redlock.QuorumError)(nil); errors.As(err, &refused) {
		fmt.Println(refused.RetryAfter().Round(time.Minute))
	}
	// Output: 1h0m0s
}

// What this process holds.
func ExampleRedlock_HeldLocks() {
	r, err := redlock.New(nodes)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(ctx)
	lock, err := r.Lock(ctx, []string{"held"}, 10*time.Second, redlock.WithOwner("job 9"))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	for _, held := range r.HeldLocks() {
		fmt.Println(held.Resources, held.Owner, held.Until.Equal(lock.Until()))
	}
	// Output: [held] job 9 true
}

// What this process waits for, and whom.
func ExampleRedlock_WaitingCalls() {
	lock, err := other.Lock(ctx, []string{"waited-for"}, time.Minute, redlock.WithOwner("worker-7"))
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error)
	go func() {
		done <- r.Do(ctx, []string{"waited-for"}, time.Minute,
			func(context.Context, *redlock.Lock) error { return nil }, redlock.WithRetryCount(-1))
	}()
	for len(r.WaitingCalls()) == 0 {
		time.Sleep(time.Millisecond)
	}
	for _, call := range r.WaitingCalls() {
		fmt.Println(call.Resources, call.HolderOwner)
	}
	fmt.Println(errors.Join(lock.Unlock(ctx), <-done))
	// Output:
	// [waited-for] worker-7
	// <nil>
}

// What went wrong lately.
func ExampleRedlock_RecentEvents() {
	lock, err := r.Lock(ctx, []string{"forgotten"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	cluster.Forget("forgotten") // The nodes lose its key.
	_ = lock.Unlock(ctx)

	events := r.RecentEvents()
	last := events[len(events)-1]
	fmt.Println(last.Kind, last.Resources, errors.Is(last.Err, redlock.ErrLost))
	// Output: released [forgotten] true
}
