package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// An Election is one candidate among all with its name. It also says who leads, even if it never stands. It is safe for
// concurrent use. Only [New] makes one. It needs no Close, and runs nothing but its calls.
type Election struct {
	r        *redlock.Redlock
	name     string
	ttl      time.Duration
	opts     []redlock.Option
	standing sync.Mutex           // held by a Campaign
	last     atomic.Pointer[Term] // nil before the first one
}

// New returns a candidate. Its name is a resource of r: a lock on it keeps all candidates from leading. The ttl is how
// long nobody leads after a leader has died. New does no I/O; the error says which argument is wrong.
//
// opts are those of the lock: [redlock.WithOwner] is what observers are told, [redlock.WithStopTime] is for work that
// takes time to stop, [redlock.WithWait] limits how long Campaign waits. There is always a fence, and neither a
// retry count nor a turn ([redlock.WithTurn]): observers tell terms by what nodes have.
func New(r *redlock.Redlock, name string, ttl time.Duration, opts ...redlock.Option) (*Election, error) {
	e := &Election{r: r, name: name, ttl: ttl}
	e.opts = append(slices.Clip(opts), redlock.WithFencing(), redlock.WithTurn(0), redlock.WithRetryCount(-1))
	ended, end := context.WithCancel(context.Background())
	end()
	// A call whose context has ended checks its other arguments first, and sends nothing.
	if _, err := r.Lock(ended, []string{name}, ttl, e.opts...); !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("election %q: %w", name, err)
	}
	return e, nil
}

// Campaign waits until this process is elected, for as long as it takes, even while no quorum of nodes answers. The
// term is extended until Resign, or until ctx ends: to limit the wait alone, use [redlock.WithWait].
//
// An error matches [redlock.ErrNotAcquired], as those of [redlock.Redlock.Lock]. It matches ErrAlreadyHeld if this
// Election leads. One call at a time may stand: another one fails at once.
func (e *Election) Campaign(ctx context.Context) (*Term, error) {
	if !e.standing.TryLock() {
		return nil, e.refused(errors.New("another Campaign of this Election is under way"))
	}
	defer e.standing.Unlock()
	if e.IsLeader() { // The call would wait for itself.
		return nil, e.refused(redlock.ErrAlreadyHeld)
	}
	lock, err := e.r.Lock(ctx, []string{e.name}, e.ttl, e.opts...)
	if err != nil {
		return nil, err
	}
	t := &Term{lock, lock.KeepAlive(ctx)}
	if err = t.Err(); err != nil { // ctx or the Redlock ended as the lock was acquired.
		_ = t.Resign(ctx)
		return nil, e.refused(err)
	}
	e.last.Store(t)
	return t, nil
}

func (e *Election) refused(why error) error {
	return fmt.Errorf("election %q: %w: %w", e.name, redlock.ErrNotAcquired, why)
}

// IsLeader reports whether this Election leads, by this process's clocks: never two at a time. It asks no node. A yes
// may be out of date when it is returned, as with every lease: work belongs under the term's context.
func (e *Election) IsLeader() bool {
	t := e.last.Load()
	return t != nil && t.Err() == nil
}

// Format prints, whatever the verb, whether this Election leads. Without it, fmt would print the fields.
func (e *Election) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "election %q: leads: %v", e.name, e.IsLeader())
}

// A Term is a time for which a process leads. Only Campaign makes one. It is safe for concurrent use.
type Term struct {
	lock *redlock.Lock
	ctx  context.Context //nolint:containedctx // It is what the term is.
}

// Context ends when the term does, at the latest when the lock ends unless it is extended ([redlock.Lock.Until]). The
// cause ([context.Cause]) is as [redlock.Lock.KeepAlive] says. [redlock.FromContext] has the lock under the term.
func (t *Term) Context() context.Context { return t.ctx }

// Err returns nil while the term goes on, and then why it has ended, as Context does. It asks no node.
func (t *Term) Err() error {
	return cmp.Or(context.Cause(t.ctx), t.lock.Err()) // After a suspension the lock knows before the context.
}

// Fence returns the number of the term, larger than that of every term before; see [redlock.Lock.Fence].
func (t *Term) Fence() int64 { return t.lock.Fence() }

// Resign ends the term, and has the next candidate elected at once. Call it for every term, when its work has stopped.
// It ignores the cancellation of ctx. nil means that nobody else led meanwhile; see [redlock.Lock.Unlock] for errors.
func (t *Term) Resign(ctx context.Context) error { return t.lock.Unlock(ctx) }

// Format prints, whatever the verb, how long the term goes on, and no token, as fmt would.
func (t *Term) Format(f fmt.State, verb rune) { t.lock.Format(f, verb) }
