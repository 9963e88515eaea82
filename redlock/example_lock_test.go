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

// An API takes a lock, and the worker that finishes the job releases it by its token, which is a secret.
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

func ExampleLock_Owner() {
	lock := locked(r, "report:dan", redlock.WithOwner("report/worker-1"))
	defer lock.Unlock(ctx)
	fmt.Println(lock.Owner())
	// Output: report/worker-1
}

// Holder says which lock an inspection, or the vote of a refusal, is about.
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
	r := cluster.NewRedlock(redlock.WithPrefix("admitted:"), redlock.WithQuarantine(time.Minute))
	_, err := r.TryLock(ctx, []string{"a"}, 10*time.Second)
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))

	fmt.Println(r.Admit(ctx, "node1", "node2", "node3", "node4", "node5"))
	fmt.Println(locked(r, "a").Unlock(ctx))
	// Output:
	// true
	// <nil>
	// <nil>
}

// What each node said.
func ExampleQuorumError() {
	defer cluster.Take("votes", time.Minute)()

	_, err := r.TryLock(ctx, []string{"votes"}, 10*time.Second)
	if failed := (*redlock.QuorumError)(nil); errors.As(err, &failed) {
		fmt.Println(failed.Op, failed.Need, len(failed.Votes)) // Err in a vote says why it is no yes.
	}
	// Output: lock 3 5
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

// Each lock has a larger number than those before. The resource refuses smaller ones.
func ExampleWithFencing() {
	first := locked(r, "file:1", redlock.WithFencing())
	_ = first.Unlock(ctx)

	second := locked(other, "file:1", redlock.WithFencing())
	defer second.Unlock(ctx)
	fmt.Println(second.Fence() > first.Fence())
	// Output: true
}

// Each write takes the number along, and is not done if a later holder has written:
//
//	UPDATE accounts SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
func ExampleLock_Fence() {
	lock := locked(r, "account:10", redlock.WithFencing())
	defer lock.Unlock(ctx)

	fmt.Println(lock.Fence() > 0) // For $2.
	// Output: true
}

// Nodes remember the numbers for longer than any holder may be suspended.
func ExampleWithFenceLife() {
	r := cluster.NewRedlock(redlock.WithFencing(), redlock.WithFenceLife(365*24*time.Hour))
	lock := locked(r, "file:2")
	defer lock.Unlock(ctx)
	fmt.Println(lock.Fence() > 0)
	// Output: true
}

// A resource in this process: holders that come too late are kept away.
func ExampleGuard_Do() {
	var file redlock.Guard
	write := func(fence int64, text string) error {
		return file.Do(fence, func() error {
			fmt.Println("written:", text)
			return nil
		})
	}
	fmt.Println(write(33, "by the first holder"))
	fmt.Println(write(34, "by the second one"))
	fmt.Println(errors.Is(write(33, "by the first, which was suspended"), redlock.ErrFenced))
	// Output:
	// written: by the first holder
	// <nil>
	// written: by the second one
	// <nil>
	// true
}

// A guard that goes on where that of an earlier process ended.
func ExampleNewGuard() {
	file := redlock.NewGuard(34) // As stored with the file.
	err := file.Do(33, func() error { panic("not called") })
	fmt.Println(errors.Is(err, redlock.ErrFenced))
	// Output: true
}

// What to store with the resource, for NewGuard.
func ExampleGuard_Seen() {
	var file redlock.Guard
	_ = file.Do(33, func() error { return nil })
	_ = file.Do(34, func() error { return nil })
	fmt.Println(file.Seen())
	// Output: 34
}

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
	lock := locked(r, "report:4")
	err := lock.Do(ctx, func(ctx context.Context, _ *redlock.Lock) error {
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
