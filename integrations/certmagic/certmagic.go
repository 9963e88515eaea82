// Package redlockcertmagic has a fleet of processes that share a [github.com/caddyserver/certmagic]
// storage obtain and renew each certificate once: a [Storage] leaves certificates where they are, and
// locks with redlock.
//
//	storage := redlockcertmagic.New(files, r, 30*time.Second)
//	config := certmagic.New(cache, certmagic.Config{Storage: storage})
//
// While too few nodes answer, certmagic waits, and logs nothing. Give r a hook that does:
//
//	r, err := redlock.New(nodes, redlock.WithHook(redlock.SlogHook(slog.Default())))
//
// # When a lock is lost
//
// A redlock is a lease: it is extended until it is unlocked, and is lost if a quorum of the nodes cannot be
// reached for longer than its ttl. certmagic cannot be told in the middle of its work, so a second
// process may then ask the CA for the same certificate. The hook hears of the loss. Before each attempt of an operation that it
// retries, certmagic renews the lock: a lost one is taken anew then, or the attempt is put off while
// another process has it. As certmagic looks into the storage after that, it finds what the other one
// has obtained.
package redlockcertmagic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/seed6c881748/redlock/redlock"
)

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// ErrNotLocked means that Unlock or RenewLockLease was called for a name that nobody has locked by
// this Storage.
var ErrNotLocked = errors.New("redlockcertmagic: not locked")

// A Storage is a storage of certmagic whose locks are those of redlock. All else goes to the storage that it
// embeds, whose own locks are not used. A Storage is safe for concurrent use.
//
// It has the methods of certmagic.Storage, TryLocker and LockLeaseRenewer, and its own. What else the embedded storage
// can do, such as to be closed, is hidden, but for its String: use that storage itself.
type Storage struct {
	certmagic.Storage

	r    *redlock.Redlock
	ttl  time.Duration
	opts []redlock.Option

	mu    sync.Mutex
	names map[string]*entry // of those who have a lock or wait for one
}

// An entry is what this process knows of a name. certmagic unlocks by name, so there must not be two of
// this process who believe that they have its lock, even if that of the first one was lost: only
// who has the turn asks the nodes, until Unlock.
type entry struct {
	turn  chan struct{} // full while somebody has it
	users int           // who has the turn or waits for it
	lock  *redlock.Lock // nil while it is asked for
}

// New returns a Storage that keeps certificates in files and locks with r: for each name the resource
// "certmagic:" + name. Processes that share files need a storage like this with the same nodes and prefix; those
// with other files need another one of either, so as not to wait for them.
//
// The ttl is how long the others wait for a process that has died. A lock is extended for as long as its
// process lives and has not called Unlock, whatever lease certmagic asks for.
//
// Lock waits for as long as its context allows, also while too few nodes answer, unless opts say
// otherwise, for example by redlock.WithRetryIf. If the ttl or opts are wrong, Lock says why.
func New(files certmagic.Storage, r *redlock.Redlock, ttl time.Duration, opts ...redlock.Option) *Storage {
	opts = append([]redlock.Option{redlock.WithRetryCount(-1)}, opts...)
	return &Storage{Storage: files, r: r, ttl: ttl, opts: opts, names: map[string]*entry{}}
}

// String is that of the embedded storage, or its type if it has none. Its fields may be secret, and those of
// the Storage change.
func (s *Storage) String() string {
	if files, ok := s.Storage.(fmt.Stringer); ok {
		return files.String() + " with locks of redlock"
	}
	return fmt.Sprintf("%T with locks of redlock", s.Storage)
}

// Format prints the String, whatever the verb.
func (s *Storage) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText returns the String, for those who log JSON.
func (s *Storage) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Lock waits until nobody else has locked name, in this process or another one, and locks it until
// Unlock. The error matches that of ctx if it ended first, and also what the last attempt has seen:
// [redlock.ErrTaken], or [redlock.ErrNoQuorum] if too few nodes answer. After an error nothing is locked. The end of
// ctx after that does not end the lock.
func (s *Storage) Lock(ctx context.Context, name string) error {
	e := s.enter(name)
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		defer s.leave(name, e)
		return s.missedTurn(ctx, name)
	}
	return s.acquire(ctx, name, e, s.r.Lock)
}

// TryLock locks name as Lock does if nobody has locked it, and does not wait. It returns false without
// an error if somebody has. An error means that it is not known: too few nodes answer, for example.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	e := s.enter(name)
	select {
	case e.turn <- struct{}{}:
	default:
		s.leave(name, e)
		return false, nil
	}
	err := s.acquire(ctx, name, e, s.r.TryLock)
	if errors.Is(err, redlock.ErrTaken) {
		return false, nil
	}
	return err == nil, err
}

// Unlock releases name, also if ctx has ended. It does so for whoever has locked it by this Storage.
// The error matches [redlock.ErrNoQuorum] if too few nodes have confirmed the release: name is no longer locked
// either, but others may have to wait for the end of the ttl. It matches [ErrNotLocked] if nobody had locked name.
//
// That the lock had been lost before is no error, as nothing is left to release, and certmagic would try
// again when it ends. The hook of the Redlock hears of it; see [redlock.SlogHook].
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	e := s.names[name]
	if e == nil || e.lock == nil {
		s.mu.Unlock()
		return fmt.Errorf("%w: %q", ErrNotLocked, name)
	}
	lock := e.lock
	e.lock = nil
	s.mu.Unlock()

	err := lock.Unlock(ctx)
	<-e.turn
	s.leave(name, e)
	if err != nil && !errors.Is(err, redlock.ErrLost) {
		return fmt.Errorf("redlockcertmagic: unlock %q: %w", name, err)
	}
	return nil
}

// RenewLockLease has the nodes confirm that name is locked by this Storage. nil means that it is locked for
// the ttl at least, and is extended as before; how long certmagic would like the lease to be does not
// matter, as a process that has died should not keep others out for hours.
//
// If the lock was lost, RenewLockLease tries to take it anew, and certmagic looks again into the
// storage after it. The error matches [redlock.ErrTaken] if another process has the lock now,
// [redlock.ErrNoQuorum] if too few nodes answer, and [ErrNotLocked] if nobody had locked name. It may be
// called again after the first two, which certmagic does before its next attempt.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	e := s.names[name]
	var old *redlock.Lock
	if e != nil {
		old = e.lock
	}
	s.mu.Unlock()
	if old == nil {
		return fmt.Errorf("%w: %q", ErrNotLocked, name)
	}
	err := old.Extend(ctx, s.ttl)
	if errors.Is(err, redlock.ErrLost) {
		_ = old.Unlock(ctx) // What is left of it must not keep out the new one.
		err = s.replace(ctx, name, e, old)
	}
	if err != nil {
		return fmt.Errorf("redlockcertmagic: renew the lock on %q: %w", name, err)
	}
	return nil
}

// replace puts a new lock in place of one that was lost.
func (s *Storage) replace(ctx context.Context, name string, e *entry, old *redlock.Lock) error {
	lock, err := s.hold(ctx, name, s.r.TryLock)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if e.lock == old {
		e.lock, lock = lock, nil
	}
	s.mu.Unlock()
	if lock != nil { // There was an Unlock meanwhile.
		_ = lock.Unlock(ctx)
		return ErrNotLocked
	}
	return nil
}

// A call is Lock or TryLock of a Redlock.
type call func(ctx context.Context, resources []string, ttl time.Duration, opts ...redlock.Option) (*redlock.Lock, error)

// acquire gets the lock for who has the turn, or takes the turn away.
func (s *Storage) acquire(ctx context.Context, name string, e *entry, lock call) error {
	l, err := s.hold(ctx, name, lock)
	if err != nil {
		<-e.turn
		s.leave(name, e)
		return fmt.Errorf("redlockcertmagic: lock %q: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.lock = l
	return nil
}

func (s *Storage) hold(ctx context.Context, name string, lock call) (*redlock.Lock, error) {
	l, err := lock(ctx, []string{resource(name)}, s.ttl, s.opts...)
	if err != nil {
		return nil, err
	}
	l.KeepAlive(context.WithoutCancel(ctx)) // certmagic unlocks when its work has ended, which may be after ctx.
	return l, nil
}

// missedTurn is the error of a Lock whose context has ended while another call of this process had the turn.
func (s *Storage) missedTurn(ctx context.Context, name string) error {
	for _, c := range s.r.WaitingCalls() {
		if c.Err != nil && slices.Equal(c.Resources, []string{resource(name)}) {
			return fmt.Errorf("redlockcertmagic: lock %q: %w; another call of this process has seen: %w", name, ctx.Err(), c.Err)
		}
	}
	return fmt.Errorf("redlockcertmagic: %q is locked by this process: %w", name, ctx.Err())
}

func resource(name string) string { return "certmagic:" + name }

func (s *Storage) enter(name string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.names[name]
	if e == nil {
		e = &entry{turn: make(chan struct{}, 1)}
		s.names[name] = e
	}
	e.users++
	return e
}

func (s *Storage) leave(name string, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.users--; e.users == 0 {
		delete(s.names, name)
	}
}
