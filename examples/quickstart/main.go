// Quickstart shows what a lock over five independent Redis masters does, and
// checks that it does it:
//
//	go run ./examples/quickstart
//
// needs nothing but Go, as it brings five in-memory servers of its own. To try
// it on servers of yours, none of which it kills:
//
//	REDLOCK_NODES=10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379 go run ./examples/quickstart
//
// The exit status is 0 only if everything went as told. The code to copy is
// here in open, demo.withLock and demo.close; the rest tells the story.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

const (
	resource = "account:42"
	prefix   = "quickstart:"
	ttl      = 5 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	// The first Ctrl-C ends the demo in good order; a second one kills it.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Stdout, os.Getenv))
}

// run plays the demo and returns the status to exit with.
func run(ctx context.Context, out io.Writer, env func(string) string) int {
	p := newPrinter(out)
	err := play(ctx, p, env)
	switch {
	case err == nil:
		p.say("Everything went as told.")
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
func play(ctx context.Context, p *printer, env func(string) string) (err error) {
	s, err := startServers(env) //nolint:contextcheck // The in-memory servers start at once and take no context.
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	r, err := open(s.nodes, p.nodeEvent)
	if err != nil {
		return err
	}
	d := &demo{r: r, servers: s, p: p}
	if err = errors.Join(d.acts(ctx), d.close(ctx)); err != nil {
		return err
	}
	return s.checkEmpty(p)
}

// open returns the Redlock of this program. One is enough for all goroutines:
// they share its connections.
func open(nodes []redlock.Node, hook redlock.Hook) (*redlock.Redlock, error) {
	return redlock.New(nodes,
		// Clients exclude each other only if they have the same prefix, so this
		// demo is in nobody's way.
		redlock.WithPrefix(prefix),
		// Lock waits for as long as its context allows, not for so many attempts.
		redlock.WithRetryCount(-1),
		// The work here is short. Where a lock is held for seconds, the default of
		// 200 ms is kinder to the nodes.
		redlock.WithRetryDelay(60*time.Millisecond),
		redlock.WithRetryJitter(30*time.Millisecond),
		// The default of 250 ms suits a network that is near. This demo is to work
		// over a slow one too, and beside a busy build.
		redlock.WithNodeTimeout(time.Second),
		redlock.WithHook(hook),
	)
}

// A demo is what the acts need.
type demo struct {
	r       *redlock.Redlock
	servers *servers
	p       *printer
	working atomic.Int32 // how many workers believe that they have the lock
}

// withLock waits up to the given time for the lock, does the work and unlocks.
func (d *demo) withLock(ctx context.Context, wait time.Duration, work func(context.Context, *redlock.Lock) error) (err error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	lock, err := d.r.Lock(waiting, []string{resource}, ttl)
	if err != nil {
		return err
	}
	// Unlock works even when ctx has ended, and saves the others from waiting for
	// the end of the ttl. Its error may say that the lock was lost before.
	defer func() { err = errors.Join(err, lock.Unlock(ctx)) }()

	// A lock ends at Until, whatever its holder does, so the work must end by then.
	// Work that extends the lock needs a context that lasts as long.
	leased, stop := context.WithDeadline(ctx, lock.Until())
	defer stop()
	return work(leased, lock)
}

// close ends the Redlock, even after Ctrl-C: releases may still be on their way
// to a node, and would be cut off by the end of the program.
func (d *demo) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	d.p.act("The end")
	if err := d.r.Close(ctx); err != nil {
		return fmt.Errorf("closing did not end in time: %w", err)
	}
	if _, err := d.r.TryLock(ctx, []string{resource}, ttl); !errors.Is(err, redlock.ErrClosed) {
		return fmt.Errorf("a closed Redlock should refuse with ErrClosed: %w", err)
	}
	d.p.say("The Redlock is closed: new locks are refused, releases have been sent.")
	return nil
}
