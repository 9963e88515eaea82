package main

import (
	"context"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

func (d *demo) actLine() act {
	return act{
		title: "Waiting in order",
		calls: []string{`err := r.Do(ctx, []string{"account:42"}, 5*time.Second, func(…) error { … })`},
		play:  d.playLine,
	}
}

// playLine has five wait for the lock, in two processes, and looks who gets it when.
func (d *demo) playLine(ctx context.Context) error {
	lock, err := d.alice.Lock(ctx, []string{"account:42"}, 5*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock(ctx) }()

	queue := []*redlock.Redlock{d.bob, d.carol, d.bob, d.carol, d.bob}
	served, failed := make(chan int, len(queue)), make(chan error, len(queue))
	for i, r := range queue {
		go func() {
			failed <- r.Do(ctx, []string{"account:42"}, 5*time.Second, func(context.Context, *redlock.Lock) error {
				served <- i + 1
				return nil
			})
		}()
		if err = d.untilWaiting(ctx, i+1); err != nil {
			return err
		}
	}
	d.p.say("Alice has it. Five wait for it: Bob is 1st, 3rd and 5th in line, Carol 2nd and 4th.")

	last, order := time.Now(), []int{}
	if err = lock.Unlock(ctx); err != nil {
		return err
	}
	for range queue {
		order = append(order, <-served)
		d.p.ok("Number %d in line has the lock, %s later.", order[len(order)-1], ms(time.Since(last)))
		last = time.Now()
		if err = <-failed; err != nil {
			return err
		}
	}
	if !slices.IsSorted(order) { // A message was late, and somebody's own next try came first.
		d.p.say("That is the order in which they came, but for one who asked at the right moment.")
	}
	d.p.say("A release wakes the next in line, in whatever process: no polling interval passes.")
	return nil
}

// untilWaiting waits until so many calls of Bob and Carol wait.
func (d *demo) untilWaiting(ctx context.Context, want int) error {
	for d.bob.Stats().Waiting+d.carol.Stats().Waiting < want {
		if err := sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	// They are counted when they are refused, and get in line on the nodes in the same moment.
	return sleep(ctx, 20*time.Millisecond)
}
