package redsync

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

// A Mutex is a distributed mutual exclusion lock. It can be locked again after Unlock, and after its lock has ended.
//
// Its methods may be called from several goroutines. But it has one lock at a time: after that has ended, and another
// goroutine has locked the mutex again, an Unlock of the first one releases the lock of the second. So give each
// goroutine a mutex of its own, as with redsync.
type Mutex struct {
	rs            *Redsync
	name          string
	expiry        time.Duration
	tries         int
	delay, jitter time.Duration
	delayFunc     DelayFunc // instead of delay and jitter; nil: none
	driftFactor   *float64  // nil: the Redlock's
	timeoutFactor *float64  // nil: the Redlock's node timeout
	genValueFunc  func() (string, error)
	setNXOnExtend bool

	prepared  sync.Once
	resources []string
	opts      []redlock.Option
	wrong     error // of an option

	mu       sync.Mutex
	lock     *redlock.Lock // nil: none, or its release has begun
	value    string
	handed   bool // value is that of WithValue
	until    time.Time
	unlocked bool // Unlock was called after the last Lock
}

// Name returns the name that was given to NewMutex.
func (m *Mutex) Name() string { return m.name }

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
	if m.lock == nil {
		return ""
	}
	return m.lock.Token()
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
func (m *Mutex) LockContext(ctx context.Context) error { return m.acquire(ctx, m.tries) }

func (m *Mutex) acquire(ctx context.Context, tries int) error {
	l, own, err := m.attempt(ctx, tries)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unlocked = false
	m.keep(l, own)
	return nil
}

// keep has m have a lock. m.mu is held.
func (m *Mutex) keep(l *redlock.Lock, own string) {
	m.lock, m.value, m.handed, m.until = l, cmp.Or(own, l.Token()), false, l.Until()
}

// attempt returns a lock, and the value that the user has for it.
func (m *Mutex) attempt(ctx context.Context, tries int) (l *redlock.Lock, own string, err error) {
	if err = m.prepare(); err != nil {
		return nil, "", err
	}
	if tries < 1 {
		return nil, "", fmt.Errorf("redsync: tries %d: must be at least 1", tries)
	}
	opts := m.opts
	if m.genValueFunc != nil {
		if own, err = m.genValueFunc(); err != nil {
			return nil, "", err
		}
		if err = tokens.CheckLabel(own); err != nil {
			return nil, "", fmt.Errorf("redsync: WithGenValueFunc: %w", err)
		}
		opts = append(opts[:len(opts):len(opts)], redlock.WithOwner(own))
		once("what WithGenValueFunc returns is the label of a lock: the key has a token in front of it, which a program that reads" +
			" the key finds, too, and without which another process cannot unlock the mutex")
	}
	s, err := m.rs.use()
	if err != nil {
		return nil, "", err
	}
	defer s.end()
	if tries == 1 {
		l, err = s.r.TryLock(endless(ctx), m.resources, m.expiry, opts...)
	} else {
		l, err = s.r.Lock(endless(ctx), m.resources, m.expiry, opts...)
	}
	if err != nil {
		return nil, "", lockError(err, tries)
	}
	holdings.add(place{s.r, m.name}, l, own)
	return l, own, nil
}

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
	ctx = endless(ctx)
	m.mu.Lock()
	l, value, handed := m.lock, m.value, m.handed
	m.lock, m.unlocked = nil, true // Of simultaneous calls, one is told that it has released the lock.
	m.mu.Unlock()
	if l == nil && !handed {
		return false, unlockError(m.notLocked())
	}
	if err := m.prepare(); err != nil {
		return false, err
	}
	s, err := m.rs.use()
	if err != nil {
		return false, err
	}
	defer s.end()
	if l != nil {
		return m.unlock(ctx, s, l)
	}
	return m.releaseHanded(ctx, s, value)
}

func (m *Mutex) unlock(ctx context.Context, s *shared, l *redlock.Lock) (bool, error) {
	at := place{s.r, m.name}
	held := holdings.remove(at, l)
	err := l.Unlock(ctx)
	switch {
	case err == nil && held.lock != nil:
		return true, nil
	case err == nil: // Another mutex with its value has unlocked it.
		return false, unlockError(m.notLocked())
	case errors.Is(err, redlock.ErrLost):
		return false, unlockError(err)
	}
	holdings.restore(at, held) // It may be unlocked again.
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lock == nil && !m.handed {
		m.lock = l
	}
	return false, unlockError(err)
}

// releaseHanded releases the lock of another mutex.
func (m *Mutex) releaseHanded(ctx context.Context, s *shared, value string) (bool, error) {
	l, err := holdings.find(place{s.r, m.name}, value)
	switch {
	case errors.Is(err, redlock.ErrLost):
		return false, unlockError(m.notLocked())
	case err != nil:
		return false, m.handedError(err)
	case l != nil:
		return m.unlock(ctx, s, l)
	}
	err = s.r.Release(ctx, m.resources, value)
	var votes *redlock.QuorumError
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &votes):
		return false, unlockError(err)
	case errors.Is(err, redlock.ErrClosed):
		return false, err
	default:
		return false, m.handedError(errForeign)
	}
}

// handedError says what is wrong with a value of WithValue, which is in no error.
func (m *Mutex) handedError(err error) error { return fmt.Errorf("mutex %q: %w", m.name, err) }

// Extend has the lock end expiry, less the drift allowance, after the start of the call. true means that it does.
// Otherwise it ends when it would have ended, and the error is
//
//   - an *[ErrTaken] if the lock is over, or there was none. Unlike in redsync, it is over when Until has passed, even
//     if its keys are still there;
//   - [RedisError] of single nodes if too few nodes answered: try again before Until;
//   - [ErrExtendFailed] if the quorum came too late;
//   - another one, which matches none of these, if a pool is wrong, the Redlock of [Over] was closed, or [WithValue] was given
//     a value of no lock that this process holds.
//
// With [WithSetNXOnExtend], Extend locks again what is over.
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext is Extend that gives up when ctx ends: with an error that matches ErrExtendFailed and the context's.
func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	ctx = endless(ctx)
	m.mu.Lock()
	l, value, handed, again := m.lock, m.value, m.handed, m.setNXOnExtend && !m.unlocked
	m.mu.Unlock()
	if l == nil && !handed && !again {
		return false, extendError(m.notLocked())
	}
	if err := m.prepare(); err != nil {
		return false, err
	}
	s, err := m.rs.use()
	if err != nil {
		return false, err
	}
	defer s.end()
	switch {
	case handed:
		l, err = holdings.find(place{s.r, m.name}, value)
		if errors.Is(err, redlock.ErrLost) {
			return false, extendError(m.notLocked())
		}
		if l == nil {
			return false, m.handedError(cmp.Or(err, errHanded))
		}
	case l == nil:
		return m.lockAgain(ctx)
	}
	err = l.Extend(ctx, m.expiry)
	switch {
	case err == nil:
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.lock == l || handed {
			m.until = l.Until()
		}
		return true, nil
	case errors.Is(err, redlock.ErrLost) && again && !handed:
		_ = l.Unlock(ctx) // Nothing of it is in the way of the next one.
		return m.lockAgain(ctx)
	default:
		return false, extendError(err)
	}
}

// lockAgain makes one attempt to lock m, as a lost lock stays lost: others may have had it. Not after an Unlock.
func (m *Mutex) lockAgain(ctx context.Context) (bool, error) {
	l, own, err := m.attempt(ctx, 1)
	if err != nil {
		return false, again(err)
	}
	m.mu.Lock()
	if !m.unlocked {
		m.keep(l, own)
		m.mu.Unlock()
		return true, nil
	}
	m.mu.Unlock()
	_ = l.Unlock(ctx)
	return false, extendError(m.notLocked())
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
	m.mu.Lock()
	l, value, handed := m.lock, m.value, m.handed
	m.mu.Unlock()
	if l == nil && !handed {
		return false, &ErrTaken{cause: m.notLocked()}
	}
	if err := m.prepare(); err != nil {
		return false, err
	}
	s, err := m.rs.use()
	if err != nil {
		return false, err
	}
	defer s.end()
	if handed {
		l, _ = holdings.find(place{s.r, m.name}, value)
	}
	if l != nil {
		value = l.Token()
		if l.Err() != nil {
			return false, &ErrTaken{cause: l.Err()}
		}
	}
	is, err := s.r.Inspect(endless(ctx), m.name)
	if err != nil {
		return false, fmt.Errorf("redsync: mutex %q: %w", m.name, err)
	}
	return valid(is, digest(value))
}

// valid says whether a quorum of nodes has the lock with that digest.
func valid(is redlock.Inspection, holder string) (bool, error) {
	if is.Held && is.Holder == holder {
		return true, nil
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
		return false, &ErrTaken{Nodes: others, cause: redlock.ErrLost}
	}
	return false, &callError{errs, redlock.ErrNoQuorum}
}

// digest is that of a value, as Inspect shows it.
func digest(value string) string {
	sum := sha1.Sum([]byte(value))
	return hex.EncodeToString(sum[:6])
}

var errHanded = errors.New("redsync: the lock is another process's, given by WithValue: only that one can extend it")

// notLocked is why nothing can be done with the lock of m.
func (m *Mutex) notLocked() error {
	return fmt.Errorf("redsync: mutex %q is not locked: %w", m.name, redlock.ErrLost)
}

// endless is a context for nil, which redsync allows.
func endless(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
