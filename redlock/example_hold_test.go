package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// Do waits for the lock, extends it while the function runs, and releases it.
func ExampleRedlock_Do() {
	err := r.Do(ctx, []string{"report:1"}, 10*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
		fmt.Println("writing the report")
		return ctx.Err() // Or what is called with ctx.
	})
	fmt.Println(err)
	// Output:
	// writing the report
	// <nil>
}

// A lock that was got in another way than by Redlock.Do. It is released in the end.
func ExampleLock_Do() {
	lock, err := r.TryLock(ctx, []string{"report:4"}, 10*time.Second)
	if errors.Is(err, redlock.ErrTaken) {
		return // Another machine does it.
	} else if err != nil {
		log.Fatal(err)
	}
	err = lock.Do(ctx, func(ctx context.Context, _ *redlock.Lock) error {
		fmt.Println("writing the report")
		return ctx.Err() // Or what is called with ctx.
	})
	fmt.Println(err, lock.Err())
	// Output:
	// writing the report
	// <nil> redlock: lock lost
}

// A lock that is kept for as long as something runs, such as the lead among several processes.
func ExampleLock_KeepAlive() {
	lock := locked(r, "leader")
	term := lock.KeepAlive(ctx)
	fmt.Println("leading:", term.Err() == nil)

	_ = lock.Unlock(ctx) // Always: it ends the extensions, and lets others in at once.
	<-term.Done()
	fmt.Println(context.Cause(term))
	// Output:
	// leading: true
	// context canceled
}

// What is called within Do finds the lock in its context.
func ExampleFromContext() {
	save := func(ctx context.Context) error {
		lock, ok := redlock.FromContext(ctx)
		if !ok || lock.Err() != nil {
			return errors.New("not without the lock")
		}
		fmt.Println("saved")
		return nil
	}
	err := r.Do(ctx, []string{"account:8"}, 10*time.Second,
		func(ctx context.Context, _ *redlock.Lock) error { return save(ctx) })
	fmt.Println(err, save(ctx))
	// Output:
	// saved
	// <nil> not without the lock
}

// A worker that could go on for ever makes room for the next one when somebody waits.
func ExampleLock_Wanted() {
	lock := locked(r, "console")
	next := make(chan error)
	go func() {
		_, lockErr := r.Lock(ctx, []string{"console"}, 10*time.Second)
		next <- lockErr
	}()
	err := lock.Do(ctx, func(ctx context.Context, lock *redlock.Lock) error {
		select {
		case <-lock.Wanted():
			fmt.Println("somebody waits")
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	fmt.Println(err, <-next)
	// Output:
	// somebody waits
	// <nil> <nil>
}

// Work that hangs does not keep the lock for ever.
func ExampleWithMaxHold() {
	err := r.Do(ctx, []string{"import"}, 10*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}, redlock.WithMaxHold(50*time.Millisecond))
	fmt.Println(errors.Is(err, redlock.ErrMaxHold))
	// Output: true
}

// Work that takes a moment to stop is told so early, when the nodes do not answer.
func ExampleWithStopTime() {
	err := r.Do(ctx, []string{"shard:7"}, time.Second, func(ctx context.Context, lock *redlock.Lock) error {
		cluster.StopMajority()
		<-ctx.Done()
		fmt.Println("still held:", lock.Err() == nil, time.Until(lock.Until()) > 100*time.Millisecond)
		return context.Cause(ctx)
	}, redlock.WithStopTime(500*time.Millisecond))
	cluster.Recover()
	fmt.Println(errors.Is(err, redlock.ErrStopTime))
	// Output:
	// still held: true true
	// true
}

// A job that has failed may be tried again before its minute is over.
func ExampleWithReleaseOnError() {
	fails := func(context.Context, *redlock.Lock) error { return errors.New("no mail server") }
	opts := []redlock.Option{redlock.WithMinHold(time.Minute), redlock.WithReleaseOnError()}
	fmt.Println(r.Do(ctx, []string{"mail:11h"}, time.Minute, fails, opts...))
	again, err := other.TryLock(ctx, []string{"mail:11h"}, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("it is free:", again.Unlock(ctx) == nil)
	// Output:
	// no mail server
	// it is free: true
}

// A job that several machines start at about the same time, and one is to run.
func ExampleWithMinHold() {
	hourly := func(r *redlock.Redlock) error {
		lock, err := r.TryLock(ctx, []string{"mail:10h"}, time.Minute, redlock.WithMinHold(time.Minute))
		if err != nil {
			return err
		}
		fmt.Println("sent")
		return lock.Unlock(ctx) // The nodes keep it for the rest of the minute.
	}
	fmt.Println(hourly(r))
	fmt.Println(errors.Is(hourly(other), redlock.ErrTaken))
	// Output:
	// sent
	// <nil>
	// true
}
