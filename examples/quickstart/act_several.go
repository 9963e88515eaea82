package main

import (
	"context"
	"errors"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

func (d *demo) actSeveral() act {
	return act{
		title: "Several resources at once",
		calls: []string{
			`lock, err := alice.Lock(ctx, []string{"account:1", "account:2"}, 5*time.Second)`,
			`_, err = bob.TryLock(ctx, []string{"account:2", "account:3"}, 5*time.Second)`,
		},
		play: d.playSeveral,
	}
}

// playSeveral shows that a lock on several resources is all or nothing.
func (d *demo) playSeveral(ctx context.Context) error {
	lock, err := d.alice.Lock(ctx, []string{"account:1", "account:2"}, 5*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock(ctx) }()
	d.p.ok("Alice has %q, in one round trip.", lock.Resources())

	_, err = d.bob.TryLock(ctx, []string{"account:2", "account:3"}, 5*time.Second)
	if !errors.Is(err, redlock.ErrTaken) {
		return wrong("Bob's TryLock", err, redlock.ErrTaken)
	}
	d.p.no("Bob wants account:2 and account:3, and gets neither.")

	other, err := d.carol.TryLock(ctx, []string{"account:3"}, 5*time.Second)
	if err != nil {
		return err
	}
	d.p.ok("Carol gets account:3: Bob's attempt has left nothing on any node.")
	return errors.Join(other.Unlock(ctx), lock.Unlock(ctx))
}
