package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// A Set is a few nodes with a name, and this process's Redlock for them.
type Set struct {
	// Name decides which resources the set has. So it stays as it is when nodes are
	// replaced, and is never that of another set.
	Name string
	*redlock.Redlock
}

// Sets are all of them, in any order.
type Sets []Set

// At returns the set that a resource belongs to: the one whose hash with the resource
// is the largest (rendezvous hashing). Every process that knows the same names comes
// to the same result. A new set takes its share from all others, and no resource
// moves between these.
func (s Sets) At(resource string) Set {
	best, most := 0, uint64(0)
	for i, set := range s {
		sum := sha256.Sum256([]byte(set.Name + "\x00" + resource))
		if weight := binary.BigEndian.Uint64(sum[:]); weight > most {
			best, most = i, weight
		}
	}
	return s[best]
}

// A Move is on its way from one list of sets to another. It names both, and so decides
// which resources move.
type Move struct{ From, To Sets }

var errMoving = errors.New("the resource is being moved to another set")

// Moves says whether a resource has another set after the move.
func (m Move) Moves(resource string) bool { return m.From.At(resource).Name != m.To.At(resource).Name }

// Work is the body of a Do.
type Work = func(ctx context.Context, lock *redlock.Lock) error

// DoBoth works under the locks of both sets, if there are two. It excludes processes
// that still lock in the old set only, and those that lock in the new one only.
func (m Move) DoBoth(ctx context.Context, resource string, ttl time.Duration, work Work, opts ...redlock.Option) error {
	if !m.Moves(resource) {
		return m.To.At(resource).Do(ctx, []string{resource}, ttl, work, opts...)
	}
	// Always the old set first. Two processes that begin at different ends would each
	// have one lock and wait for the other one.
	return m.From.At(resource).Do(ctx, []string{resource}, ttl, func(ctx context.Context, _ *redlock.Lock) error {
		// The context that work gets ends with the first of both locks.
		return m.To.At(resource).Do(ctx, []string{resource}, ttl, work, opts...)
	}, opts...)
}

// DoStill works on what does not move, and refuses the rest.
func (m Move) DoStill(ctx context.Context, resource string, ttl time.Duration, work Work, opts ...redlock.Option) error {
	if m.Moves(resource) {
		return errMoving
	}
	return m.To.At(resource).Do(ctx, []string{resource}, ttl, work, opts...)
}

// Drain waits for the last holder of a resource that moves, and has the fences of the
// new set go on above those of the old one. It is for when all processes have come to
// call DoStill, and before any of them locks in the new set. It may be repeated.
func (m Move) Drain(ctx context.Context, resource string, ttl time.Duration) error {
	if !m.Moves(resource) {
		return nil
	}
	// The last holder may need any time. A dead set cannot be drained: wait for the longest
	// ttl instead, and call raise with the largest fence that the resource has seen.
	return m.From.At(resource).Do(ctx, []string{resource}, ttl, func(ctx context.Context, last *redlock.Lock) error {
		return raise(ctx, m.To.At(resource), resource, ttl, last.Fence())
	}, redlock.WithFencing(), redlock.WithRetryCount(-1))
}

// raise locks until the fence is above another set's.
func raise(ctx context.Context, set Set, resource string, ttl time.Duration, above int64) error {
	for {
		var fence int64
		err := set.Do(ctx, []string{resource}, ttl, func(_ context.Context, lock *redlock.Lock) error {
			fence = lock.Fence()
			return nil
		}, redlock.WithFencing())
		if err != nil || fence > above {
			return err
		}
		// A fence is not below the client's clock, in microseconds, unless that clock is far
		// ahead of the nodes'. So this ends when the clock has passed what the old set had.
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
