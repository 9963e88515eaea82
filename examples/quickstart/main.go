// Quickstart shows what a lock over five independent Redis masters does, and checks that it does
// it:
//
//	go run ./examples/quickstart
//
// needs nothing but Go, as it brings five in-memory servers of its own. To try it on servers of
// yours, of which it stops none:
//
//	REDLOCK_NODES=10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379 go run ./examples/quickstart
//
// compose.yaml starts three. The exit status is 0 only if everything went as told.
//
// The acts are in act_….go. Here is how a program makes its Redlock (open) and ends it
// (demo.close). Where an act says stage.Must(err), a program returns the error.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

func main() {
	os.Exit(run(stage.Interruptible(), newPrinter(os.Stdout), os.Getenv("REDLOCK_NODES"), readTime))
}

// readTime is a break before each act, for the reader.
const readTime = 400 * time.Millisecond

// run plays the demo and returns the status to exit with.
func run(ctx context.Context, p *printer, addrs string, pause time.Duration) int {
	err := play(ctx, p, addrs, pause)
	switch {
	case err == nil:
		p.ok("Everything went as told, in %.0f s.", time.Since(p.start).Seconds())
		return 0
	case ctx.Err() != nil:
		p.say("Interrupted.")
		return 130 // What a shell reports for a program ended by Ctrl-C.
	default:
		p.failed(err)
		return 1
	}
}

// play starts the servers, plays all acts and closes everything again.
func play(ctx context.Context, p *printer, addrs string, pause time.Duration) (err error) {
	s, err := startServers(addrs) //nolint:contextcheck // In-memory servers start at once and take no context.
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end(ctx)) }()
	p.intro(s.describe())
	d := &demo{servers: s, printer: p, pause: pause}
	for name, process := range map[string]**redlock.Redlock{"alice": &d.alice, "bob": &d.bob, "carol": &d.carol} {
		if *process, err = open(s.nodes(), s.prefix, name); err != nil {
			return err
		}
	}
	if err = errors.Join(d.acts(ctx), d.close(ctx)); err != nil {
		return err
	}
	return stage.Try(d.checkEmpty)
}

// open returns the Redlock of a process. One is enough for all its goroutines: they share its
// connections. Nothing is dialled yet.
func open(nodes []redlock.Node, prefix, owner string) (*redlock.Redlock, error) {
	return redlock.New(nodes,
		// Clients exclude each other only if they have the same prefix, so this demo is in
		// nobody's way.
		redlock.WithPrefix(prefix),
		// Who is refused is told this name.
		redlock.WithOwner(owner),
		// Lock waits for as long as its context allows, not for so many attempts.
		redlock.WithRetryCount(-1),
		redlock.WithNodeTimeout(nodeTimeout),
		// For how long nodes keep a counter for fences. Nothing of this demo is to stay.
		redlock.WithFenceLife(time.Minute),
	)
}

// nodeTimeout is how long to wait for a node. The default of 250 ms suits a network that is near. This
// demo is to work over a slow one too, and beside a busy build.
const nodeTimeout = 2 * time.Second

// A demo is what the acts need.
type demo struct {
	// Each of them has a Redlock of its own, as three processes have.
	alice, bob, carol *redlock.Redlock

	*servers
	*printer
	pause time.Duration
}

// patience is how long anybody waits before the demo has failed. A node that was down for long
// is connected to again after up to 1.5 s.
const patience = time.Minute

// An act is a part of the story.
type act struct {
	title string
	play  func(ctx context.Context)
	calls []string // what it is about, as it stands in the act's code
	kills bool     // stops servers, which the demo does to its own only
}

// program is all acts, in their order.
func (d *demo) program() []act {
	return []act{
		{title: "One lock on several nodes", play: d.playLock, calls: []string{
			`lock, err := alice.Lock(ctx, []string{"account:42"}, 5*time.Second)`,
			`_, err = bob.TryLock(ctx, []string{"account:42"}, 5*time.Second)`,
			`err = lock.Unlock(ctx)`,
		}},
		{title: "Three processes take turns", play: d.playTurns, calls: []string{
			`err := r.Do(ctx, []string{"account:42"}, 5*time.Second, func(…) error { … })`,
		}},
		{title: "Waiting in order", play: d.playLine, calls: []string{
			`err := r.Do(ctx, []string{"account:42"}, 5*time.Second, func(…) error { … })`,
		}},
		{title: "A lock that is lost in the middle of the work", play: d.playDo, calls: []string{
			`err := alice.Do(ctx, []string{"report"}, 1500*time.Millisecond, func(ctx …) error {`,
			`	… <-ctx.Done() // context.Cause(ctx) says why`,
			`})`,
		}},
		{title: "A writer that comes too late", play: d.playFence, calls: []string{
			`first, err := alice.Lock(ctx, []string{"file:7"}, time.Second, redlock.WithFencing())`,
			`err = file.Do(first.Fence(), func() error { … }) // file is a redlock.Guard`,
		}},
		{title: "Two of five nodes die", play: d.playTwoDie, kills: true, calls: []string{
			`err = lock.Extend(ctx, 10*time.Second)`,
		}},
		{title: "A third node dies", play: d.playThirdDies, kills: true, calls: []string{
			`_, err := bob.TryLock(ctx, []string{"account:42"}, 5*time.Second)`,
		}},
		{title: "The nodes come back", play: d.playComeBack, kills: true, calls: []string{
			`lock, err := alice.Lock(ctx, []string{"account:42"}, 5*time.Second)`,
		}},
	}
}

// acts plays the acts that the servers allow, and ends with the first error.
func (d *demo) acts(ctx context.Context) error {
	left := 0
	for i, a := range d.program() {
		if a.kills && d.Stage == nil {
			left++
			continue
		}
		if err := stage.Sleep(ctx, d.pause); err != nil {
			return err
		}
		d.act(i+1, a)
		playing, cancel := context.WithTimeout(ctx, patience)
		err := stage.Try(func() { a.play(playing) })
		cancel()
		if err != nil {
			return fmt.Errorf("act %d: %w", i+1, err)
		}
	}
	if left > 0 {
		d.print("\nLeft out\n")
		d.say("%d acts in which nodes die, as the demo stops no servers but its own.", left)
		d.say("Without REDLOCK_NODES it brings some, and plays these acts, too.")
	}
	return nil
}

// close ends the Redlocks, even after Ctrl-C: releases may still be on their way to a node, and
// would be cut off by the end of the program.
func (d *demo) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	d.print("\nThe end\n")
	all := []*redlock.Redlock{d.alice, d.bob, d.carol}
	if err := errors.Join(stage.Together(len(all), func(i int) error { return all[i].Close(ctx) })...); err != nil {
		return fmt.Errorf("closing did not end in time: %w", err)
	}
	if _, err := d.alice.TryLock(ctx, []string{"account:42"}, time.Second); !errors.Is(err, redlock.ErrClosed) {
		return fmt.Errorf("a closed Redlock should refuse with ErrClosed: %w", err)
	}
	d.ok("Alice, Bob and Carol call Close, which sees to releases that are still on their way.")
	return nil
}
