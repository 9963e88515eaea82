package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

const (
	// patience is how long anybody waits before the demo has failed. A node that
	// was down for long is connected to again after up to 1.5 s.
	patience = 10 * time.Second

	// impatience is how long Carol waits where she cannot get the lock.
	impatience = 400 * time.Millisecond

	workTime = 150 * time.Millisecond
	restTime = 200 * time.Millisecond // after a turn, see turn
	readTime = 300 * time.Millisecond // a break between acts, for the reader
)

// acts plays the acts that the servers allow, and ends with the first error.
func (d *demo) acts(ctx context.Context) error {
	acts := []func(context.Context) error{d.connect, d.takeTurns, d.lookCloser}
	if d.servers.cluster != nil {
		acts = append(acts, d.twoDie, d.thirdDies, d.comeBack)
	}
	for _, act := range acts {
		if err := act(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, readTime); err != nil {
			return err
		}
	}
	return nil
}

// connect takes the lock once, to find out early whether that is possible.
func (d *demo) connect(ctx context.Context) error {
	n := len(d.servers.nodes)
	d.p.act("One lock on %d nodes", n)
	d.p.say("The nodes are %s.", d.servers.names())
	if d.servers.cluster == nil {
		d.p.say("They are yours, from REDLOCK_NODES: the demo kills none of them.")
	} else {
		d.p.say("They are in-memory servers of the demo, and some of them will die.")
	}
	err := d.withLock(ctx, 3*time.Second, func(context.Context, *redlock.Lock) error {
		d.p.say("%q is locked: %d of %d nodes are enough for that.", resource, n/2+1, n)
		return nil
	})
	if errors.Is(err, redlock.ErrNoQuorum) {
		d.p.say("Too few nodes answer:")
		d.p.votes(err)
		return fmt.Errorf("%w: do the servers run, at these addresses?", redlock.ErrNoQuorum)
	}
	return err
}

// takeTurns has workers want the lock at once, twice each.
func (d *demo) takeTurns(ctx context.Context) error {
	d.p.act("Three workers want it")
	if err := d.workers(ctx, 2); err != nil {
		return err
	}
	d.p.say("Every worker had its turns, and there were never two at work.")
	return nil
}

// lookCloser shows what the others see while Alice has the lock.
func (d *demo) lookCloser(ctx context.Context) error {
	d.p.act("What the others see")
	return d.withLock(ctx, patience, func(ctx context.Context, lock *redlock.Lock) error {
		d.p.say("Alice has the lock.")
		if err := d.refuse(ctx, redlock.ErrTaken); err != nil {
			return err
		}
		if err := d.outwait(ctx, redlock.ErrTaken); err != nil {
			return err
		}
		if err := d.extend(ctx, lock, 2*ttl); err != nil {
			return err
		}
		seen, err := d.r.Inspect(ctx, resource)
		if err != nil {
			return fmt.Errorf("inspecting the lock: %w", err)
		}
		d.p.say("Inspect asks every node who has the lock:")
		d.p.inspection(seen)
		if !seen.Held || seen.TTL <= ttl {
			return fmt.Errorf("the nodes should hold the lock for over %s: held %t, for %s", ttl, seen.Held, seen.TTL)
		}
		d.p.say("Alice unlocks.")
		return nil
	})
}

// twoDie kills two nodes under Alice's lock. The other three are a quorum.
func (d *demo) twoDie(ctx context.Context) error {
	d.p.act("Two of five nodes die")
	err := d.withLock(ctx, patience, func(ctx context.Context, lock *redlock.Lock) error {
		d.p.say("Alice has the lock.")
		// Lock returns when three nodes have granted it. By now all of them have.
		if err := sleep(ctx, workTime); err != nil {
			return err
		}
		if err := d.servers.kill(d.servers.cluster.Nodes[3:], d.p); err != nil {
			return err
		}
		if err := d.extend(ctx, lock, 2*ttl); err != nil {
			return err
		}
		d.p.say("Alice unlocks, and the workers go on as before.")
		return nil
	})
	if err != nil {
		return err
	}
	return d.workers(ctx, 1)
}

// thirdDies leaves two of five nodes, on which nobody can have a lock.
func (d *demo) thirdDies(ctx context.Context) error {
	d.p.act("A third node dies")
	if err := d.servers.kill(d.servers.cluster.Nodes[2:3], d.p); err != nil {
		return err
	}
	if err := d.refuse(ctx, redlock.ErrNoQuorum); err != nil {
		return err
	}
	return d.outwait(ctx, redlock.ErrNoQuorum)
}

// comeBack restarts the dead nodes. Nobody needs to tell the Redlock.
func (d *demo) comeBack(ctx context.Context) error {
	d.p.act("The nodes come back")
	if err := d.servers.restart(d.servers.cluster.Nodes[2:], d.p); err != nil {
		return err
	}
	d.p.say("Alice waits for the lock.")
	err := d.withLock(ctx, patience, func(_ context.Context, lock *redlock.Lock) error {
		d.p.say("Alice has the lock (attempt %d).", lock.Attempts())
		d.p.say("Alice unlocks, and the workers go on as before.")
		return nil
	})
	if err != nil {
		return fmt.Errorf("after the nodes came back: %w", err)
	}
	if err = d.workers(ctx, 1); err != nil {
		return err
	}
	return d.waitForNodes(ctx)
}

// refuse checks that Bob, who does not wait, gets no lock but the error want.
func (d *demo) refuse(ctx context.Context, want error) error {
	start := time.Now()
	lock, err := d.r.TryLock(ctx, []string{resource}, ttl)
	took := time.Since(start).Round(100 * time.Microsecond)
	if err == nil {
		return errors.Join(errors.New("a lock was given to Bob, who should have got: "+want.Error()), lock.Unlock(ctx))
	}
	if !errors.Is(err, want) {
		return fmt.Errorf("the error of Bob's TryLock should be %q: %w", want.Error(), err)
	}
	d.p.say("Bob's TryLock fails after %s with %q:", took, want)
	d.p.votes(err)
	return nil
}

// outwait checks that Carol, who waits for some time, gets no lock either. Her
// Lock fails with her context's error, which also says what its last attempt saw:
// want.
func (d *demo) outwait(ctx context.Context, want error) error {
	err := d.withLock(ctx, impatience, func(context.Context, *redlock.Lock) error {
		return errors.New("a lock was given to Carol, who should have run out of time")
	})
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, want) {
		return fmt.Errorf("the error of Carol's Lock should say that her time was up, and %w: %w", want, err)
	}
	d.p.say("Carol waits, but for no longer than %s: her Lock ends with %q.", impatience, context.DeadlineExceeded)
	return nil
}

// extend has Alice extend her lock, and checks that it now ends later.
func (d *demo) extend(ctx context.Context, lock *redlock.Lock, ttl time.Duration) error {
	before := lock.Until()
	if err := lock.Extend(ctx, ttl); err != nil {
		return fmt.Errorf("extending the lock: %w", err)
	}
	after := lock.Until()
	if !after.After(before) {
		return fmt.Errorf("an extension moved the lock's end from %s to %s", before, after)
	}
	d.p.say("Alice extends the lock: it ends %s later now.", after.Sub(before).Round(time.Millisecond))
	return nil
}

// workers has three of them take the given number of turns each.
func (d *demo) workers(ctx context.Context, turns int) error {
	names := []string{"Worker 1", "Worker 2", "Worker 3"}
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			for n := 0; n < turns && errs[i] == nil; n++ {
				errs[i] = d.turn(ctx, name)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// turn is one worker's turn, and the rest that it takes then. Whoever asks again
// at once has the best chances, as the others are between two attempts.
func (d *demo) turn(ctx context.Context, name string) error {
	err := d.withLock(ctx, patience, func(ctx context.Context, lock *redlock.Lock) error {
		d.p.say("%s has the lock (attempt %d).", name, lock.Attempts())
		if err := d.work(ctx); err != nil {
			return err
		}
		d.p.say("%s unlocks.", name)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return sleep(ctx, restTime)
}

// work is what only one worker may do at a time, and finds out if there are two.
func (d *demo) work(ctx context.Context) error {
	defer d.working.Add(-1)
	if n := d.working.Add(1); n > 1 {
		return fmt.Errorf("%d workers have the lock at the same time", n)
	}
	return sleep(ctx, workTime)
}

// waitForNodes waits until all nodes are connected.
func (d *demo) waitForNodes(ctx context.Context) error {
	for start := time.Now(); time.Since(start) < patience; {
		up := 0
		for _, n := range d.r.Stats().Nodes {
			if n.Up {
				up++
			}
		}
		if up == len(d.servers.nodes) {
			d.p.say("All %d nodes are connected again.", up)
			return nil
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("not all nodes were connected again within %s", patience)
}

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
