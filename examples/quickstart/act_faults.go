package main

import (
	"context"
	"errors"
	"fmt"
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
		// As an operator might with DEL. Carol can, as she is told the token.
		if err := d.carol.Release(ctx, lock.Resources(), lock.Token()); err != nil {
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

// playTwoDie kills two nodes under Alice's lock. The other three are a quorum.
func (d *demo) playTwoDie(ctx context.Context) {
	lock, err := d.alice.Lock(ctx, []string{"account:42"}, 5*time.Second)
	stage.Must(err)
	defer func() { _ = lock.Unlock(ctx) }()
	d.ok("Alice has the lock.")
	d.Kill(2)
	d.untilUp(ctx, 3)
	start := time.Now()
	err = lock.Extend(ctx, 10*time.Second)
	stage.Must(err)
	d.ok("Alice extends her lock all the same, in %s: three are more than half of five.", ms(time.Since(start)))
	stage.Must(lock.Unlock(ctx))
	d.ok("She unlocks, and all go on as before:")
	d.takeTurns(ctx, 1)
}

// playThirdDies leaves two of five nodes, on which nobody can have a lock.
func (d *demo) playThirdDies(ctx context.Context) {
	stage.Must(d.Nodes[2].Stop())
	d.untilUp(ctx, 2)
	start := time.Now()
	_, err := d.bob.TryLock(ctx, []string{"account:42"}, 5*time.Second)
	stage.Check(errors.Is(err, redlock.ErrNoQuorum) && !errors.Is(err, redlock.ErrTaken),
		"Bob's TryLock should fail because there is no quorum: %w", err)
	d.no("Bob is told after %s: ErrNoQuorum, and not ErrTaken: nobody has the lock.", ms(time.Since(start)))
	d.say("Better no lock than two: for all that these two know, the other three grant one.")
}

// playComeBack restarts the dead nodes while Alice waits. Nobody needs to tell the Redlock.
//
// They have kept their data, as real ones must to come back this soon: a node that forgot a lock
// would help a second client to get it as well. (See redlock.WithQuarantine for nodes that do
// forget.)
func (d *demo) playComeBack(ctx context.Context) {
	restarted := make(chan error, 1)
	time.AfterFunc(200*time.Millisecond, func() { restarted <- stage.Try(func() { d.Revive(3) }) })
	d.say("Alice calls Lock, which waits for nodes as well. The three are started again.")
	lock, err := d.alice.Lock(ctx, []string{"account:42"}, 5*time.Second)
	stage.Must(errors.Join(err, <-restarted))
	d.ok("Alice has the lock, after %d attempts.", lock.Attempts())
	stage.Must(lock.Unlock(ctx))
	d.untilUp(ctx, len(d.Nodes))
}

// untilUp waits until so many nodes are connected, and shows them.
func (d *demo) untilUp(ctx context.Context, want int) {
	for {
		nodes, up := d.alice.Stats().Nodes, 0
		for _, n := range nodes {
			if n.Up {
				up++
			}
		}
		if up == want {
			d.connected(nodes)
			return
		}
		if err := stage.Sleep(ctx, 5*time.Millisecond); err != nil {
			stage.Must(fmt.Errorf("%d nodes should be connected: %w", want, err))
		}
	}
}
