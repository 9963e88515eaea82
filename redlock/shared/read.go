package shared

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/redlock"
)

// A permit is a lock on one slot, which readers of this process share.
type permit struct {
	lock    *redlock.Lock
	kept    context.Context //nolint:containedctx // Of the lock's KeepAlive: it is that of no call.
	readers int             // guarded by the Mutex's mu; the last one releases the lock
}

// join counts one more reader, and reports whether there was another whom it may join. The Mutex's mu is held.
func (p *permit) join() bool {
	if p == nil || p.readers == 0 || p.kept.Err() != nil || p.lock.Err() != nil {
		return false
	}
	p.readers++
	return true
}

// A flight gets a permit for all readers of this process that want one at the same time. It goes on as long as one of them
// waits. The Mutex's mu guards it.
type flight struct {
	ctx     context.Context //nolint:containedctx // Of all of them.
	cancel  context.CancelFunc
	callers int
	done    chan struct{} // closed with permit or err set
	permit  *permit
	err     error
}

// RLock locks the name for reading. It waits, until ctx ends, for a writer that has the name, and for one that waits for
// it and came before.
//
// After success nobody writes until the Reader's Unlock, or until its Context ends: what the readers of a process share is
// extended. After an error nothing is held. Every error matches [redlock.ErrNotAcquired]. It also matches
//
//   - the context's error if ctx ended first, and ErrTaken or ErrNoQuorum, whichever its first attempt saw;
//   - ErrClosed after Close of the Redlock;
//   - ErrAlreadyHeld if ctx comes from the Context, Do or KeepAlive of who reads or writes the name. A second RLock would
//     wait for a writer that came in between, and the writer for the first one.
func (m *Mutex) RLock(ctx context.Context) (*Reader, error) {
	if err := m.refuse(ctx); err != nil {
		return nil, err
	}
	rd, refusal := m.enter(ctx, &m.asking, m.ask)
	if refusal == nil {
		return rd, nil
	}
	rd, err := m.enter(ctx, &m.waiting, m.wait)
	if err != nil && err == ctx.Err() {
		err = fmt.Errorf("%w; at first: %w", err, refusal)
	}
	return rd, m.failed(err)
}

// TryRLock locks the name for reading if nobody writes or waits to write. It takes two round trips at most. Its errors are
// those of RLock without waiting: ErrTaken with 32 processes that have readers, and with fewer it may be, as it tries one
// slot.
func (m *Mutex) TryRLock(ctx context.Context) (*Reader, error) {
	if err := m.refuse(ctx); err != nil {
		return nil, err
	}
	rd, err := m.enter(ctx, &m.asking, m.ask)
	return rd, m.failed(err)
}

// enter has a reader join those that are there, if the last look for writers is not long ago, or else those of the flight
// at the given place: it makes one with get if there is none. Its error is get's or that of ctx.
func (m *Mutex) enter(ctx context.Context, at **flight, get func(context.Context) (*permit, error)) (*Reader, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.looked) < turn && m.permit.join() {
		return newReader(m, m.permit), nil
	}
	f := *at
	if f == nil {
		f = &flight{done: make(chan struct{})}
		f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
		*at = f
		go m.fly(f, at, get)
	}
	f.callers++
	m.mu.Unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	m.mu.Lock()
	if f.permit != nil { // Also if ctx has ended, as from a call of Lock.
		return newReader(m, f.permit), nil
	}
	if f.callers--; f.callers == 0 && *at == f {
		f.cancel()
		*at = nil
	}
	return nil, cmp.Or(f.err, ctx.Err())
}

// fly lets the callers of a flight in with what get gets.
func (m *Mutex) fly(f *flight, at **flight, get func(context.Context) (*permit, error)) {
	defer settings.Enter(m.r)()
	defer f.cancel()
	p, err := get(f.ctx)
	m.mu.Lock()
	f.permit, f.err = p, err
	if *at == f {
		*at = nil
	}
	if p != nil {
		p.readers += f.callers - 1 // get has counted one.
	}
	isUnused := p != nil && p.readers == 0
	close(f.done)
	m.mu.Unlock()
	if isUnused {
		_ = p.lock.Unlock(f.ctx)
	}
}

// ask looks whether a writer is at the turnstile, and tries a slot if none is.
func (m *Mutex) ask(ctx context.Context) (*permit, error) {
	m.mu.Lock()
	looked, now := m.looked, time.Now()
	m.mu.Unlock()
	if now.Sub(looked) >= turn {
		if err := settings.IsFree(ctx, m.r, m.turnstile[0], reading); err != nil {
			return nil, err
		}
		if p := m.saw(now); p != nil { // A writer may have come since then.
			return p, nil
		}
	}
	l, err := m.r.TryLock(ctx, m.slots[rand.N(MaxReaders):][:1], m.ttl, m.opts...)
	return m.open(ctx, l), err
}

// wait stands at the turnstile, and waits there for any slot.
func (m *Mutex) wait(ctx context.Context) (p *permit, err error) {
	err = m.through(ctx, reading, func(at context.Context) error {
		if p = m.saw(time.Now()); p != nil {
			return nil
		}
		slot, err := m.permits.Acquire(at)
		if err == nil {
			p = m.open(ctx, slot.Lock)
		}
		return err
	})
	return p, err
}

// saw notes that no writer was at the turnstile then, and joins the permit that is there. nil: there is none.
func (m *Mutex) saw(at time.Time) *permit {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.After(m.looked) {
		m.looked = at
	}
	if !m.permit.join() {
		return nil
	}
	return m.permit
}

// open returns the permit of a lock, with one reader; nil if there is none.
func (m *Mutex) open(ctx context.Context, l *redlock.Lock) *permit {
	if l == nil {
		return nil
	}
	settings.Unused(l)
	p := &permit{l, l.KeepAlive(context.WithoutCancel(ctx)), 1}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.permit = p
	return p
}
