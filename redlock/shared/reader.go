package shared

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/redlock"
)

// A Reader is one who reads: nobody writes as long as it is held. The readers of a process share one lock, which is
// extended until the last of them unlocks, by [redlock.Lock.KeepAlive]. A Reader is safe for concurrent use. Only a Mutex
// makes one.
type Reader struct {
	m      *Mutex
	p      *permit
	ended  context.Context //nolint:containedctx // It ends with the reader, and is that of no call.
	cancel context.CancelCauseFunc

	// Guarded by m.mu.
	released bool
	last     bool  // it was the last one, and has released the permit
	lost     error // how the permit had ended when it was released, nil if it had not
}

func newReader(m *Mutex, p *permit) *Reader {
	rd := &Reader{m: m, p: p}
	rd.ended, rd.cancel = context.WithCancelCause(p.kept)
	return rd
}

// Until returns when the reader ends unless what it shares is extended, as it is, or released. See [redlock.Lock.Until].
func (rd *Reader) Until() time.Time { return rd.p.lock.Until() }

// Err returns nil while the reader is held; [redlock.ErrExpired] or [redlock.ErrLost] once what it shares has ended, as
// [redlock.Lock.Err] says; ErrLost after Unlock. It does no I/O. A nil may be out of date when Err returns it.
func (rd *Reader) Err() error {
	rd.m.mu.Lock()
	released := rd.released
	rd.m.mu.Unlock()
	if released {
		return redlock.ErrLost
	}
	return rd.p.lock.Err()
}

// Fence returns a number, with [redlock.WithFencing]: smaller than the fences of writers that come later, and larger than
// those of writers that have been there. So a resource can refuse what was read before a write. Readers may have
// the same, or any order among them. Without the option it is 0.
func (rd *Reader) Fence() int64 { return rd.p.lock.Fence() }

// Context returns a context derived from ctx that ends when the reader does. The cause of its end says why, as that of
// [redlock.Lock.KeepAlive]: it ends at Until at the latest if no extension succeeds, and is context.Canceled after Unlock.
// Lock and RLock of the same name refuse it while the reader is held. It panics if ctx is nil.
func (rd *Reader) Context(ctx context.Context) context.Context {
	within, cancel := context.WithCancelCause(rd.m.of.within(ctx, rd))
	if rd.ended.Err() != nil {
		cancel(context.Cause(rd.ended))
		return within
	}
	stop := context.AfterFunc(rd.ended, func() { cancel(context.Cause(rd.ended)) })
	context.AfterFunc(within, func() { stop() })
	return within
}

// Unlock ends the reader. The last of a process releases what they shared, which takes a round trip; others take none.
//
// nil means that it was held by this handle's clocks when the call began and, of the last one, that a quorum confirmed the
// release. Repeated after success it is nil. The error matches ErrExpired or ErrLost if the reader was over before, and
// ErrNoQuorum if the release could not be confirmed; it goes on in the background. It ignores the end of ctx.
func (rd *Reader) Unlock(ctx context.Context) error {
	m, p := rd.m, rd.p
	m.mu.Lock()
	if !rd.released {
		rd.released, rd.lost = true, p.lock.Err()
		p.readers--
		rd.last = p.readers == 0 // From here on nobody joins it.
	}
	last, lost := rd.last, rd.lost
	m.mu.Unlock()
	rd.cancel(context.Canceled)
	if last {
		return p.lock.Unlock(ctx)
	}
	if lost != nil {
		return fmt.Errorf("shared %q: %w", m.of.name, lost)
	}
	return nil
}

// Do calls fn with the reader and a context that ends when the reader does, and unlocks it, also if fn panics. fn runs on
// the caller's goroutine.
//
// If fn was not called, the error matches [redlock.ErrNotAcquired], though there was a reader: it had ended, or ctx had. It
// is unlocked all the same, but if an argument is nil. If fn was called, Do returns its error, which never matches
// ErrNotAcquired. ErrLost or ErrExpired is joined to it if the reader was lost before its release, even if fn succeeded:
// somebody may have written meanwhile. If fn fails after its context has ended because of WithStopTime, WithMaxHold or
// Close, the error matches ErrStopTime, ErrMaxHold or ErrClosed, too.
func (rd *Reader) Do(ctx context.Context, fn func(ctx context.Context, rd *Reader) error) (err error) {
	if ctx == nil || fn == nil {
		return rd.m.failed(errors.New("nil context or function"), nil)
	}
	defer settings.Enter(rd.m.of.r)() // Close waits for the function.
	within := rd.Context(ctx)
	defer func() {
		why := context.Cause(rd.ended) //nolint:contextcheck // It says whether the reader has ended, not its caller.
		if lost := rd.Unlock(ctx); errors.Is(lost, redlock.ErrLost) {
			err = errors.Join(err, lost)
		}
		if err != nil && why != nil && !errors.Is(why, context.Canceled) && !errors.Is(err, why) {
			err = errors.Join(err, why)
		}
	}()
	if within.Err() != nil {
		return rd.m.failed(context.Cause(within), nil)
	}
	err = fn(within, rd)
	if errors.Is(err, redlock.ErrNotAcquired) {
		err = workError{err}
	}
	return err
}

// RDo locks the name for reading and calls fn, as [Reader.Do] does: fn's context ends when the reader does, and it is
// unlocked in the end.
//
// If fn was not called, the error is RLock's, or that of [Reader.Do], and matches [redlock.ErrNotAcquired].
func (m *Mutex) RDo(ctx context.Context, fn func(ctx context.Context, rd *Reader) error) error {
	if err := m.refuse(ctx, fn != nil); err != nil {
		return err
	}
	rd, err := m.enter(ctx, true)
	if err != nil {
		return err
	}
	return rd.Do(ctx, fn)
}

// Format prints, whatever the verb, the name and how the reader is. Without it, fmt would print the fields.
func (rd *Reader) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "shared %q: reader, error: %v", rd.m.of.name, rd.Err())
}
