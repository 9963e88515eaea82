package shared

import (
	"context"

	"github.com/seed6c881748/redlock/redlock"
)

// A Writer is an exclusive lock: nobody else reads or writes. It is a lock on all slots, and has all that a lock has:
// Until, Err, KeepAlive, Extend, Fence, Unlock. Only a Mutex makes one.
type Writer struct {
	*redlock.Lock

	of contextKey
}

// KeepAlive extends the lock until it is released, as [redlock.Lock.KeepAlive] does. Lock and RLock of the same name
// refuse a context that is derived from it, while the lock is held.
func (w *Writer) KeepAlive(ctx context.Context) context.Context {
	return w.of.within(w.Lock.KeepAlive(ctx), w)
}

// Do calls fn with the lock, extends it until fn returns, and releases it, as [redlock.Lock.Do] does.
func (w *Writer) Do(ctx context.Context, fn func(ctx context.Context, w *Writer) error) error {
	if ctx == nil || fn == nil {
		return w.Lock.Do(ctx, nil) // Which says so.
	}
	return w.Lock.Do(w.of.within(ctx, w), func(ctx context.Context, _ *redlock.Lock) error { return fn(ctx, w) })
}

// Lock locks the name for writing. It waits, until ctx ends, for whoever came before, in about the order of arrival,
// and for the readers that are there. From when it is next, no reader comes in any more but those that come within
// 10 ms (see the package documentation).
//
// After success nobody else reads or writes until the Writer's Until, unless it is extended or released before. After an
// error nothing is held. Every error matches [redlock.ErrNotAcquired]. It also matches
//
//   - the context's error if ctx ended first, and ErrTaken or ErrNoQuorum, whichever its last attempt saw;
//   - ErrClosed after Close of the Redlock;
//   - ErrAlreadyHeld if ctx is derived from the context of a Reader or Writer of this name that is held: there is no
//     upgrade. Two readers who both wait for the other one to go would wait for ever.
func (m *Mutex) Lock(ctx context.Context) (*Writer, error) { return m.lock(ctx, true) }

func (m *Mutex) lock(ctx context.Context, hasWork bool) (*Writer, error) {
	if err := m.refuse(ctx, hasWork); err != nil {
		return nil, err
	}
	m.writers.Add(1)
	defer m.writers.Add(-1) // Not before it has the slots, or readers of this process would go on joining.
	w := &Writer{of: m.of}
	err := m.through(ctx, writing, func(at context.Context) (err error) {
		w.Lock, err = m.of.r.Lock(at, m.slots, m.ttl, m.waits...)
		return err
	})
	if err != nil {
		return nil, m.failed(err, nil)
	}
	return w, nil
}

// TryLock locks the name for writing if nobody reads or writes. It takes one round trip, and waits for nobody, nor for its
// turn.
//
// Every error matches [redlock.ErrNotAcquired], and is as that of [redlock.Redlock.TryLock]: it matches ErrTaken if anybody
// has one of the slots. It matches ErrAlreadyHeld as the error of Lock does.
func (m *Mutex) TryLock(ctx context.Context) (*Writer, error) {
	if err := m.refuse(ctx, true); err != nil {
		return nil, err
	}
	l, err := m.of.r.TryLock(ctx, m.slots, m.ttl, m.opts...)
	if err != nil {
		return nil, m.failed(err, nil)
	}
	return &Writer{l, m.of}, nil
}

// Do locks the name for writing and calls fn, as [Writer.Do] does: the lock is extended until fn returns, fn's context ends
// when the lock does, and the lock is released in the end.
//
// If fn was not called, the error matches [redlock.ErrNotAcquired]. It is Lock's error, or says that ctx, WithMaxHold or
// Close ended the hold before fn could begin. Otherwise it is fn's error, which never matches ErrNotAcquired, joined
// with ErrLost or ErrExpired if the lock was lost before its release.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, w *Writer) error) error {
	w, err := m.lock(ctx, fn != nil)
	if err != nil {
		return err
	}
	return w.Do(ctx, fn)
}
