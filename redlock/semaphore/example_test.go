package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/test/testkit"
)

// At most five at a time, in all processes. doc.go has the same.
func Example() {
	s, err := semaphore.New(r, "resize-images", 5, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}

	err = s.Do(ctx, func(ctx context.Context, _ *semaphore.Permit) error {
		// The permit is extended until this function returns. If it is lost all the same, ctx ends.
		fmt.Println("at most five of us are at work")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: at most five of us are at work
}

// Which of the permits are held now, in all processes.
func ExampleSlots() {
	s := newSemaphoreOf("printer")
	p, err := s.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Unlock(ctx)
	held := 0
	for _, slot := range semaphore.Slots("printer", 2) {
		if is, err := r.Inspect(ctx, slot); err == nil && is.Held {
			held++
		}
	}
	fmt.Println(held, "of", semaphore.Slots("printer", 2))
	// Output: 1 of [printer#0 printer#1]
}

// What only makes sense at once is not waited for.
func ExampleSemaphore_TryAcquire() {
	s := newSemaphoreOf("previews")
	for range 3 {
		p, err := s.TryAcquire(ctx)
		switch {
		case errors.Is(err, redlock.ErrTaken):
			fmt.Println("both are in use: show no preview")
		case err != nil:
			log.Fatal(err)
		default:
			defer p.Unlock(ctx)
			fmt.Println("there is a permit")
		}
	}
	// Output:
	// there is a permit
	// there is a permit
	// both are in use: show no preview
}

// A permit may be kept beyond a function.
func ExamplePermit_KeepAlive() {
	s := newSemaphoreOf("streams")
	p, err := s.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	kept := p.KeepAlive(ctx)
	_, err = s.Acquire(kept)
	fmt.Println("a second one for the same work:", errors.Is(err, redlock.ErrAlreadyHeld))
	if err := p.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(context.Cause(kept))
	// Output:
	// a second one for the same work: true
	// context canceled
}

// What the examples use and do not make themselves. A program has addresses of real servers.
var (
	ctx = context.Background()
	r   = redlocktest.New(&testkit.ExampleTB{}, 3, redlock.WithNodeTimeout(10*time.Second)).Redlock
)

// newSemaphoreOf returns one with two permits.
func newSemaphoreOf(name string) *semaphore.Semaphore {
	s, err := semaphore.New(r, name, 2, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	return s
}
