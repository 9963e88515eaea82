package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
)

// maxPermits is the most that a semaphore has.
const maxPermits = 256

// checkPermits checks --permits, if it is given.
func checkPermits(cmd *cobra.Command, k int) error {
	if cmd.Flags().Changed("permits") && (k < 1 || k > maxPermits) {
		return usagef("--permits %d: must be from 1 to %d", k, maxPermits)
	}
	return nil
}

// slotsOf are the resources of a semaphore's slots.
func slotsOf(name string, k int) []string {
	slots := make([]string, k)
	for i := range slots {
		slots[i] = name + "#" + strconv.Itoa(i)
	}
	return slots
}

// errWithinPermit is the error of a redlock run whose command would wait for the permit under which it runs.
var errWithinPermit = errors.New("this redlock run is part of the command of another one, which has a permit of the same semaphore")

// takePermit takes one of the permits: the lock on its slot.
func (f *runFlags) takePermit(ctx context.Context, r *redlock.Redlock, name string) (*redlock.Lock, error) {
	s, err := semaphore.New(r, name, f.permits, f.ttl, f.options()...) //nolint:contextcheck // It does no I/O.
	if err != nil {
		return nil, err
	}
	if err = f.refuseWithin(ctx, r, name); err != nil {
		return nil, err
	}
	acquire := s.Acquire
	if !f.waits() {
		acquire = s.TryAcquire
	}
	p, err := acquire(ctx)
	if err != nil {
		return nil, &permitError{err, name, f.permits}
	}
	return p.Lock, nil
}

// refuseWithin refuses a second permit for what runs under one: if all do that, each waits for the others, for
// ever. What is in the environment may have ended, so the nodes are asked.
func (f *runFlags) refuseWithin(ctx context.Context, r *redlock.Redlock, name string) error {
	holders := strings.Fields(os.Getenv(holdersVar))
	if len(holders) == 0 {
		return nil
	}
	for _, slot := range slotsOf(name, f.permits) {
		if in, err := r.Inspect(ctx, slot); err == nil && in.Held && slices.Contains(holders, in.Holder) {
			return codedError{fmt.Errorf("%w: %s", errWithinPermit, printable(slot)), exitTaken, "taken"}
		}
	}
	return nil
}

// A permitError is the error of a run that has got no permit.
type permitError struct {
	error

	name string
	k    int
}

func (e *permitError) Unwrap() error { return e.error }

// text says that no permit is free, and of one slot who has it.
func (e *permitError) text(votes *redlock.QuorumError) string {
	text := fmt.Sprintf("all %s of %s are taken", brief.Count(e.k, "permit"), printable(e.name))
	if e.k == 1 {
		text = "the only permit of " + printable(e.name) + " is taken"
	}
	if errors.Is(e, context.DeadlineExceeded) {
		text = "gave up waiting for " + onePermit(e.name, e.k)
	}
	return text + ": " + ofVotes(votes, 0)
}

// onePermit names what a run waits for.
func onePermit(name string, k int) string {
	if k == 1 {
		return "the only permit of " + printable(name)
	}
	return fmt.Sprintf("one of the %d permits of %s", k, printable(name))
}

// showPermits writes the permits of a semaphore, as text or JSON. views are those of its slots.
func (t *tool) showPermits(name string, views []view) {
	if t.global.json {
		for i := range views {
			j := views[i].json()
			j.Semaphore, j.Slot = name, &i
			writeJSON(t.out, j)
		}
		return
	}
	held, unknown := 0, ""
	for i := range views {
		switch views[i].exit() {
		case exitOK:
			held++
		case exitNoQuorum:
			unknown = ", or more: too few nodes answer"
		}
	}
	s := t.styleFor(t.out)
	printf(t.out, "%s  %d of %s held%s\n", s.bold(printable(name)), held, brief.Count(len(views), "permit"), unknown)
	width := len(strconv.Itoa(len(views) - 1))
	for i := range views {
		printf(t.out, "  slot %-*d  %s\n", width, i, views[i].summary(s))
	}
	for _, n := range views[len(views)-1].sights {
		if n.err != nil {
			printf(t.out, "  %s  %s\n", n.node, n.text(s, ""))
		}
	}
}

// statusOfPermits asks the nodes about the slots of semaphores, a few at a time.
func (t *tool) statusOfPermits(ctx context.Context, peers []*peer, k keys, names []string, permits int) (code int) {
	for _, name := range names {
		var views []view
		for some := range slices.Chunk(slotsOf(name, permits), lookCount) {
			views = append(views, look(ctx, peers, k, some, shownWaiters)...)
		}
		t.showPermits(name, views)
		for i := range views {
			code = max(code, views[i].exit())
		}
	}
	return code
}
