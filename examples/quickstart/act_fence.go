package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

func (d *demo) actFence() act {
	return act{
		title: "A writer that comes too late",
		calls: []string{
			`first, err := alice.Lock(ctx, []string{"file:7"}, time.Second, redlock.WithFencing())`,
			`err = file.Do(first.Fence(), func() error { … }) // file is a redlock.Guard`,
		},
		play: d.playFence,
	}
}

// playFence has Alice write under a lock that has ended while she was suspended. No lock can
// prevent that: the resource must, by the number that each lock has.
func (d *demo) playFence(ctx context.Context) error {
	// It stands for what is written to, and lets no smaller fence pass than it has seen.
	var file redlock.Guard
	written := ""

	first, err := d.alice.Lock(ctx, []string{"file:7"}, time.Second, redlock.WithFencing())
	if err != nil {
		return err
	}
	defer func() { _ = first.Unlock(ctx) }()
	d.p.ok("Alice has the lock, and its fence, which grows from lock to lock: %d.", first.Fence())
	d.p.say("Her machine is suspended for a while, as virtual ones are, and her lock ends meanwhile.")

	second, err := d.bob.Lock(ctx, []string{"file:7"}, 5*time.Second, redlock.WithFencing())
	if err != nil {
		return err
	}
	defer func() { _ = second.Unlock(ctx) }()
	if second.Fence() <= first.Fence() {
		return fmt.Errorf("the fence %d of the later lock should be larger than %d", second.Fence(), first.Fence())
	}
	if err = file.Do(second.Fence(), func() error { written = "Bob"; return nil }); err != nil {
		return err
	}
	d.p.ok("Bob gets the lock, with a larger fence, %d, and writes.", second.Fence())

	err = file.Do(first.Fence(), func() error { written = "Alice"; return nil })
	if !errors.Is(err, redlock.ErrFenced) || written != "Bob" {
		return wrong("Alice's write", err, redlock.ErrFenced)
	}
	d.p.no("Alice wakes up, believes that she has the lock, and writes: ErrFenced. Bob's text stays.")
	return second.Unlock(ctx)
}
