package redsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/stored"
)

// A Mutex is a distributed mutual exclusion lock. It can be locked again after Unlock, and after its lock has ended.
//
// Its methods may be called from several goroutines. But it has one lock at a time: after that has ended, and another
// goroutine has locked the mutex again, an Unlock of the first one releases the lock of the second. So give each
// goroutine a mutex of its own, as with redsync.
type Mutex struct {
	rs        *Redsync
	resources [1]string // its name
	set       *settings // its own, unless they are the defaults

	mu       sync.Mutex
	held     *holding // nil: none, or it was unlocked
	value    string
	until    time.Time
	handed   bool // value is that of WithValue
	unlocked bool // Unlock was called after the last Lock
}

// Name returns the name that was given to NewMutex.
func (m *Mutex) Name() string { return m.resources[0] }

// Value returns what [WithGenValueFunc] has returned for the lock, or else its [Mutex.Token]. It is empty until the mutex is
// locked, unless [WithValue] was given, and is kept after Unlock.
func (m *Mutex) Value() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.value
}

// Token returns the token of the lock, which the key has on the nodes and with which another process can unlock the mutex;
// see [WithValue]. It is a secret: whoever has it can do so. It is empty while the mutex is not locked. redsync has no such
// method: there, it is what Value returns.
func (m *Mutex) Token() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		return ""
	}
	return m.held.lock.Token()
}

// Until returns when the lock ends unless it is extended: expiry less the drift allowance after the start of the
// attempt that got it, or of the last extension. It is zero until the mutex is locked, and is kept after Unlock.
func (m *Mutex) Until() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until
}

// TryLock makes one attempt to lock m; see Lock.
func (m *Mutex) TryLock() error { return m.TryLockContext(context.Background()) }

// TryLockContext is TryLock with a context; see LockContext.
func (m *Mutex) TryLockContext(ctx context.Context) error { return m.acquire(ctx, 1) }

// Lock locks m, and waits while another client has the lock: until [WithTries] are used up. After an error, m has the
// lock that it had before, if any, and Lock may be called again. The error is
//
//   - an *[ErrTaken] if others have the lock;
//   - [RedisError] and [ErrNodeTaken] of single nodes if too few nodes answered;
//   - [ErrFailed] if the quorum came too late;
//   - that of the function of [WithGenValueFunc];
//   - another one, which matches none of these, if an argument or a pool is wrong, or the Redlock of [Over] was closed.
func (m *Mutex) Lock() error { return m.LockContext(context.Background()) }

// LockContext is Lock that gives up when ctx ends: with an error that matches the context's, and ErrFailed, or a
// [RedisError] if there was but one try. The end of ctx after that changes nothing. A nil ctx never ends.
func (m *Mutex) LockContext(ctx context.Context) error { return m.acquire(ctx, 0) }

// acquire makes so many tries; 0: those of WithTries.
func (m *Mutex) acquire(ctx context.Context, tries int) error {
	s, err := m.begin()
	if err != nil {
		return err
	}
	defer s.end()
	if tries == 0 {
		tries = m.set.tries
	}
	done, err := m.set.alone(ctx)
	if err != nil {
		return lockError(err, tries)
	}
	defer done()
	held, err := m.attempt(ctx, s, tries)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unlocked = false
	m.keep(held)
	return nil
}

// begin returns the Redlock of a call, whose end must be called after it. An error says what is wrong with the mutex, whether
// it is locked or not.
func (m *Mutex) begin() (*shared, error) {
	if m.rs == nil {
		return nil, errNoRedsync
	}
	m.mu.Lock()
	err := m.set.prepare(m.rs.pools == nil)
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return m.rs.use()
}

// keep has m have a lock. m.mu is held.
func (m *Mutex) keep(held *holding) {
	l := held.lock
	m.held, m.value, m.handed, m.until = held, cmp.Or(held.own, l.Token()), false, l.Until()
}

// attempt returns a lock, which is m's only once it is kept.
func (m *Mutex) attempt(ctx context.Context, s *shared, tries int) (_ *holding, err error) {
	if tries < 1 {
		return nil, fmt.Errorf("redsync: tries %d: must be at least 1", tries)
	}
	opts, own := m.set.opts, ""
	if m.set.genValueFunc != nil {
		if own, err = m.set.genValueFunc(); err != nil {
			return nil, err
		}
		opts = append(opts[:len(opts):len(opts)], redlock.WithOwner(own))
		once("what WithGenValueFunc returns is the label of a lock: the key has a token in front of it, which a program that reads" +
			" the key finds, too, and without which another process cannot unlock the mutex")
	}
	var l *redlock.Lock
	if tries == 1 {
		l, err = s.r.TryLock(endless(ctx), m.resources[:], m.set.expiry, opts...)
	} else {
		l, err = s.r.Lock(endless(ctx), m.resources[:], m.set.expiry, opts...)
	}
	if err != nil {
		return nil, lockError(err, tries)
	}
	held := &holding{lock: l, r: s.r, name: m.Name(), own: own}
	holdings.add(held)
	return held, nil
}

// has returns the lock that the mutex has: its own, or that of the value of WithValue. Without one, the value is a token of
// another process, or of a lock that is over. An error says why there is none; it matches redlock.ErrLost if that is over, or
// m is not locked.
func (m *Mutex) has(s *shared) (held *holding, value string, err error) {
	m.mu.Lock()
	held, value = m.held, m.value
	handed := m.handed
	m.mu.Unlock()
	if handed {
		held, err = holdings.find(s.r, m.Name(), value)
	} else if held == nil {
		err = redlock.ErrLost
	}
	switch {
	case errors.Is(err, redlock.ErrLost):
		err = m.notLocked()
	case err != nil:
		err = m.handedError(err)
	}
	return held, value, err
}

// handedError says what is wrong with a value of WithValue, which is in no error.
func (m *Mutex) handedError(err error) error { return fmt.Errorf("mutex %q: %w", m.Name(), err) }

// Unlock releases the lock. true means that it was held until then, and that a quorum of nodes has confirmed the
// release. Otherwise the error is
//
//   - [ErrLockAlreadyExpired] if the lock had ended, or there was none: another client may have had it while the work
//     went on;
//   - [RedisError] of single nodes if too few nodes answered. The release goes on in the background, and Unlock may
//     be called again.
func (m *Mutex) Unlock() (bool, error) { return m.UnlockContext(context.Background()) }

// UnlockContext is Unlock. Unlike in redsync, it releases the lock even if ctx has ended, and takes at most the node
// timeout.
func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	s, err := m.begin()
	if err != nil {
		return false, err
	}
	defer s.end()
	m.mu.Lock()
	m.unlocked = true // First: an Extend that locks again either finds it, or its lock is found here.
	m.mu.Unlock()
	held, value, err := m.has(s)
	switch {
	case errors.Is(err, redlock.ErrLost):
		return false, unlockError(err)
	case err != nil:
		return false, err
	case held != nil:
		return m.unlock(endless(ctx), held)
	default:
		return m.release(endless(ctx), s, value)
	}
}

// unlock releases a lock of this process. Of all calls that have it released, one is told so.
func (m *Mutex) unlock(ctx context.Context, held *holding) (bool, error) {
	err := held.lock.Unlock(ctx)
	if err != nil && !errors.Is(err, redlock.ErrLost) {
		return false, unlockError(err) // It may be unlocked again.
	}
	holdings.remove(held)
	m.mu.Lock()
	if m.held == held {
		m.held = nil
	}
	m.mu.Unlock()
	if err == nil && !held.told.CompareAndSwap(false, true) {
		err = m.notLocked()
	}
	if err != nil {
		return false, unlockError(err)
	}
	return true, nil
}

// release releases the lock of another process.
func (m *Mutex) release(ctx context.Context, s *shared, token string) (bool, error) {
	mine := false
	_, err, _ := s.releases.Do(m.Name()+" "+token, func() (any, error) {
		mine = true
		return nil, s.r.Release(ctx, m.resources[:], token)
	})
	switch {
	case err == nil && mine:
		return true, nil
	case err == nil:
		return false, unlockError(m.notLocked())
	case errors.Is(err, redlock.ErrLost) && m.isLabel(ctx, s.r, token):
		return false, m.handedError(errForeign)
	case errors.As(err, new(*redlock.QuorumError)):
		return false, unlockError(err)
	default:
		return false, err
	}
}

// Extend has the lock end expiry, less the drift allowance, after the start of the call. true means that it does.
// Otherwise it ends when it would have ended, and the error is
//
//   - an *[ErrTaken] if the lock is over, or there was none. Unlike in redsync, it is over when Until has passed, even
//     if its keys are still there;
//   - [RedisError] of single nodes if too few nodes answered: try again before Until;
//   - [ErrExtendFailed] if the quorum came too late;
//   - another one, which matches none of these, if an option or a pool is wrong, the Redlock of [Over] was closed, or
//     [WithValue] was given a value of no lock that this process holds.
//
// With [WithSetNXOnExtend], Extend locks again what is over.
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext is Extend that gives up when ctx ends: with an error that matches ErrExtendFailed and the context's.
func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	ctx = endless(ctx)
	s, err := m.begin()
	if err != nil {
		return false, err
	}
	defer s.end()
	held, token, err := m.has(s)
	switch {
	case held != nil:
		err = m.extend(ctx, held)
	case err == nil:
		if err = m.ask(ctx, s.r, token); err == nil {
			err = m.handedError(errHanded)
		}
	case errors.Is(err, redlock.ErrLost):
		err = extendError(err)
	}
	if m.set.setNXOnExtend && errors.Is(err, redlock.ErrLost) && m.locksAgain() {
		err = m.lockAgain(ctx, s, held)
	}
	return err == nil, err
}

func (m *Mutex) extend(ctx context.Context, held *holding) error {
	if err := held.lock.Extend(ctx, m.set.expiry); err != nil {
		return extendError(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == held || m.handed {
		m.until = held.lock.Until()
	}
	return nil
}

// locksAgain reports whether Extend locks the mutex, whose lock is over, with WithSetNXOnExtend.
func (m *Mutex) locksAgain() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.handed {
		once("WithSetNXOnExtend does not lock again what WithValue names: nobody else would know of the new lock")
	}
	return !m.handed && !m.unlocked
}

// lockAgain makes one attempt to lock m, as a lost lock stays lost: others may have had it.
func (m *Mutex) lockAgain(ctx context.Context, s *shared, lost *holding) error {
	done, err := m.set.alone(ctx)
	if err != nil {
		return extendError(err)
	}
	defer done()
	m.mu.Lock()
	now, unlocked := m.held, m.unlocked
	m.mu.Unlock()
	switch {
	case unlocked:
		return extendError(m.notLocked())
	case now != nil && now != lost:
		return m.extend(ctx, now)
	}
	if lost != nil {
		_ = lost.lock.Unlock(ctx) // Nothing of it is in the way of the next one.
	}
	held, err := m.attempt(ctx, s, 1)
	if err != nil {
		return again(err)
	}
	m.mu.Lock()
	if unlocked = m.unlocked; !unlocked {
		m.keep(held)
	}
	m.mu.Unlock()
	if unlocked {
		_, _ = m.unlock(ctx, held)
		return extendError(m.notLocked())
	}
	return nil
}

// Valid asks the nodes whether a quorum of them has the lock, and returns false without asking once Until has passed.
// An error beside false is an *[ErrTaken], or [RedisError] and [ErrNodeTaken] of single nodes if too few answered.
// Unlike in redsync, there is no error beside true.
//
// Deprecated: Use Until instead. What the nodes said may be out of date when it arrives.
func (m *Mutex) Valid() (bool, error) { return m.ValidContext(context.Background()) }

// ValidContext is Valid that gives up when ctx ends, with the context's error.
//
// Deprecated: Use Until instead. What the nodes said may be out of date when it arrives.
func (m *Mutex) ValidContext(ctx context.Context) (bool, error) {
	s, err := m.begin()
	if err != nil {
		return false, err
	}
	defer s.end()
	held, token, err := m.has(s)
	if err != nil && !errors.Is(err, redlock.ErrLost) {
		return false, err
	}
	r := s.r
	if held != nil {
		r, token, err = held.r, held.lock.Token(), held.lock.Err()
	}
	if err != nil {
		return false, &ErrTaken{cause: err}
	}
	err = m.ask(endless(ctx), r, token)
	return err == nil, err
}

// ask asks the nodes whether a quorum of them has the lock with that token.
func (m *Mutex) ask(ctx context.Context, r *redlock.Redlock, token string) error {
	is, err := r.Inspect(ctx, m.Name())
	if err != nil {
		return fmt.Errorf("redsync: mutex %q: %w", m.Name(), err)
	}
	holder := stored.Holder(token)
	switch {
	case is.Held && is.Holder == holder:
		return nil
	case is.Held && is.Owner == token:
		return m.handedError(errForeign)
	}
	var others []int
	var errs []error
	for i, n := range is.Nodes {
		switch {
		case n.Err != nil:
			errs = append(errs, &RedisError{i, n.Err})
		case n.Holder != holder:
			others = append(others, i)
			errs = append(errs, &ErrNodeTaken{i})
		}
	}
	if len(others) > len(is.Nodes)-is.Need {
		return &ErrTaken{Nodes: others, cause: redlock.ErrLost}
	}
	return &callError{errs, redlock.ErrNoQuorum}
}

// isLabel reports whether a token is none, but what WithGenValueFunc has returned to the process that has the lock.
func (m *Mutex) isLabel(ctx context.Context, r *redlock.Redlock, token string) bool {
	is, err := r.Inspect(ctx, m.Name())
	return err == nil && is.Owner == token
}

// notLocked is why nothing can be done with the lock of m.
func (m *Mutex) notLocked() error {
	return fmt.Errorf("mutex %q is not locked: %w", m.Name(), redlock.ErrLost)
}

// endless is a context for nil, which redsync allows.
func endless(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
