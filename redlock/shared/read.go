package shared

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/redlock"
)

// A permit is a lock on a slot, which readers of this process share.
type permit struct {
	lock    *redlock.Lock
	kept    context.Context //nolint:containedctx // Of the lock's KeepAlive: it is that of no call.
	readers int             // guarded by the Mutex's mu
}

// isOpen reports whether the permit is held and extended, so that readers may join. The Mutex's mu is held.
func (p *permit) isOpen() bool {
	return p != nil && p.readers > 0 && p.kept.Err() == nil && p.lock.Err() == nil
}

// An entry is the way in of all readers of this process that wait at the same time: one of them would do, and all get in.
type entry struct {
	cancel  context.CancelFunc // of its way
	readers int                // that wait for it; guarded by the Mutex's mu, as is last
	last    error              // why it has not succeeded yet
	done    chan struct{}      // closed once what follows is set
	permit  *permit
	err     error
}

// RLock locks the name for reading. It waits, until ctx ends, for a writer that has the name, and for one that waits for
// it and came before.
//
// After success nobody writes until the Reader's Unlock, or until its Context ends: what the readers of a process share is
// extended as long as one of them is in. After an error nothing is held. Every error matches [redlock.ErrNotAcquired].
// It also matches
//
//   - the context's error if ctx ended first, and ErrTaken or ErrNoQuorum, whichever was seen last;
//   - ErrClosed after Close of the Redlock;
//   - ErrAlreadyHeld if ctx is derived from the context of a Reader or Writer of this name that is held. A second RLock
//     would wait for a writer that came in between, and the writer for the first one.
func (m *Mutex) RLock(ctx context.Context) (*Reader, error) {
	if err := m.refuse(ctx); err != nil {
		return nil, err
	}
	rd, err := m.enter(ctx, &m.asking, nil)
	if err == nil || ctx.Err() != nil || errors.Is(err, redlock.ErrClosed) {
		return rd, err
	}
	return m.enter(ctx, &m.inLine, err)
}

// TryRLock locks the name for reading if nobody writes or waits to write. It takes two round trips at most.
//
// Every error matches [redlock.ErrNotAcquired], and ErrTaken, ErrNoQuorum or ErrClosed. With 32 processes that have
// readers it is ErrTaken, and with fewer it may be: it tries one slot. It matches ErrAlreadyHeld as the error of RLock does.
func (m *Mutex) TryRLock(ctx context.Context) (*Reader, error) {
	if err := m.refuse(ctx); err != nil {
		return nil, err
	}
	return m.enter(ctx, &m.asking, nil)
}

var errWriter = fmt.Errorf("%w: a writer waits, and has come before", redlock.ErrTaken)

// enter gets a reader in: by what readers of this process have, if the last look for a writer is not long ago; or by the
// entry at, asking or inLine, that others wait for already, or a new one. last is what was seen before.
func (m *Mutex) enter(ctx context.Context, at **entry, last error) (*Reader, error) {
	m.mu.Lock()
	if p := m.current; p.isOpen() && m.writers == 0 && time.Since(m.looked) < turn {
		p.readers++
		m.mu.Unlock()
		return newReader(m, p), nil
	}
	if at == &m.asking && (m.writers > 0 || m.inLine != nil) {
		m.mu.Unlock()
		return nil, m.failed(errWriter, nil)
	}
	e := *at
	if e == nil {
		e = m.begin(at, last)
	}
	e.readers++
	m.mu.Unlock()
	select {
	case <-e.done:
	case <-ctx.Done():
		if left, last := m.leave(at, e); left {
			return nil, m.failed(ctx.Err(), last)
		}
	}
	if e.err != nil {
		return nil, e.err
	}
	return newReader(m, e.permit), nil
}

// begin begins an entry, which goes on until it succeeds or nobody waits for it. m.mu is held.
func (m *Mutex) begin(at **entry, last error) *entry {
	ctx, cancel := context.WithCancel(context.Background())
	e := &entry{cancel: cancel, done: make(chan struct{}), last: last}
	*at = e
	way := m.ask
	if at == &m.inLine {
		way = m.wait
	}
	go func() {
		defer settings.Enter(m.of.r)()
		defer cancel()
		l, err := way(ctx, e)
		m.settle(ctx, at, e, l, err)
	}()
	return e
}

// leave takes a reader out of an entry that has not come to its end, and returns why it has not.
func (m *Mutex) leave(at **entry, e *entry) (left bool, last error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-e.done: // It gets what was won for it, as a call of Lock would.
		return false, nil
	default:
	}
	if e.readers--; e.readers == 0 {
		e.cancel()
		if *at == e {
			*at = nil
		}
	}
	return true, e.last
}

// ask looks whether a writer waits, and tries a slot if none does. If there is a permit, it returns none.
func (m *Mutex) ask(ctx context.Context, e *entry) (*redlock.Lock, error) {
	m.mu.Lock()
	fresh := time.Since(m.looked) < turn
	m.mu.Unlock()
	if began := time.Now(); !fresh { // A writer may have come since then, but not before.
		if err := settings.IsFree(ctx, m.of.r, m.turnstile[0], reading); err != nil {
			return nil, err
		}
		m.note(began)
	}
	if m.join(&m.asking, e) {
		return nil, nil
	}
	return m.of.r.TryLock(ctx, m.slots[rand.N(MaxReaders):][:1], m.ttl, m.opts...)
}

// wait has the readers stand at the turnstile, and waits for a slot when it is their turn. If there is a permit by then, it
// returns none.
func (m *Mutex) wait(ctx context.Context, e *entry) (*redlock.Lock, error) {
	for {
		turnstile, err := m.stand(ctx, reading, redlock.WithRetryIf(func(err error) bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			e.last = err
			return true
		}))
		if err != nil {
			return nil, err
		}
		m.note(time.Now())
		at := turnstile.KeepAlive(ctx)
		if m.join(&m.inLine, e) {
			m.pass(ctx, turnstile)
			return nil, nil
		}
		p, err := m.permits.Acquire(at)
		over := err == nil || isOver(ctx, at, err)
		if turnstile.Err() == nil { // So no writer waits there, yet.
			m.note(time.Now())
		}
		m.pass(ctx, turnstile)
		switch {
		case err == nil:
			return p.Lock, nil
		case over:
			return nil, err
		}
	}
}

// note notes a moment at which no writer had the turnstile.
func (m *Mutex) note(looked time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if looked.After(m.looked) {
		m.looked = looked
	}
}

// join lets the readers of an entry in with those that are there, and reports whether there are any.
func (m *Mutex) join(at **entry, e *entry) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.current.isOpen() {
		return false
	}
	m.end(at, e, m.current, nil)
	return true
}

// settle ends an entry that was not let in otherwise. A lock that nobody waits for any more is given back.
func (m *Mutex) settle(ctx context.Context, at **entry, e *entry, l *redlock.Lock, err error) {
	if l == nil && err == nil {
		return // It has joined.
	}
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.end(at, e, nil, m.failed(err, nil))
		return
	}
	p := &permit{lock: l, kept: l.KeepAlive(context.WithoutCancel(ctx))}
	m.mu.Lock()
	m.end(at, e, p, nil)
	unused := p.readers == 0
	if !unused {
		m.current = p
	}
	m.mu.Unlock()
	if unused {
		settings.Unused(l)
		_ = l.Unlock(ctx)
	}
}

// end has those that wait for an entry return. m.mu is held.
func (m *Mutex) end(at **entry, e *entry, p *permit, err error) {
	if *at == e {
		*at = nil
	}
	if p != nil {
		p.readers += e.readers
	}
	e.permit, e.err = p, err
	close(e.done)
}
