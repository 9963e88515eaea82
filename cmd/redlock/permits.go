package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/redlock/stored"
)

// permitsFlag is --permits of a command.
func permitsFlag(cmd *cobra.Command, k *int, usage string) {
	cmd.Flags().IntVar(k, "permits", 0, usage)
}

// checkPermits checks --permits, if it is given. A command that takes or releases one permit has so many resources, 0
// for others.
func checkPermits(cmd *cobra.Command, k, resources int) error {
	if cmd.Flags().Changed("permits") && (k < 1 || k > semaphore.MaxPermits) {
		return usagef("--permits %d: must be from 1 to %d", k, semaphore.MaxPermits)
	}
	if k > 0 && resources > 1 {
		return usagef("--permits with %d resources: want one, the semaphore's name", resources)
	}
	return nil
}

// slotNumber is the number of the slot that a permit is the lock on.
func slotNumber(permit *redlock.Lock) int {
	name := permit.Resources()[0]
	slot, _ := strconv.Atoi(name[strings.LastIndexByte(name, '#')+1:])
	return slot
}

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
	switch {
	case errors.Is(err, redlock.ErrTaken):
		return nil, because(err, "no permit of %s is free", printable(name))
	case err != nil:
		return nil, err
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
	for _, slot := range semaphore.Slots(name, f.permits) {
		if in, err := r.Inspect(ctx, slot); err == nil && in.Held && slices.Contains(holders, in.Holder) {
			return codedError{fmt.Errorf("%w: %s", errWithin, printable(slot)), exitTaken, "taken"}
		}
	}
	return nil
}

// slotOf finds the slot whose permit a token is. Where no node knows of it, it is any of the slots: its release says
// whether too few nodes answer, or the permit is gone.
func slotOf(ctx context.Context, r *redlock.Redlock, name string, k int, token string) (string, error) {
	slots, has, errs := semaphore.Slots(name, k), make([]bool, k), make([]error, k)
	var wg sync.WaitGroup
	for i, slot := range slots { // At the same time: nodes that hang would take their time for each.
		wg.Go(func() {
			var in redlock.Inspection
			in, errs[i] = r.Inspect(ctx, slot)
			has[i] = slices.ContainsFunc(in.Nodes, func(n redlock.NodeInspection) bool { return n.Holder == stored.Holder(token) })
		})
	}
	wg.Wait()
	return slots[max(slices.Index(has, true), 0)], errors.Join(errs...)
}

// showPermits writes the permits of a semaphore, whose slots the views are of.
func (t *tool) showPermits(w io.Writer, views []view) {
	s := t.styleFor(t.out)
	held, unknown := 0, ""
	var lines strings.Builder
	for i := range views {
		switch views[i].exit() {
		case exitOK:
			held++
		case exitNoQuorum:
			unknown = ", or more: too few nodes answer"
		}
		printf(&lines, "  slot %-3d  %s\n", i, views[i].summary(s))
	}
	printf(w, "%s  %d of %d permits held%s\n%s", s.bold(printable(views[0].semaphore)), held, len(views), unknown, &lines)
	for _, n := range views[len(views)-1].sights {
		if n.err != nil {
			printf(w, "  %s  %s\n", n.node, n.text(s, ""))
		}
	}
}

// lookAtPermits asks the nodes about the slots of a semaphore, a few at a time.
func lookAtPermits(ctx context.Context, peers []*peer, k stored.Keys, name string, permits int) []view {
	var views []view
	for some := range slices.Chunk(semaphore.Slots(name, permits), lookCount) {
		views = append(views, look(ctx, peers, k, some, shownWaiters)...)
	}
	for i := range views {
		views[i].semaphore, views[i].slot = name, i
	}
	return views
}
