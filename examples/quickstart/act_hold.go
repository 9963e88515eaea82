package main

import (
	"context"
	"errors"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

// playDo has somebody delete the lock's keys while Do works under it.
func (d *demo) playDo(ctx context.Context) {
	err := d.alice.Do(ctx, []string{"report"}, 1500*time.Millisecond, func(ctx context.Context, lock *redlock.Lock) error {
		d.ok("Alice works under a lock of 1.5s. Do extends it for as long as she works.")
		for first := lock.Until(); lock.Until().Equal(first); {
			if err := stage.Sleep(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
		d.ok("It was extended, and ends in %s now.", ms(time.Until(lock.Until())))
		if err := d.forget(ctx, "report"); err != nil {
			return err
		}
		lost := time.Now()
		d.say("Somebody deletes the lock's key on all nodes. Alice has not noticed yet.")
		<-ctx.Done() // context.Cause(ctx) says why
		cause := context.Cause(ctx)
		if errors.Is(cause, redlock.ErrExpired) {
			d.no("No extension succeeds. The lock ends %s later, and so does the context. Its cause:", ms(time.Since(lost)))
		} else {
			d.no("The next extension finds out, %s later, and ends the context of her work. Its cause:", ms(time.Since(lost)))
		}
		d.details(cause.Error())
		return nil
	})
	// The function has returned nil, and still the work was not done under the lock to its end.
	stage.Check(errors.Is(err, redlock.ErrLost), "Alice's Do should fail because her lock is lost: %w", err)
	d.ok("Do returns ErrLost, although the function returned nil: others may have had the lock.")
}

// playFence has Alice write under a lock that has ended while she was suspended. No lock can
// prevent that: the resource must, by the number that each lock has.
func (d *demo) playFence(ctx context.Context) {
	// It stands for what is written to, and lets no smaller fence pass than it has seen.
	var file redlock.Guard
	written := ""

	first, err := d.alice.Lock(ctx, []string{"file:7"}, time.Second, redlock.WithFencing())
	stage.Must(err)
	defer func() { _ = first.Unlock(ctx) }()
	d.ok("Alice has the lock, and its fence, which grows from lock to lock: %d.", first.Fence())
	d.say("Her machine is suspended for a while, as virtual ones are, and her lock ends meanwhile.")

	second, err := d.bob.Lock(ctx, []string{"file:7"}, 5*time.Second, redlock.WithFencing())
	stage.Must(err)
	defer func() { _ = second.Unlock(ctx) }()
	stage.Check(second.Fence() > first.Fence(), "the later lock's fence, %d, should be the larger one", second.Fence())
	stage.Must(file.Do(second.Fence(), func() error { written = "Bob"; return nil }))
	d.ok("Bob gets the lock, with a larger fence, %d, and writes.", second.Fence())

	err = file.Do(first.Fence(), func() error { written = "Alice"; return nil })
	stage.Check(errors.Is(err, redlock.ErrFenced) && written == "Bob", "Alice's write should be refused: %w", err)
	d.no("Alice wakes up, believes that she has the lock, and writes: ErrFenced. Bob's text stays.")
	stage.Must(second.Unlock(ctx))
}

// playRelease takes a lock, and has another process release it.
func (d *demo) playRelease(ctx context.Context) {
	lock, err := d.alice.Lock(ctx, []string{"job:9"}, 30*time.Second)
	stage.Must(err)
	defer func() { _ = lock.Unlock(ctx) }() // If something goes wrong before somebody else has released it.
	// The token is a secret: whoever has it can release the lock.
	resources, token := lock.Resources(), lock.Token()
	d.ok("Alice is an API: she takes the lock, hands job and token to a worker, and answers.")

	waited := make(chan error, 1)
	go func() {
		next, failed := d.bob.Lock(ctx, []string{"job:9"}, 30*time.Second)
		if failed == nil {
			failed = next.Unlock(ctx)
		}
		waited <- failed
	}()
	err = d.carol.Release(ctx, resources, token)
	if err == nil {
		d.ok("Carol, who is the worker, has done the job, and released the lock.")
	}
	stage.Must(errors.Join(err, <-waited))
	d.ok("Bob, who has waited for it, has got it at once.")
}
