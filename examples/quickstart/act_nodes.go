package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

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
