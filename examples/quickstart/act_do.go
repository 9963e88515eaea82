package main

import (
	"context"
	"errors"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

func (d *demo) actDo() act {
	return act{
		title: "A lock that is lost in the middle of the work",
		calls: []string{
			`err := alice.Do(ctx, []string{"report"}, 1500*time.Millisecond, func(ctx …) error {`,
			`	… <-ctx.Done() // context.Cause(ctx) says why`,
			`})`,
		},
		play: d.playDo,
	}
}

// playDo has somebody delete the lock's keys while Do works under it.
func (d *demo) playDo(ctx context.Context) error {
	err := d.alice.Do(ctx, []string{"report"}, 1500*time.Millisecond, func(ctx context.Context, lock *redlock.Lock) error {
		d.p.ok("Alice works under a lock of 1.5s. Do extends it for as long as she works.")
		if err := d.untilExtended(ctx, lock); err != nil {
			return err
		}
		d.p.ok("It was extended, and ends in %s now.", ms(time.Until(lock.Until())))
		if err := d.servers.forget(ctx, "report"); err != nil {
			return err
		}
		lost := time.Now()
		d.p.say("Somebody deletes the lock's key on all nodes. Alice has not noticed yet.")
		<-ctx.Done() // context.Cause(ctx) says why
		cause := context.Cause(ctx)
		if errors.Is(cause, redlock.ErrExpired) {
			d.p.no("No extension succeeds. The lock ends %s later, and so does the context. Its cause:", ms(time.Since(lost)))
		} else {
			d.p.no("The next extension finds out, %s later, and ends the context of her work. Its cause:", ms(time.Since(lost)))
		}
		d.p.details(cause.Error())
		return nil
	})
	// The function has returned nil, and still the work was not done under the lock to its end.
	if !errors.Is(err, redlock.ErrLost) {
		return wrong("Alice's Do", err, redlock.ErrLost)
	}
	d.p.ok("Do returns ErrLost, although the function returned nil: others may have had the lock.")
	return nil
}

// untilExtended waits until Do has extended the lock.
func (d *demo) untilExtended(ctx context.Context, lock *redlock.Lock) error {
	for first := lock.Until(); lock.Until().Equal(first); {
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
