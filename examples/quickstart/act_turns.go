package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

func (d *demo) actTurns() act {
	return act{
		title: "Three processes take turns",
		calls: []string{`err := r.Do(ctx, []string{"account:42"}, 5*time.Second, func(…) error { … })`},
		play: func(ctx context.Context) error {
			if err := d.takeTurns(ctx, 2); err != nil {
				return err
			}
			d.p.ok("Everybody had two turns, and there were never two at work.")
			return nil
		},
	}
}

// takeTurns has all three work several times each, and finds out if two do at the same time.
func (d *demo) takeTurns(ctx context.Context, turns int) error {
	var working atomic.Int32
	turn := func(r *redlock.Redlock, name string) error {
		// Do waits for the lock, calls the function, and unlocks.
		err := r.Do(ctx, []string{"account:42"}, 5*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
			defer working.Add(-1)
			if n := working.Add(1); n > 1 {
				return fmt.Errorf("%d have the lock at the same time", n)
			}
			d.p.say("%s works for 100ms.", name)
			return sleep(ctx, 100*time.Millisecond)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		// Who asks again at once has the best chances, as the others only just hear that the lock
		// is free.
		return sleep(ctx, 100*time.Millisecond)
	}

	names := []string{"Alice", "Bob", "Carol"}
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, r := range []*redlock.Redlock{d.alice, d.bob, d.carol} {
		all.Go(func() {
			for range turns {
				errs[i] = errors.Join(errs[i], turn(r, names[i]))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
