package shared

import (
	"context"
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

// An entry is the way in of all readers of this process that come at the same time: one of them would do, and all get in.
type entry struct {
	cancel context.CancelFunc
	asked  chan struct{} // closed once it was refused, and goes to the turnstile
	done   chan struct{} // closed at its end

	// Guarded by the Mutex's mu; those from refusal on are not changed once asked, or done, is closed.
	readers int // that wait for it
	patient int // of them, who wait after a refusal, too
	refusal error
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
//   - the context's error if ctx ended first, and ErrTaken or ErrNoQuorum, whichever the first attempt saw;
//   - ErrClosed after Close of the Redlock;
//   - ErrAlreadyHeld if ctx is derived from the context of a Reader or Writer of this name that is held. A second RLock
//     would wait for a writer that came in between, and the writer for the first one.
func (m *Mutex) RLock(ctx context.Context) (*Reader, error) {
	if err := m.refuse(ctx, true); err != nil {
		return nil, err
	}
	return m.enter(ctx, true)
}

// TryRLock locks the name for reading if nobody writes or waits to write. It takes two round trips at most.
//
// Every error matches [redlock.ErrNotAcquired], and ErrTaken, ErrNoQuorum, ErrClosed or the context's error. With 32
// processes that have readers it is ErrTaken, and with fewer it may be: it tries one slot. It matches ErrAlreadyHeld as the
// error of RLock does.
func (m *Mutex) TryRLock(ctx context.Context) (*Reader, error) {
	if err := m.refuse(ctx, true); err != nil {
		return nil, err
	}
	return m.enter(ctx, false)
}

// enter gets a reader in: by what readers of this process have, if the last look for a writer is not long ago, or by
// an entry. One that is patient waits for its turn.
func (m *Mutex) enter(ctx context.Context, patient bool) (*Reader, error) {
	m.mu.Lock()
	if p := m.current; p.isOpen() && m.writers.Load() == 0 && time.Since(m.looked) < turn {
		p.readers++
		m.mu.Unlock()
		return newReader(m, p), nil
	}
	e := m.entry
	if e == nil {
		e = m.begin() //nolint:contextcheck // It goes on for others, too.
	}
	e.readers++
	asked := e.asked
	if patient {
		e.patient++
		asked = nil
	}
	m.mu.Unlock()
	select {
	case <-e.done:
	case <-asked:
	case <-ctx.Done():
	}
	if left, refusal := m.leave(e, patient); left {
		if ctx.Err() != nil {
			return nil, m.failed(ctx.Err(), refusal)
		}
		return nil, m.failed(refusal, nil)
	}
	if e.err != nil {
		return nil, e.err
	}
	return newReader(m, e.permit), nil
}

// begin begins an entry, which goes on until it succeeds or nobody waits for it. m.mu is held.
func (m *Mutex) begin() *entry {
	ctx, cancel := context.WithCancel(context.Background())
	e := &entry{cancel: cancel, asked: make(chan struct{}), done: make(chan struct{})}
	m.entry = e
	go func() {
		defer settings.Enter(m.of.r)()
		defer cancel()
		l, err := m.ask(ctx, e)
		if err != nil && m.refused(e, err) {
			l, err = m.wait(ctx, e)
		}
		m.settle(ctx, e, l, err)
	}()
	return e
}

// leave takes a reader out of an entry, unless that has come to its end: then it gets what was won for it, as a call of
// Lock would.
func (m *Mutex) leave(e *entry, patient bool) (left bool, refusal error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.isOver() {
		return false, nil
	}
	if patient {
		e.patient--
	}
	if e.readers--; e.readers == 0 {
		e.cancel()
		m.entry = nil
	}
	return true, e.refusal
}

func (e *entry) isOver() bool { return e.permit != nil || e.err != nil }

// ask looks whether a writer waits, and tries a slot if none does. If there is a permit, it returns none.
func (m *Mutex) ask(ctx context.Context, e *entry) (*redlock.Lock, error) {
	m.mu.Lock()
	looked, began := m.looked, time.Now()
	m.mu.Unlock()
	if m.writers.Load() > 0 {
		return nil, fmt.Errorf("%w: a writer of this process waits", redlock.ErrTaken)
	}
	if began.Sub(looked) >= turn {
		if err := settings.IsFree(ctx, m.of.r, m.turnstile[0], reading); err != nil {
			return nil, err
		}
		looked = began // A writer may have come since then, but not before.
	}
	if m.join(e, looked) {
		return nil, nil
	}
	return m.of.r.TryLock(ctx, m.slots[rand.N(MaxReaders):][:1], m.ttl, m.opts...)
}

// refused tells those that are not patient that they are refused, and reports whether anybody waits on.
func (m *Mutex) refused(e *entry, why error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.refusal = why
	if e.patient == 0 {
		m.end(e, nil, why)
		return false
	}
	close(e.asked)
	return true
}

// wait stands at the turnstile, and waits there for a slot when it is its turn. If there is a permit by then, it returns
// none.
func (m *Mutex) wait(ctx context.Context, e *entry) (l *redlock.Lock, err error) {
	err = m.through(ctx, reading, func(at context.Context) error {
		if m.join(e, time.Now()) {
			return nil
		}
		p, no := m.permits.Acquire(at)
		if no != nil {
			return no
		}
		l = p.Lock
		return nil
	})
	return l, err
}

// join notes a moment at which no writer had the turnstile. It lets the readers of an entry in with those that are there,
// and reports whether there are any.
func (m *Mutex) join(e *entry, looked time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if looked.After(m.looked) {
		m.looked = looked
	}
	if !m.current.isOpen() {
		return false
	}
	m.end(e, m.current, nil)
	return true
}

// settle ends an entry that has not ended yet. A lock that nobody waits for any more is given back.
func (m *Mutex) settle(ctx context.Context, e *entry, l *redlock.Lock, err error) {
	var p *permit
	if l != nil {
		p = &permit{lock: l, kept: l.KeepAlive(context.WithoutCancel(ctx))}
	}
	m.mu.Lock()
	if !e.isOver() {
		m.end(e, p, err)
	}
	unused := p != nil && p.readers == 0
	if p != nil && !unused {
		m.current = p
	}
	m.mu.Unlock()
	if unused {
		settings.Unused(l)
		_ = l.Unlock(ctx)
	}
}

// end has those that wait for an entry return, with a permit or because of an error. m.mu is held.
func (m *Mutex) end(e *entry, p *permit, why error) {
	if e.permit = p; p != nil {
		p.readers += e.readers
	} else {
		e.err = m.failed(why, nil)
	}
	if m.entry == e { // If all have left, there may be a new one.
		m.entry = nil
	}
	close(e.done)
}
