package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// An acquisition is one call of Lock or TryLock.
type acquisition struct {
	r         *Redlock
	o         *options // not changed
	resources []string
	keys      []any
	ttl       time.Duration
}

// run makes attempts until one succeeds or is not worth repeating.
func (a *acquisition) run(ctx context.Context) (*Lock, error) {
	var last error
	for attempt := 1; ; attempt++ {
		l, err := a.attempt(ctx, attempt)
		if err == nil {
			return l, nil
		}
		if cut := (*waitError)(nil); last == nil || !errors.As(err, &cut) {
			last = err // Of an attempt that was cut short, the one before tells more.
		}
		ended := a.r.ended(ctx)
		if ended == nil {
			if a.o.retryCount >= 0 && attempt > a.o.retryCount || !a.o.retryIf(err) {
				return nil, err
			}
			a.r.counters.waiting.Add(1)
			ended = a.r.sleep(ctx, retryDelay(a.o.retryDelay, a.o.retryJitter))
			a.r.counters.waiting.Add(-1)
		}
		if ended != nil {
			return nil, a.endedBy(ended, last)
		}
	}
}

// endedBy is the error of a call that was ended by its context or by Close.
func (a *acquisition) endedBy(cause, last error) error {
	if cut := (*waitError)(nil); errors.As(last, &cut) {
		return last
	}
	return &waitError{op: OpLock, resources: a.resources, cause: cause, last: last}
}

// retryDelay is uniform in delay ± jitter.
func retryDelay(delay, jitter time.Duration) time.Duration {
	if jitter == 0 {
		return delay
	}
	return delay - jitter + rand.N(2*jitter+1)
}

// sleep waits for d; it returns an error when ctx or the Redlock ended first.
func (r *Redlock) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.closing:
		return ErrClosed
	}
}

// ended returns the error of ctx, or ErrClosed, if either has ended.
func (r *Redlock) ended(ctx context.Context) error {
	select {
	case <-r.closing:
		return ErrClosed
	default:
		return ctx.Err()
	}
}

// attempt makes one attempt. Where clients that began together have split the
// votes so that nobody has a quorum, it resolves that too: the one with most
// votes keeps them and asks for the rest, the others give theirs back and look
// again after a random time, within the node timeout. Plain Redlock fails there,
// for all of them; see split.go.
func (a *acquisition) attempt(ctx context.Context, number int) (*Lock, error) {
	var split *split
	for {
		b := a.newBid(ctx, number, split)
		b.ask()
		l, err := b.outcome(ctx)
		if !errors.Is(err, errSplit) {
			return l, err
		}
		if split == nil {
			a.r.counters.splits.Add(1)
			split = newSplit(a.o.nodeTimeout)
			b.split = split
		}
		if l, err = split.contend(ctx, b); !errors.Is(err, errSplit) {
			return l, err
		}
		// Somebody else leads: what this bid has won was given back. Before the next
		// look, the leader gets the time of a round trip or two.
		if ended := a.r.sleep(ctx, split.pause()); ended != nil {
			return nil, a.endedBy(ended, a.r.quorumError(b.round, ErrTaken))
		}
		if split.over() {
			return nil, a.r.fail(b.round, ErrTaken)
		}
	}
}
