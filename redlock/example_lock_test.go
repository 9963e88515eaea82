package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// One attempt: who is refused does not wait.
func ExampleRedlock_TryLock() {
	lock, err := r.TryLock(ctx, []string{"seat:1"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)

	_, err = other.TryLock(ctx, []string{"seat:1"}, 10*time.Second) // In another process.
	fmt.Println(errors.Is(err, redlock.ErrTaken))
	// Output: true
}

// Several resources are locked together, or none of them is.
func ExampleRedlock_TryLock_several() {
	lock, err := r.TryLock(ctx, []string{"account:2", "account:1"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	fmt.Println(lock.Resources())

	_, err = other.TryLock(ctx, []string{"account:2", "account:3"}, 10*time.Second)
	fmt.Println(errors.Is(err, redlock.ErrTaken))
	// Output:
	// [account:1 account:2]
	// true
}

// Lock waits until the holder unlocks: here for as long as its context allows.
func ExampleRedlock_Lock() {
	held, err := other.Lock(ctx, []string{"seat:2"}, 30*time.Second)
	if err != nil {
		log.Fatal(err)
	}
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

// The context's error is looked for first: the error also matches what the last attempt saw.
func ExampleRedlock_Lock_timeout() {
	held, err := other.Lock(ctx, []string{"seat:3"}, 30*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer held.Unlock(ctx)

	waiting, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = r.Lock(waiting, []string{"seat:3"}, 10*time.Second)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// The work gets the time that the lock has.
func ExampleLock_Until() {
	lock, err := r.Lock(ctx, []string{"seat:4"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)

	work, cancel := context.WithDeadline(ctx, lock.Until())
	defer cancel()
	end, _ := work.Deadline()
	fmt.Println(time.Until(end) < 10*time.Second) // What the drift takes is off it.
	// Output: true
}

// Before each step that must not happen without the lock.
func ExampleLock_Err() {
	lock, err := r.Lock(ctx, []string{"seat:5"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Err())
	_ = lock.Unlock(ctx)
	fmt.Println(lock.Err())
	// Output:
	// <nil>
	// redlock: lock lost
}

// More time for work that has not ended yet; KeepAlive does it again and again.
func ExampleLock_Extend() {
	lock, err := r.Lock(ctx, []string{"seat:6"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
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
	lock, err := r.Lock(ctx, []string{"seat:7"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	cluster.Forget("seat:7") // All nodes lose its key, and anybody could lock it now.

	err = lock.Unlock(ctx)
	fmt.Println(errors.Is(err, redlock.ErrLost))
	// Output: true
}

// A lock that others wait for may take several attempts.
func ExampleLock_Attempts() {
	lock, err := r.Lock(ctx, []string{"seat:8"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	fmt.Println(lock.Attempts())
	// Output: 1
}

// Sorted, and each one once.
func ExampleLock_Resources() {
	lock, err := r.Lock(ctx, []string{"b", "a", "b"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	fmt.Println(lock.Resources())
	// Output: [a b]
}

// An API takes a lock, and the worker that finishes the job releases it.
func ExampleRedlock_Release() {
	lock, err := r.TryLock(ctx, []string{"report:ada"}, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
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
func ExampleLock_Holder() {
	lock, err := r.TryLock(ctx, []string{"report:carol"}, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
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
	lock, err := r.TryLock(ctx, []string{"report:bob"}, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	token := lock.Token()
	fmt.Println(token == cluster.Holder("report:bob")) // What the nodes store.
	fmt.Println(other.Release(ctx, []string{"report:bob"}, token))
	// Output:
	// true
	// <nil>
}
