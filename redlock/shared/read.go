package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/redlock"
)

// A permit is a lock on one slot, which readers of this process share.
type permit struct {
	lock    *redlock.Lock
	kept    context.Context //nolint:containedctx // It is of the lock's KeepAlive, not of a call.
	readers int             // guarded by the Mutex's mu; the last one releases the lock
}

// join counts one more reader if the permit can be joined, and reports whether it can. The Mutex's mu is held.
func (p *permit) join() bool {
	if p == nil || p.readers == 0 || p.kept.Err() != nil || p.lock.Err() != nil {
		return false
	}
	p.readers++
	return true
}

// A flight gets a permit for all readers of this process that want one at the same time, as long as one of them waits. The
// Mutex's mu guards it.
type flight struct {
	ctx     context.Context //nolint:containedctx // Of all of them.
	cancel  context.CancelFunc
	callers int
	done    chan struct{} // closed with permit or err set
	permit  *permit
	err     error
}

// RLock locks the name for reading. It waits, until ctx ends, for a writer that has the name, and for one that came
// before. Nobody writes until the Reader's Unlock, or until its Context ends: the lock that the readers of a process
// share is extended. After an error nothing is held. Its errors are like Lock's, including ErrAlreadyHeld: a second
// RLock would wait for a writer that came in between, and the writer for the first one.
func (m *Mutex) RLock(ctx context.Context) (*Reader, error) {
	if err := m.refuse(ctx); err != nil {
		return nil, err
	}
	rd, refusal := m.enter(ctx, &m.asking, m.ask)
	if refusal == nil {
		return rd, nil
	}
	rd, err := m.enter(ctx, &m.waiting, m.wait)
	if err != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w; at first: %w", err, refusal)
	}
	return rd, m.failed(err)
}

// TryRLock locks the name for reading if nobody writes or waits to write. It takes two round trips at most. Its errors are
// as RLock's. It tries one slot, so with many processes that have readers it may be ErrTaken; with 32 it is.
func (m *Mutex) TryRLock(ctx context.Context) (*Reader, error) {
	if err := m.refuse(ctx); err != nil {
		return nil, err
	}
	rd, err := m.enter(ctx, &m.asking, m.ask)
	return rd, m.failed(err)
}

// enter lets a reader join others if the last look for writers is recent. Otherwise the reader joins the flight at that
// place, and begins one if there is none. The error is get's or that of ctx.
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
	if f.permit != nil { // Even if ctx has ended, as in a call of Lock.
		return newReader(m, f.permit), nil
	}
	if f.callers--; f.callers == 0 && *at == f {
		f.cancel()
		*at = nil
	}
	return nil, cmp.Or(f.err, ctx.Err())
}

// fly calls get, and lets the callers of a flight in with its permit.
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

// ask looks whether a writer is at the turnstile, and tries a slot if there is none.
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
	if err != nil {
		return nil, err
	}
	return m.open(ctx, l), nil
}

// wait stands at the turnstile, and waits there for any slot.
func (m *Mutex) wait(ctx context.Context) (p *permit, err error) {
	err = m.through(ctx, reading, func(at context.Context) error {
		if p = m.saw(time.Now()); p != nil {
			return nil
		}
		slot, no := m.permits.Acquire(at)
		if no == nil {
			p = m.open(ctx, slot.Lock)
		}
		return no
	})
	return p, err
}

// saw notes that no writer was at the turnstile then, and joins the current permit. nil: there is none.
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

// open makes a lock the permit that readers join, and counts one reader.
func (m *Mutex) open(ctx context.Context, l *redlock.Lock) *permit {
	settings.Unused(l)
	p := &permit{l, l.KeepAlive(context.WithoutCancel(ctx)), 1}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.permit = p
	return p
}

// A Reader is a lock for reading: nobody writes as long as it is held. The readers of a process share one lock, which
// [redlock.Lock.KeepAlive] extends until the last of them unlocks. It is safe for concurrent use. Only a Mutex makes
// one.
type Reader struct {
	m              *Mutex
	permit         *permit
	ended          context.Context //nolint:containedctx // It ends with the reader, and is that of no call.
	cancel         context.CancelCauseFunc
	released, last bool  // m.mu guards both; constant once released
	loss           error // how the permit had ended before the release; likewise
}

func newReader(m *Mutex, p *permit) *Reader {
	settings.Use(p.lock)
	rd := &Reader{m: m, permit: p}
	rd.ended, rd.cancel = context.WithCancelCause(p.kept)
	return rd
}

// Until returns when the reader ends, unless the shared lock is extended, as it regularly is, or released. See
// [redlock.Lock.Until].
func (rd *Reader) Until() time.Time { return rd.permit.lock.Until() }

// Err returns nil while the reader is held, ErrLost after Unlock, and otherwise what [redlock.Lock.Err] says of the lock.
func (rd *Reader) Err() error {
	rd.m.mu.Lock()
	defer rd.m.mu.Unlock()
	if rd.released {
		return redlock.ErrLost
	}
	return rd.permit.lock.Err()
}

// Fence returns, with [redlock.WithFencing], a number above the fences of earlier writers and below those of later
// ones, so that a resource can refuse data that was read before a write. Fences of readers are in no order. Without the
// option it is 0.
func (rd *Reader) Fence() int64 { return rd.permit.lock.Fence() }

// Context returns a context derived from ctx that ends when the reader does, at Until at the latest. The cause of its end
// says why, as that of [redlock.Lock.KeepAlive]; it is context.Canceled after Unlock. It panics if ctx is nil.
func (rd *Reader) Context(ctx context.Context) context.Context {
	within, cancel := context.WithCancelCause(context.WithValue(ctx, rd.m.key, rd))
	end := func() { cancel(context.Cause(rd.ended)) }
	if rd.ended.Err() != nil {
		end()
	}
	stop := context.AfterFunc(rd.ended, end)
	context.AfterFunc(within, func() { stop() })
	return within
}

// Unlock ends the reader. The last of a process releases what they share as [redlock.Lock.Unlock] does, and returns its
// result. Others do no I/O: nil means that the reader was held by this handle's clocks when the call began, and the error
// is ErrExpired or ErrLost if not. Repeated after success it is nil.
func (rd *Reader) Unlock(ctx context.Context) error {
	rd.m.mu.Lock()
	if !rd.released {
		rd.permit.readers--
		rd.released, rd.last, rd.loss = true, rd.permit.readers == 0, rd.permit.lock.Err()
	}
	rd.m.mu.Unlock()
	rd.cancel(context.Canceled)
	if rd.last {
		return rd.permit.lock.Unlock(ctx)
	}
	return rd.loss
}

// RDo locks the name for reading as RLock does, and calls fn with the reader and its Context. It unlocks in the end,
// even if fn panics. The error matches [redlock.ErrNotAcquired] if and only if fn was not called. Otherwise it is fn's,
// joined with how the reader had ended before: ErrLost or ErrExpired, and, if fn failed, ErrStopTime, ErrMaxHold or
// ErrClosed.
func (m *Mutex) RDo(ctx context.Context, fn func(ctx context.Context, rd *Reader) error) (err error) {
	if fn == nil {
		return m.failed(errors.New("nil function"))
	}
	rd, err := m.RLock(ctx)
	if err != nil {
		return err
	}
	defer settings.Enter(m.r)() // Close waits for the function.
	defer func() {
		why := context.Cause(rd.ended) //nolint:contextcheck // It says whether the reader has ended, not its caller.
		if loss := rd.Unlock(ctx); errors.Is(loss, redlock.ErrLost) {
			err = errors.Join(err, loss)
		}
		if err != nil && why != nil && !errors.Is(why, context.Canceled) && !errors.Is(err, why) {
			err = errors.Join(err, why)
		}
	}()
	within := rd.Context(ctx)
	if within.Err() != nil {
		return m.failed(context.Cause(within))
	}
	if err = fn(within, rd); errors.Is(err, redlock.ErrNotAcquired) {
		return settings.FnError(err)
	}
	return err
}

// Format prints, whatever the verb, the name and how the reader is. Without it, fmt would print the fields.
func (rd *Reader) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%v: reader, error: %v", rd.m, rd.Err())
}
