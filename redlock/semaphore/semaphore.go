package semaphore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/redlock"
)

// A Semaphore lets at most k holders at a time have its name. It is safe for concurrent use. Only
// [New] makes one: the methods of a nil or zero Semaphore fail with an error.
//
// It has no Close. Goroutines and connections that it needs are there only while callers wait, and
// closing its Redlock ends their wait.
type Semaphore struct {
	r     *redlock.Redlock
	name  string
	ttl   time.Duration
	opts  []redlock.Option
	slots [][]string // the resources of each slot, as Lock takes them

	won []atomic.Pointer[redlock.Lock] // by slot: the last lock of this process, which may have ended

	mu     sync.Mutex // guards the fields below
	line   []*caller
	search *search // for the calls in line; nil without any

	waits atomic.Pointer[time.Time] // since when the first in line waits; written with mu held
}

// MaxPermits bounds the permits of a semaphore, as a call that waits long enough asks for all slots.
const MaxPermits = 256

// Slots returns the resources of the slots of a semaphore with k permits, in their order. Whoever shows locks, or calls
// [redlock.Redlock.Inspect], knows permits by them: a semaphore has its slots among the first [MaxPermits], whatever its k.
func Slots(name string, k int) []string {
	slots := make([]string, k)
	for i := range slots {
		slots[i] = name + "#" + strconv.Itoa(i)
	}
	return slots
}

// New returns a semaphore of k permits, 1 ≤ k ≤ 256, over the nodes of r. A permit lives for ttl unless
// it is extended. It does no I/O. The error says which argument is wrong, and how.
//
// opts are those of the slots' locks. Options about retries (WithRetryCount, WithRetryDelay,
// WithRetryBackoff, WithRetryIf) have no effect here, nor do those of r: Acquire waits until its
// context ends. What wakes it is a release; besides, it asks for each slot every 200 ms or, with more
// than ten, every k · 20 ms.
func New(r *redlock.Redlock, name string, k int, ttl time.Duration, opts ...redlock.Option) (*Semaphore, error) {
	switch {
	case name == "":
		return nil, errors.New("semaphore: empty name")
	case k < 1 || k > MaxPermits:
		return nil, fmt.Errorf("semaphore %q: %d permits: must be at least 1 and at most %d", name, k, MaxPermits)
	}
	s := &Semaphore{r: r, name: name, ttl: ttl, won: make([]atomic.Pointer[redlock.Lock], k)}
	for _, slot := range Slots(name, k) {
		s.slots = append(s.slots, []string{slot})
	}
	pace := max(200*time.Millisecond, time.Duration(k)*20*time.Millisecond)
	s.opts = append(slices.Clip(opts), redlock.WithRetryCount(-1), redlock.WithRetryBackoff(func(int) time.Duration { return pace }),
		settings.Slot(&s.waits, k).(redlock.Option))

	// A call whose context has ended checks its other arguments first, and sends nothing. No slot's name
	// is longer than the last one's.
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := r.TryLock(ended, s.slots[k-1], ttl, s.opts...); !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("semaphore %q: %w", name, err)
	}
	return s, nil
}

// A Permit is one of the k: a lock on a slot. Unlock gives it back, KeepAlive and Extend make it last
// longer, and Err says whether it is still held. Only a Semaphore makes one.
//
// Wanted is like a lock's ([redlock.Lock.Wanted]), but by lot: a waiter waits for any of the k permits, and not each of
// them should make room. So a permit draws one of k lots when a caller of its process begins to wait, and at each
// extension while anybody waits. About one of k extended permits makes room at a time, until nobody waits any more.
type Permit struct {
	*redlock.Lock

	// Slot is from 0 to k-1. No two permits that are held at the same time have the same one, so it may
	// serve as the number of a worker, of a port or of a shard.
	Slot int

	of permitKey
}

// permitKey is the key of a context's permits of a semaphore.
type permitKey struct {
	r    *redlock.Redlock
	name string
}

// contextPermits are the permits of a semaphore from whose contexts a context is derived, the innermost first.
type contextPermits struct {
	permit *Permit
	outer  *contextPermits
}

// permit returns the permit of a slot that was won. Nobody has it before [Permit.use].
func (s *Semaphore) permit(l *redlock.Lock, slot int) *Permit {
	settings.Unused(l)
	s.won[slot].Store(l)
	return &Permit{l, slot, permitKey{s.r, s.name}}
}

// use is called just before the permit is returned to its caller. The min hold counts from here, not from when another
// goroutine won the slot, which may be some time ago on a busy machine.
func (p *Permit) use() *Permit {
	settings.Use(p.Lock)
	return p
}

// within returns a context from which no second permit is acquired.
func (p *Permit) within(ctx context.Context) context.Context {
	outer, _ := ctx.Value(p.of).(*contextPermits)
	return context.WithValue(ctx, p.of, &contextPermits{p, outer})
}

// KeepAlive extends the permit until it is released, as [redlock.Lock.KeepAlive] does. Acquire and
// TryAcquire of the same semaphore refuse a context that is derived from it, while the permit is held.
func (p *Permit) KeepAlive(ctx context.Context) context.Context {
	return p.within(p.Lock.KeepAlive(ctx))
}

// Do calls fn with the permit, extends it until fn returns, and releases it, as [redlock.Lock.Do] does.
func (p *Permit) Do(ctx context.Context, fn func(ctx context.Context, p *Permit) error) error {
	if ctx == nil || fn == nil {
		return p.Lock.Do(ctx, nil) // It returns the error.
	}
	return p.Lock.Do(p.within(ctx), func(ctx context.Context, _ *redlock.Lock) error { return fn(ctx, p) })
}

// Do acquires a permit and calls fn with it, as [Permit.Do] does: the permit is extended until fn returns,
// fn's context ends when the permit does, and the permit is released in the end.
//
// If fn was not called, the error matches [redlock.ErrNotAcquired]. It is Acquire's error, or says that
// ctx, WithMaxHold or Close ended the hold before fn could begin. Otherwise it is fn's error, which never
// matches ErrNotAcquired, joined with ErrLost or ErrExpired if the permit was lost before its release.
func (s *Semaphore) Do(ctx context.Context, fn func(ctx context.Context, p *Permit) error) error {
	if err := s.refuse(ctx); err != nil {
		return err
	}
	if fn == nil {
		return s.failed(errors.New("nil function"), nil)
	}
	p, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	return p.Do(ctx, fn) // Nobody works under p until fn is called.
}

// Format prints, whatever the verb, the name and how many permits there are, and how many of them this process has.
// It does no I/O. Without it, fmt would print the fields.
func (s *Semaphore) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.text()) }

func (s *Semaphore) text() string {
	if s == nil || s.r == nil {
		return errZero.Error()
	}
	held := 0
	for i := range s.won {
		if l := s.won[i].Load(); l != nil && l.Err() == nil {
			held++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("semaphore %q: %d of %d held in this process, %d waiting", s.name, held, len(s.slots), len(s.line))
}

// giveBack releases a lock that nobody has used, so that the next process in line hears of it.
func giveBack(ctx context.Context, l *redlock.Lock) {
	settings.Unused(l)
	_ = l.Unlock(ctx)
}
