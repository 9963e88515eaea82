package redsync

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// A Mutex is a distributed mutual exclusion lock. It can be locked again after Unlock, and after its lock has ended.
//
// Its methods may be called from several goroutines. But it has one lock at a time: after that has ended, and another
// goroutine has locked the mutex again, an Unlock of the first one releases the lock of the second. So give each
// goroutine a mutex of its own, as with redsync.
type Mutex struct {
	r             *redlock.Redlock
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

	mu     sync.Mutex
	lock   *redlock.Lock // nil: none, or its release has begun
	value  string
	handed bool // value is that of WithValue
	until  time.Time
}

// Name returns the name that was given to NewMutex.
func (m *Mutex) Name() string { return m.name }

// Value returns the value that the key has on the nodes, with which another process can unlock the mutex; see
// [WithValue]. It is a secret: whoever has it can do so. It is empty until the mutex is locked, unless
// WithValue was given, and is kept after Unlock.
func (m *Mutex) Value() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.value
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
//   - [ErrFailed] if the quorum came too late, the Redlock was closed, or an argument is wrong;
//   - that of the function of [WithGenValueFunc].
func (m *Mutex) Lock() error { return m.LockContext(context.Background()) }

// LockContext is Lock that gives up when ctx ends: with an error that matches ErrFailed and the context's. The
// end of ctx after that changes nothing. A nil ctx never ends.
func (m *Mutex) LockContext(ctx context.Context) error { return m.acquire(ctx, m.tries) }

func (m *Mutex) acquire(ctx context.Context, tries int) error {
	if err := m.prepare(); err != nil {
		return &callError{[]error{ErrFailed}, err}
	}
	if m.setNXOnExtend {
		return &callError{[]error{ErrFailed}, errSetNX}
	}
	if tries < 1 {
		return &callError{[]error{ErrFailed}, fmt.Errorf("redsync: tries %d: must be at least 1", tries)}
	}
	if m.genValueFunc != nil {
		if _, err := m.genValueFunc(); err != nil {
			return err
		}
	}
	var l *redlock.Lock
	var err error
	if tries == 1 {
		l, err = m.r.TryLock(endless(ctx), m.resources, m.expiry, m.opts...)
	} else {
		l, err = m.r.Lock(endless(ctx), m.resources, m.expiry, m.opts...)
	}
	if err != nil {
		return lockError(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lock, m.value, m.handed, m.until = l, l.Token(), false, l.Until()
	return nil
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
	m.lock = nil // Of simultaneous calls, one is told that it has released the lock.
	m.mu.Unlock()
	switch {
	case l != nil:
		return m.unlock(ctx, l)
	case handed:
		return m.releaseHanded(ctx, value)
	default:
		return false, unlockError(m.notLocked())
	}
}

func (m *Mutex) unlock(ctx context.Context, l *redlock.Lock) (bool, error) {
	err := l.Unlock(ctx)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, redlock.ErrLost) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.lock == nil {
			m.lock = l // It may be unlocked again.
		}
	}
	return false, unlockError(err)
}

// releaseHanded releases the lock of another mutex.
func (m *Mutex) releaseHanded(ctx context.Context, value string) (bool, error) {
	if err := m.prepare(); err != nil {
		return false, err
	}
	err := m.r.Release(ctx, m.resources, value)
	var votes *redlock.QuorumError
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &votes), errors.Is(err, redlock.ErrClosed):
		return false, unlockError(err)
	default:
		return false, fmt.Errorf("redsync: mutex %q: WithValue takes what Value of a mutex of this package has returned: %w", m.name, err)
	}
}

// Extend has the lock end expiry, less the drift allowance, after the start of the call. true means that it does.
// Otherwise it ends when it would have ended, and the error is
//
//   - an *[ErrTaken] if the lock is over, or there was none. Unlike in redsync, it is over when Until has passed, even
//     if its keys are still there;
//   - [RedisError] of single nodes if too few nodes answered: try again before Until;
//   - [ErrExtendFailed] if the quorum came too late or the Redlock was closed, and with [WithValue] or [WithSetNXOnExtend].
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext is Extend that gives up when ctx ends: with an error that matches ErrExtendFailed and the context's.
func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	m.mu.Lock()
	l, handed := m.lock, m.handed
	m.mu.Unlock()
	switch {
	case m.setNXOnExtend:
		return false, &callError{[]error{ErrExtendFailed}, errSetNX}
	case handed:
		return false, &callError{[]error{ErrExtendFailed}, errHanded}
	case l == nil:
		return false, extendError(m.notLocked())
	}
	if err := l.Extend(endless(ctx), m.expiry); err != nil {
		return false, extendError(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lock == l {
		m.until = l.Until()
	}
	return true, nil
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
	if l != nil && l.Err() != nil {
		return false, &ErrTaken{cause: l.Err()}
	}
	is, err := m.r.Inspect(endless(ctx), m.name)
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

var (
	errSetNX = errors.New("redsync: WithSetNXOnExtend is refused: it would lock again a key that another process may have had" +
		" in between; leave it out, as Extend always restores keys that single nodes have lost")

	errHanded = errors.New("redsync: the lock is another mutex's, given by WithValue: only that one can extend it")
)

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
