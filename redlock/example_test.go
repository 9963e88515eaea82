package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// A job that only one process may do at a time. doc.go has the same.
func Example() {
	r, err := redlock.New(nodes)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(ctx)

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

// Without Do: a lock that is not extended ends at Until.
func Example_lockAndUnlock() {
	lock, err := r.Lock(ctx, []string{"account:43"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	work, cancel := context.WithDeadline(ctx, lock.Until())
	defer cancel()
	fmt.Println("time to work:", work.Err() == nil)

	if err := lock.Unlock(ctx); errors.Is(err, redlock.ErrLost) {
		fmt.Println("it was not held to the end:", err)
	}
	// Output: time to work: true
}

// Why there was no lock, and what to do then.
func Example_errors() {
	lock, err := r.TryLock(ctx, []string{"account:44"}, 10*time.Second)
	switch {
	case errors.Is(err, redlock.ErrTaken):
		fmt.Println("somebody else has it: come back later")
	case errors.Is(err, redlock.ErrNoQuorum):
		fmt.Println("too few nodes answer: tell the operator")
	case err != nil:
		log.Fatal(err) // ctx has ended, Close was called, or an argument is wrong.
	default:
		defer lock.Unlock(ctx)
		fmt.Println("locked")
	}
	// Output: locked
}
