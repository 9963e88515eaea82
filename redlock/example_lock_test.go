package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// One attempt: who is refused does not wait. Several resources are locked together, or none of them is.
func ExampleRedlock_TryLock() {
	lock, err := r.TryLock(ctx, []string{"seat:1", "seat:2"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)

	_, err = other.TryLock(ctx, []string{"seat:2", "seat:3"}, 10*time.Second) // In another process.
	fmt.Println(errors.Is(err, redlock.ErrTaken))
	// Output: true
}

// Lock waits until the holder unlocks: here for as long as its context allows.
func ExampleRedlock_Lock() {
	held := locked(other, "seat:2")
	time.AfterFunc(20*time.Millisecond, func() { _ = held.Unlock(ctx) })

	waiting, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	lock, err := r.Lock(waiting, []string{"seat:2"}, 10*time.Second, redlock.WithRetryCount(-1))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx) // Not with the context that limits the wait.
	fmt.Println("locked")
	// Output: locked
}

// Sorted, and each one once.
func ExampleLock_Resources() {
	lock, err := r.Lock(ctx, []string{"b", "a", "b"}, 10*time.Second)
	fmt.Println(lock.Resources(), err)
	_ = lock.Unlock(ctx)
	// Output: [a b] <nil>
}

// The work gets the time that the lock has.
func ExampleLock_Until() {
	lock := locked(r, "seat:4")
	defer lock.Unlock(ctx)

	work, cancel := context.WithDeadline(ctx, lock.Until())
	defer cancel()
	end, _ := work.Deadline()
	fmt.Println(time.Until(end) < 10*time.Second) // What the drift takes is off it.
	// Output: true
}

// Before each step that must not happen without the lock.
func ExampleLock_Err() {
	lock := locked(r, "seat:5")
	fmt.Println(lock.Err())
	_ = lock.Unlock(ctx)
	fmt.Println(lock.Err())
	// Output:
	// <nil>
	// redlock: lock lost
}

// More time for work that has not ended yet; KeepAlive does it again and again.
func ExampleLock_Extend() {
	lock := locked(r, "seat:6")
	defer lock.Unlock(ctx)

	until := lock.Until()
	if err := lock.Extend(ctx, 30*time.Second); err != nil {
		log.Fatal(err) // The lock is still held, unless this is ErrLost.
	}
	fmt.Println(lock.Until().After(until))
	// Output: true
}

// The error says whether the lock was held to the end.
func ExampleLock_Unlock() {
	lock := locked(r, "seat:7")
	cluster.Forget("seat:7") // All nodes lose its key, and anybody could lock it now.

	err := lock.Unlock(ctx)
	fmt.Println(errors.Is(err, redlock.ErrLost))
	// Output: true
}

// A lock that others wait for may take several attempts.
func ExampleLock_Attempts() {
	lock := locked(r, "seat:8")
	defer lock.Unlock(ctx)
	fmt.Println(lock.Attempts())
	// Output: 1
}

// An API takes a lock, and the worker that finishes the job releases it.
func ExampleRedlock_Release() {
	lock := locked(r, "report:ada")
	resources, token, until := lock.Resources(), lock.Token(), lock.Until() // For the queue.

	work, cancel := context.WithDeadline(ctx, until) // In the worker.
	defer cancel()
	fmt.Println("the report is made:", work.Err() == nil)
	fmt.Println("released:", other.Release(ctx, resources, token))
	// Output:
	// the report is made: true
	// released: <nil>
}

// Holder says which lock an inspection, or the vote of a refusal, is about.
func ExampleLock_Owner() {
	lock := locked(r, "report:dan", redlock.WithOwner("report/worker-1"))
	defer lock.Unlock(ctx)
	fmt.Println(lock.Owner())
	// Output: report/worker-1
}

func ExampleLock_Holder() {
	lock := locked(r, "report:carol")
	defer lock.Unlock(ctx)

	in, err := other.Inspect(ctx, "report:carol")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(in.Holder == lock.Holder())
	// Output: true
}

// The token releases the lock in whatever process: it is a secret.
func ExampleLock_Token() {
	lock := locked(r, "report:bob")
	token := lock.Token()
	fmt.Println(token == cluster.Holder("report:bob")) // What the nodes store.
	fmt.Println(other.Release(ctx, []string{"report:bob"}, token))
	// Output:
	// true
	// <nil>
}

// Who holds a resource, for people.
func ExampleRedlock_Inspect() {
	lock := locked(r, "inspected", redlock.WithOwner("worker-7"))
	defer lock.Unlock(ctx)

	in, err := other.Inspect(ctx, "inspected")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(in.Held, in.Owner, in.TTL > 0)
	// Output: true worker-7 true
}

// Counters and what is going on, for metrics.
func ExampleRedlock_Stats() {
	r := cluster.NewRedlock()
	lock := locked(r, "counted")
	_ = lock.Unlock(ctx)
	s := r.Stats()
	fmt.Println("held:", s.Held, "acquired:", s.Acquired, "taken:", s.Taken)
	// Output: held: 0 acquired: 1 taken: 0
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
	lock := locked(r, "a")
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
	defer cluster.Take("later", time.Hour)()

	_, err := r.TryLock(ctx, []string{"later"}, 10*time.Second)
	if refused := (*redlock.QuorumError)(nil); errors.As(err, &refused) {
		fmt.Println(refused.RetryAfter().Round(time.Minute))
	}
	// Output: 1h0m0s
}

// What this process holds.
func ExampleRedlock_HeldLocks() {
	r := cluster.NewRedlock()
	lock := locked(r, "held", redlock.WithOwner("job 9"))
	defer lock.Unlock(ctx)
	for _, held := range r.HeldLocks() {
		fmt.Println(held.Resources, held.Owner, held.Until.Equal(lock.Until()))
	}
	// Output: [held] job 9 true
}

// What this process waits for, and whom.
func ExampleRedlock_WaitingCalls() {
	lock := locked(other, "waited-for", redlock.WithOwner("worker-7"))
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
	lock := locked(r, "forgotten")
	cluster.Forget("forgotten") // The nodes lose its key.
	_ = lock.Unlock(ctx)

	events := r.RecentEvents()
	last := events[len(events)-1]
	fmt.Println(last.Kind, last.Resources, errors.Is(last.Err, redlock.ErrLost))
	// Output: released [forgotten] true
}
