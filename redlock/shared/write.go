package shared

import (
	"context"
	"errors"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// Lock locks the name for writing. It waits, until ctx ends, for whoever came before, in about the order of arrival, and
// for the readers that are there.
//
// After success nobody else reads or writes until the lock's Until, unless it is extended or released before: it is a lock
// on all slots. After an error nothing is held. Every error matches [redlock.ErrNotAcquired]. It also matches
//
//   - the context's error if ctx ended first, and ErrTaken or ErrNoQuorum, whichever its last attempt saw;
//   - ErrClosed after Close of the Redlock;
//   - ErrAlreadyHeld if ctx comes from the Context, Do or KeepAlive of who reads or writes the name: there is no upgrade.
//     Two readers who both wait for the other one to go would wait for ever.
func (m *Mutex) Lock(ctx context.Context) (l *redlock.Lock, err error) {
	if err := m.refuse(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.looked = time.Time{} // Nobody joins the readers of this process any more who does not see the writer.
	m.mu.Unlock()
	err = m.through(ctx, writing, func(at context.Context) (err error) {
		l, err = m.r.Lock(at, m.slots, m.ttl, m.patient...)
		return err
	})
	return l, m.failed(err)
}

// TryLock locks the name for writing if nobody reads or writes. It takes one round trip, and waits for nobody, nor for
// its turn. Its errors are those of Lock without waiting: ErrTaken if anybody has one of the slots.
func (m *Mutex) TryLock(ctx context.Context) (*redlock.Lock, error) {
	if err := m.refuse(ctx); err != nil {
		return nil, err
	}
	l, err := m.r.TryLock(ctx, m.slots, m.ttl, m.opts...)
	return l, m.failed(err)
}

// Do locks the name for writing as Lock does, and calls fn under the lock as [redlock.Lock.Do] does. The error matches
// [redlock.ErrNotAcquired] if and only if fn was not called.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, l *redlock.Lock) error) error {
	if fn == nil {
		return m.failed(errors.New("nil function"))
	}
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return l.Do(ctx, fn)
}
