package ticks_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/redlock/ticks"
	"github.com/seed6c881748/redlock/test/testkit"
)

var (
	ctx = context.Background()
	r   = redlocktest.New(&testkit.ExampleTB{}, 3, redlock.WithNodeTimeout(10*time.Second)).Redlock
)

// What a scheduler does at a tick. doc.go has the same.
func Example() {
	jobs, err := ticks.NewLocker(r, time.Minute, 10*time.Second, 5*time.Second)
	if err != nil {
		log.Fatal(err)
	}

	run := func(tick time.Time) {
		lock, err := jobs.Lock(ctx, "report", time.Since(tick))
		if errors.Is(err, redlock.ErrTaken) {
			return // Another process runs it.
		}
		if err != nil {
			log.Fatal(err)
		}
		err = lock.Do(ctx, func(context.Context, *redlock.Lock) error {
			fmt.Println("the report of this tick")
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	run(time.Now())
	// Output: the report of this tick
}
