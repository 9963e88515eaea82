package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

func (d *demo) actLock() act {
	return act{
		title: "One lock on several nodes",
		calls: []string{
			`lock, err := alice.Lock(ctx, []string{"account:42"}, 5*time.Second)`,
			`_, err = bob.TryLock(ctx, []string{"account:42"}, 5*time.Second)`,
			`err = lock.Unlock(ctx)`,
		},
		play: d.playLock,
	}
}

// playLock locks, shows what somebody else hears, and unlocks.
func (d *demo) playLock(ctx context.Context) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	lock, err := d.alice.Lock(ctx, []string{"account:42"}, 5*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock(ctx) }()
	d.p.ok("Alice has the lock. It ends by itself in %s, unless she extends it.", ms(time.Until(lock.Until())))
	d.p.details("The nodes keep it for 5s. She goes by 52ms less, in case clocks differ in speed.")

	start := time.Now()
	_, err = d.bob.TryLock(ctx, []string{"account:42"}, 5*time.Second)
	if !errors.Is(err, redlock.ErrTaken) {
		return wrong("Bob's TryLock", err, redlock.ErrTaken)
	}
	d.p.no("Bob is refused after %s: ErrTaken. Nodes say who has it, with a digest of her token:", ms(time.Since(start)))
	d.p.votes(err)

	limited, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = d.carol.Lock(limited, []string{"account:42"}, 5*time.Second)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redlock.ErrTaken) {
		return wrong("Carol's Lock", err, context.DeadlineExceeded)
	}
	d.p.no("Carol calls Lock, which waits, for as long as her context allows: 300ms.")

	if err = lock.Unlock(ctx); err != nil {
		return err
	}
	d.p.ok("Alice unlocks. No error: she had the lock to the end.")
	return nil
}

// connect takes the lock once, to find out early whether that is possible.
func (d *demo) connect(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	err := d.alice.Do(limited, []string{"account:42"}, 5*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
		return sleep(ctx, 50*time.Millisecond) // The majority has answered. So will the others.
	})
	if errors.Is(err, redlock.ErrNoQuorum) {
		d.p.say("Too few nodes answer:")
		d.p.votes(err)
		return fmt.Errorf("%w: do the servers run, at these addresses?", redlock.ErrNoQuorum)
	}
	if err != nil {
		return err
	}
	nodes := d.alice.Stats().Nodes
	d.p.nodes(nodes)
	d.p.say("A lock needs the votes of more than half of them: %d of %d.", len(nodes)/2+1, len(nodes))
	return nil
}
