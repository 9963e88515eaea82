package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

// playLock locks, shows what somebody else hears, and unlocks.
func (d *demo) playLock(ctx context.Context) {
	d.connect(ctx)
	lock, err := d.alice.Lock(ctx, []string{"account:42"}, 5*time.Second)
	stage.Must(err)
	defer func() { _ = lock.Unlock(ctx) }()
	d.ok("Alice has the lock. It ends by itself in %s, unless she extends it.", ms(time.Until(lock.Until())))
	d.details("The nodes keep it for 5s. She goes by 52ms less, in case clocks differ in speed.")

	start := time.Now()
	_, err = d.bob.TryLock(ctx, []string{"account:42"}, 5*time.Second)
	stage.Check(errors.Is(err, redlock.ErrTaken), "Bob's TryLock should fail because the lock is taken: %w", err)
	d.no("Bob is refused after %s: ErrTaken. Nodes say who has it, with a digest of her token:", ms(time.Since(start)))
	d.votes(err)

	limited, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = d.carol.Lock(limited, []string{"account:42"}, 5*time.Second)
	stage.Check(errors.Is(err, context.DeadlineExceeded) && errors.Is(err, redlock.ErrTaken),
		"Carol's Lock should end with her context: %w", err)
	d.no("Carol calls Lock, which waits, for as long as her context allows: 300ms.")

	err = lock.Unlock(ctx)
	stage.Must(err)
	d.ok("Alice unlocks. No error: she had the lock to the end.")
}

// connect takes the lock once, to find out early whether that is possible.
func (d *demo) connect(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	err := d.alice.Do(limited, []string{"account:42"}, 5*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
		return stage.Sleep(ctx, 50*time.Millisecond) // The majority has answered. So will the others.
	})
	if errors.Is(err, redlock.ErrNoQuorum) {
		d.say("Too few nodes answer:")
		d.votes(err)
		err = fmt.Errorf("%w: do the servers run, at these addresses?", redlock.ErrNoQuorum)
	}
	stage.Must(err)
	nodes := d.alice.Stats().Nodes
	d.connected(nodes)
	d.say("A lock needs the votes of more than half of them: %d of %d.", len(nodes)/2+1, len(nodes))
}

func (d *demo) playTurns(ctx context.Context) {
	d.takeTurns(ctx, 2)
	d.ok("Everybody had two turns, and there were never two at work.")
}

// takeTurns has all three work several times each, and finds out if two do at the same time.
func (d *demo) takeTurns(ctx context.Context, turns int) {
	var working atomic.Int32
	turn := func(r *redlock.Redlock, name string) error {
		// Do waits for the lock, calls the function, and unlocks.
		err := r.Do(ctx, []string{"account:42"}, 5*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
			defer working.Add(-1)
			if n := working.Add(1); n > 1 {
				return fmt.Errorf("%d have the lock at the same time", n)
			}
			d.say("%s works for 100ms.", name)
			return stage.Sleep(ctx, 100*time.Millisecond)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		// Who asks again at once has the best chances, as the others only just hear that the lock
		// is free.
		return stage.Sleep(ctx, 100*time.Millisecond)
	}

	names, processes := []string{"Alice", "Bob", "Carol"}, []*redlock.Redlock{d.alice, d.bob, d.carol}
	stage.Must(errors.Join(stage.Together(len(names), func(i int) (err error) {
		for range turns {
			err = errors.Join(err, turn(processes[i], names[i]))
		}
		return err
	})...))
}

// playLine has five wait for the lock, in two processes, and looks who gets it when.
func (d *demo) playLine(ctx context.Context) {
	lock, err := d.alice.Lock(ctx, []string{"account:42"}, 5*time.Second)
	stage.Must(err)
	defer func() { _ = lock.Unlock(ctx) }()

	queue := []*redlock.Redlock{d.bob, d.carol, d.bob, d.carol, d.bob}
	served, failed := make(chan int, len(queue)), make(chan error, len(queue))
	for i, r := range queue {
		go func() {
			err := r.Do(ctx, []string{"account:42"}, 5*time.Second, func(context.Context, *redlock.Lock) error {
				served <- i + 1
				return nil
			})
			failed <- err
		}()
		d.untilWaiting(ctx, i+1)
	}
	d.say("Alice has it. Five wait for it: Bob is 1st, 3rd and 5th in line, Carol 2nd and 4th.")

	last, order := time.Now(), []int{}
	stage.Must(lock.Unlock(ctx))
	for range queue {
		order = append(order, <-served)
		d.ok("Number %d in line has the lock, %s later.", order[len(order)-1], ms(time.Since(last)))
		last = time.Now()
		stage.Must(<-failed)
	}
	if !slices.IsSorted(order) { // A message was late, and somebody's own next try came first.
		d.say("That is the order in which they came, but for one who asked at the right moment.")
	}
	d.say("A release wakes the next in line, in whatever process: no polling interval passes.")
}

// untilWaiting waits until so many calls of Bob and Carol wait.
func (d *demo) untilWaiting(ctx context.Context, want int) {
	for d.bob.Stats().Waiting+d.carol.Stats().Waiting < want {
		stage.Must(stage.Sleep(ctx, time.Millisecond))
	}
	// They are counted when they are refused, and get in line on the nodes in the same moment.
	stage.Must(stage.Sleep(ctx, 20*time.Millisecond))
}
