package semaphore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/redlock"
)

// A caller is a call of Acquire that waits.
type caller struct {
	began  time.Time
	served chan struct{} // closed once the caller has a permit or an error
	permit *Permit
	err    error
}

// Acquire waits for a permit, until ctx ends. Callers of one Semaphore are served in the order in
// which they came; see the package documentation for the order between processes. It takes one round
// trip if the first slot that it asks for is free.
//
// After success the permit is held until its Until, unless it is extended or released before. After
// an error nothing is held. Every error matches [redlock.ErrNotAcquired]. It also matches
//
//   - the context's error if ctx ended first, and what was seen last: ErrTaken, or ErrNoQuorum if too
//     many nodes are down. A *[redlock.QuorumError] in it is about one of the slots;
//   - ErrClosed after Close of the Redlock;
//   - ErrAlreadyHeld if ctx is derived from the context of a permit of this semaphore that is held, by
//     Do or [Permit.KeepAlive]. Callers that have one permit each and wait for a second one would wait
//     for each other, forever.
func (s *Semaphore) Acquire(ctx context.Context) (*Permit, error) {
	p, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	return p.use(), nil
}

// acquire is Acquire, but nobody works under its permit yet.
func (s *Semaphore) acquire(ctx context.Context) (*Permit, error) {
	if err := s.refuse(ctx); err != nil {
		return nil, err
	}
	c := &caller{began: time.Now(), served: make(chan struct{})}
	s.mu.Lock()
	s.line = append(s.line, c)
	s.waits.Store(&s.line[0].began)
	s.ask(1)
	s.mu.Unlock()
	select {
	case <-c.served:
	case <-ctx.Done():
		s.mu.Lock()
		if i := slices.Index(s.line, c); i >= 0 { // If not, it was served, and returns that, as Lock would.
			s.serve(i, nil, s.failed(ctx.Err(), s.search.last))
		}
		s.mu.Unlock()
	}
	return c.permit, c.err
}

// serve makes the i-th call in line return. The search ends with the last one. s.mu is held.
func (s *Semaphore) serve(i int, p *Permit, err error) {
	c := s.line[i]
	s.line = slices.Delete(s.line, i, i+1)
	c.permit, c.err = p, err
	close(c.served)
	if len(s.line) == 0 {
		s.search.cancel()
		s.search = nil
		return
	}
	s.waits.Store(&s.line[0].began)
}

// TryAcquire takes a permit if it finds a free one. It waits neither for a release nor for its turn.
// It asks for one slot, then for two at the same time, then for four, until it has one or all were
// taken: for k permits, it takes at most log2(k)+1 round trips.
//
// Every error matches [redlock.ErrNotAcquired], and is as that of [redlock.Redlock.TryLock]: it matches
// ErrTaken if each slot was taken when it was asked for, and ErrNoQuorum if nodes did not answer. It
// matches ErrAlreadyHeld as the error of Acquire does.
//
// Fewer than k permits may be in use when the error matches ErrTaken: another call may get more slots than
// it needs, and they are taken until it has given them back.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Permit, error) {
	if err := s.refuse(ctx); err != nil {
		return nil, err
	}
	err := redlock.ErrTaken
	for n, order := 1, s.order(); len(order) > 0 && errors.Is(err, redlock.ErrTaken); n *= 2 {
		n = min(n, len(order))
		var p *Permit
		if p, err = s.tryAny(ctx, order[:n]); err == nil {
			return p.use(), nil
		}
		order = order[n:]
	}
	if errors.Is(err, redlock.ErrTaken) && ctx.Err() == nil && !errors.Is(err, redlock.ErrClosed) {
		return nil, acquireError{fmt.Errorf("semaphore %q: %s; one of them: %w", s.name, s.allTaken(), err)}
	}
	return nil, s.failed(err, nil)
}

// allTaken returns the text of an error: each slot was refused.
func (s *Semaphore) allTaken() string {
	if len(s.slots) == 1 {
		return "the only permit is taken"
	}
	return fmt.Sprintf("all %d permits are taken", len(s.slots))
}

// tryAny tries to lock some slots at the same time. It returns with the first that it gets, and gives back the others.
func (s *Semaphore) tryAny(ctx context.Context, slots []int) (_ *Permit, err error) {
	permits, refusals := make(chan *Permit, 1), make(chan error, len(slots))
	var one atomic.Bool
	for _, slot := range slots {
		go func() {
			defer settings.Enter(s.r)()
			l, no := s.r.TryLock(ctx, s.slots[slot], s.ttl, s.opts...)
			switch {
			case no != nil:
				refusals <- no
			case one.Swap(true):
				giveBack(ctx, l)
			default:
				permits <- s.permit(l, slot)
			}
		}()
	}
	for range slots {
		select {
		case p := <-permits:
			return p, nil
		case no := <-refusals:
			if err == nil || !errors.Is(no, redlock.ErrTaken) {
				err = no
			}
		}
	}
	return nil, err
}

// refuse returns why a call for a permit cannot begin, nil if it can.
func (s *Semaphore) refuse(ctx context.Context) error {
	if s == nil || s.r == nil {
		return acquireError{errZero}
	}
	if ctx == nil {
		return s.failed(errors.New("nil context"), nil)
	}
	if err := ctx.Err(); err != nil {
		return s.failed(err, nil)
	}
	permits, _ := ctx.Value(permitKey{s.r, s.name}).(*contextPermits)
	for ; permits != nil; permits = permits.outer {
		if permits.permit.Err() == nil {
			return s.failed(redlock.ErrAlreadyHeld, nil)
		}
	}
	return nil
}

var errZero = errors.New("semaphore: make it with New")

// acquireError is the error of a call that has got no permit.
type acquireError struct{ error }

func (e acquireError) Is(target error) bool { return target == redlock.ErrNotAcquired }

func (e acquireError) Unwrap() error { return e.error }

// failed returns the error of a call that ends because of cause. last is the last refusal of a slot, nil if there was
// none.
func (s *Semaphore) failed(cause, last error) error {
	if last == nil {
		return acquireError{fmt.Errorf("semaphore %q: %w", s.name, cause)}
	}
	if e := (*redlock.QuorumError)(nil); errors.As(last, &e) { // Other calls return it as well.
		own := *e
		own.Resources, own.Votes = slices.Clone(e.Resources), slices.Clone(e.Votes)
		last = &own
	}
	return acquireError{fmt.Errorf("semaphore %q: %w; last attempt: %w", s.name, cause, last)}
}
