package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

func (d *demo) actTwoDie() act {
	return act{
		title: "Two of five nodes die",
		calls: []string{`err = lock.Extend(ctx, 10*time.Second)`},
		play:  d.playTwoDie,
		kills: true,
	}
}

// playTwoDie kills two nodes under Alice's lock. The other three are a quorum.
func (d *demo) playTwoDie(ctx context.Context) error {
	lock, err := d.alice.Lock(ctx, []string{"account:42"}, 5*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock(ctx) }()
	d.p.ok("Alice has the lock.")
	if err = d.servers.kill(d.servers.cluster.Nodes[3:]); err != nil {
		return err
	}
	if err = d.untilUp(ctx, 3); err != nil {
		return err
	}
	start := time.Now()
	if err = lock.Extend(ctx, 10*time.Second); err != nil {
		return err
	}
	d.p.ok("Alice extends her lock all the same, in %s: three are more than half of five.", ms(time.Since(start)))
	if err = lock.Unlock(ctx); err != nil {
		return err
	}
	d.p.ok("She unlocks, and all go on as before:")
	return d.takeTurns(ctx, 1)
}

func (d *demo) actThirdDies() act {
	return act{
		title: "A third node dies",
		calls: []string{`_, err := bob.TryLock(ctx, []string{"account:42"}, 5*time.Second)`},
		play:  d.playThirdDies,
		kills: true,
	}
}

// playThirdDies leaves two of five nodes, on which nobody can have a lock.
func (d *demo) playThirdDies(ctx context.Context) error {
	if err := d.servers.kill(d.servers.cluster.Nodes[2:3]); err != nil {
		return err
	}
	if err := d.untilUp(ctx, 2); err != nil {
		return err
	}
	start := time.Now()
	_, err := d.bob.TryLock(ctx, []string{"account:42"}, 5*time.Second)
	if !errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrTaken) {
		return wrong("Bob's TryLock", err, redlock.ErrNoQuorum)
	}
	d.p.no("Bob is told after %s: ErrNoQuorum, and not ErrTaken: nobody has the lock.", ms(time.Since(start)))
	d.p.say("Better no lock than two: for all that these two know, the other three grant one.")
	return nil
}

func (d *demo) actComeBack() act {
	return act{
		title: "The nodes come back",
		calls: []string{`lock, err := alice.Lock(ctx, []string{"account:42"}, 5*time.Second)`},
		play:  d.playComeBack,
		kills: true,
	}
}

// playComeBack restarts the dead nodes while Alice waits. Nobody needs to tell the Redlock.
func (d *demo) playComeBack(ctx context.Context) error {
	restarted := make(chan error, 1)
	time.AfterFunc(200*time.Millisecond, func() { restarted <- d.servers.restart(d.servers.cluster.Nodes[2:]) })
	d.p.say("Alice calls Lock, which waits for nodes as well. The three are started again.")
	lock, err := d.alice.Lock(ctx, []string{"account:42"}, 5*time.Second)
	if err = errors.Join(err, <-restarted); err != nil {
		return fmt.Errorf("after the nodes came back: %w", err)
	}
	d.p.ok("Alice has the lock, after %d attempts.", lock.Attempts())
	if err = lock.Unlock(ctx); err != nil {
		return err
	}
	return d.untilUp(ctx, clusterSize)
}

// untilUp waits until so many nodes are connected, and shows them.
func (d *demo) untilUp(ctx context.Context, want int) error {
	for {
		nodes, up := d.alice.Stats().Nodes, 0
		for _, n := range nodes {
			if n.Up {
				up++
			}
		}
		if up == want {
			d.p.nodes(nodes)
			return nil
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%d nodes should be connected: %w", want, err)
		}
	}
}
