package shared_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/redlock/shared"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Many read, or one writes.
func Example() {
	prices, err := shared.New(r, "prices", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}

	err = prices.RDo(ctx, func(ctx context.Context, _ *shared.Reader) error {
		// Others may read, too. If the lock is lost all the same, ctx ends.
		fmt.Println("nobody changes the prices")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	err = prices.Do(ctx, func(ctx context.Context, _ *redlock.Lock) error {
		fmt.Println("nobody reads or changes them but me")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// nobody changes the prices
	// nobody reads or changes them but me
}

// A writer works under a lock like any other: here with a fence, by which the resource can refuse late writes.
func ExampleMutex_Lock() {
	index := newMutexOf("index", redlock.WithFencing())
	w, err := index.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var guard redlock.Guard
	err = guard.Do(w.Fence(), func() error { fmt.Println("written"); return nil })
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Unlock(ctx); errors.Is(err, redlock.ErrLost) {
		fmt.Println("it was not held to the end:", err)
	}
	// Output: written
}

// Readers do not wait for each other.
func ExampleMutex_RLock() {
	table := newMutexOf("table")
	one, err := table.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	other, err := table.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("both read:", one.Err() == nil && other.Err() == nil, one.Until().Equal(other.Until()))
	for _, rd := range []*shared.Reader{one, other} {
		if err := rd.Unlock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output: both read: true true
}

// Who has something else to do meanwhile does not wait: a reader for a writer, nor a writer for anybody.
func ExampleMutex_TryRLock() {
	stock := newMutexOf("stock")
	w, err := stock.TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Unlock(ctx)
	if _, err := stock.TryRLock(ctx); errors.Is(err, redlock.ErrTaken) {
		fmt.Println("it is being changed: show what was there before")
	}
	// Output: it is being changed: show what was there before
}

// Work that goes on beyond a function ends when the reader does.
func ExampleReader_Context() {
	rd, err := newMutexOf("stream").RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	work := rd.Context(ctx)
	fmt.Println(work.Err(), rd.Until().After(time.Now()))
	if err := rd.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	<-work.Done()
	fmt.Println(context.Cause(work))
	// Output:
	// <nil> true
	// context canceled
}

// A reader that fills a cache brings its fence along: the cache refuses what was read before the last write.
func ExampleReader_Fence() {
	product := newMutexOf("product", redlock.WithFencing())
	var cache redlock.Guard
	rd, err := product.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err = rd.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	// It is suspended here, before it fills the cache.
	err = product.Do(ctx, func(_ context.Context, w *redlock.Lock) error {
		return cache.Do(w.Fence(), func() error { fmt.Println("the cache is emptied"); return nil })
	})
	if err != nil {
		log.Fatal(err)
	}
	err = cache.Do(rd.Fence(), func() error { fmt.Println("filled with what was there before"); return nil })
	fmt.Println(errors.Is(err, redlock.ErrFenced))
	// Output:
	// the cache is emptied
	// true
}

// What the examples use and do not make themselves. A program has addresses of real servers.
var (
	ctx = context.Background()
	r   = redlocktest.New(&testkit.ExampleTB{}, 3, redlock.WithNodeTimeout(10*time.Second)).Redlock
)

func newMutexOf(name string, opts ...redlock.Option) *shared.Mutex {
	m, err := shared.New(r, name, 10*time.Second, opts...)
	if err != nil {
		log.Fatal(err)
	}
	return m
}
