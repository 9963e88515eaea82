package shared

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/redlock"
)

// A Reader is one who reads: nobody writes as long as it is held. The readers of a process share one lock, which
// [redlock.Lock.KeepAlive] extends until the last of them unlocks. It is safe for concurrent use. Only a Mutex makes one.
type Reader struct {
	m      *Mutex
	permit *permit
	ended  context.Context //nolint:containedctx // It ends with the reader, and is that of no call.
	cancel context.CancelCauseFunc

	// Guarded by m.mu, and not changed once released.
	released, last bool
	loss           error // how the permit had ended before
}

// newReader returns one that p has counted.
func newReader(m *Mutex, p *permit) *Reader {
	settings.Use(p.lock)
	rd := &Reader{m: m, permit: p}
	rd.ended, rd.cancel = context.WithCancelCause(p.kept)
	return rd
}

// Until returns when the reader ends unless what it shares is extended, as it is, or released. See [redlock.Lock.Until].
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

// Fence returns a number, with [redlock.WithFencing]: smaller than the fences of writers that come later, and larger than
// those of writers that have been there. So a resource can refuse what was read before a write. Readers may have
// the same, or any order among them. Without the option it is 0.
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

// Unlock ends the reader. The last of a process releases what they shared, which takes a round trip; others take none.
//
// nil means that it was held by this handle's clocks when the call began and, of the last one, that a quorum confirmed the
// release. Repeated after success it is nil. The error matches ErrExpired or ErrLost if the reader was over before, and
// ErrNoQuorum if the release could not be confirmed; it goes on in the background. It ignores the end of ctx.
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

// RDo locks the name for reading as RLock does, and calls fn with the reader and its Context. It unlocks in the end, also
// if fn panics. fn runs on the caller's goroutine.
//
// The error matches [redlock.ErrNotAcquired] if and only if fn was not called. Otherwise it is fn's, joined with how the
// reader had ended before that: ErrLost or ErrExpired, even if fn succeeded; or, if it failed, ErrStopTime, ErrMaxHold or
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
		return workError{err}
	}
	return err
}

// A workError is fn's, and matches ErrNotAcquired, as it comes from another lock.
type workError struct{ error }

func (e workError) Is(target error) bool {
	return target != redlock.ErrNotAcquired && errors.Is(e.error, target)
}

func (e workError) As(target any) bool { return errors.As(e.error, target) }

// Format prints, whatever the verb, the name and how the reader is. Without it, fmt would print the fields.
func (rd *Reader) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%v: reader, error: %v", rd.m, rd.Err())
}
