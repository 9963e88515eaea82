package shared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
)

// MaxReaders is how many Mutexes of a name, so processes, may have readers at the same time; others wait. It must not
// change between versions: a writer with a smaller one would not exclude readers on the slots above.
const MaxReaders = 32

const (
	turn             = 10 * time.Millisecond // how long after a look for writers readers may join others
	turnstileTTL     = 2 * time.Second       // how long a process that is killed at the turnstile holds up others
	writing, reading = "writer", "reader"    // the labels of those at the turnstile
)

// A Mutex is a name that many may read at a time, or one may write. It is safe for concurrent use. Only [New] makes one:
// the methods of a nil or zero Mutex fail with an error. A process needs one for each name, as its readers share a lock.
// It has no Close: closing its Redlock ends all waits.
type Mutex struct {
	key
	ttl       time.Duration
	opts      []redlock.Option // for the locks on slots
	patient   []redlock.Option // opts, to wait until the context ends
	slots     []string
	permits   *semaphore.Semaphore // the same slots, for a reader that waits for any of them
	turnstile []string

	mu              sync.Mutex // taken before a lock's
	permit          *permit    // the latest permit; nil before the first
	looked          time.Time  // when no writer was last seen at the turnstile
	asking, waiting *flight    // nil: none
}

// A key is the key of a context's Reader. It is the same for all Mutexes with one name and one Redlock.
type key struct {
	r    *redlock.Redlock
	name string
}

// New returns a Mutex for name over the nodes of r. A killed process keeps others out for ttl at most. opts are the
// options of the locks. Those about retries and WithWait have no effect, even if r has them. The error names the wrong
// argument; there is no I/O.
func New(r *redlock.Redlock, name string, ttl time.Duration, opts ...redlock.Option) (*Mutex, error) {
	if name == "" {
		return nil, errors.New("shared: empty name")
	}
	m := &Mutex{key: key{r, name}, ttl: ttl, opts: slices.Clip(opts), turnstile: []string{name + "#t"}}
	m.slots = semaphore.Slots(name+"#r", MaxReaders)
	m.patient = slices.Clip(append(m.opts, redlock.WithRetryCount(-1), redlock.WithRetryIf(func(error) bool { return true }),
		redlock.WithRetryBackoff(func(int) time.Duration { return 200 * time.Millisecond })))

	// A call whose context has ended checks its other arguments first, and sends nothing.
	ended, end := context.WithCancel(context.Background())
	end()
	_, err := r.TryLock(ended, m.slots, ttl, opts...)
	if !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("%v: %w", m, err)
	}
	m.permits, err = semaphore.New(r, name+"#r", MaxReaders, ttl, opts...)
	return m, err
}

// Lock locks the name for writing: all slots. It waits, until ctx ends, for whoever came before and for the readers that are
// there. As long as the lock is held nobody else reads or writes. After an error nothing is held. Every error matches
// [redlock.ErrNotAcquired]. It also matches the context's error if that ended first, and ErrTaken or ErrNoQuorum, whichever
// its last attempt saw; ErrClosed after Close of the Redlock; or ErrAlreadyHeld if ctx comes from the Context, Do or
// KeepAlive of somebody who still has the name: two readers who both want to write would wait for each other forever.
func (m *Mutex) Lock(ctx context.Context) (l *redlock.Lock, err error) {
	if err = m.refuse(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.looked = time.Time{} // Readers of this process must look from now on.
	m.mu.Unlock()
	err = m.through(ctx, writing, func(at context.Context) (err error) {
		l, err = m.r.Lock(at, m.slots, m.ttl, m.patient...)
		return err
	})
	return l, m.failed(err)
}

// TryLock locks the name for writing if nobody has it. It takes one round trip, and ignores who waits. Its errors are as
// Lock's; ErrTaken means that somebody has a slot.
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

// through calls get at the turnstile, with a context that ends if the turnstile is lost. Then it stands in line again.
func (m *Mutex) through(ctx context.Context, as string, get func(at context.Context) error) error {
	opts := append(m.patient, settings.Plain().(redlock.Option), redlock.WithOwner(as))
	for {
		turnstile, err := m.r.Lock(ctx, m.turnstile, min(turnstileTTL, m.ttl), opts...)
		if err != nil {
			return err
		}
		at := turnstile.KeepAlive(ctx)
		err = get(at)
		isLost := at.Err() != nil && ctx.Err() == nil
		exit := settings.Enter(m.r) // Only Close waits for the release.
		go func() { defer exit(); _ = turnstile.Unlock(ctx) }()
		if !isLost || err == nil {
			return err
		}
	}
}

// refuse returns why a call cannot begin, nil if it can.
func (m *Mutex) refuse(ctx context.Context) error {
	if m == nil || m.r == nil {
		return fmt.Errorf("%w: shared: make it with New", redlock.ErrNotAcquired)
	}
	if ctx == nil {
		return m.failed(errors.New("nil context"))
	}
	rd, _ := ctx.Value(m.key).(*Reader)
	if rd != nil && rd.Err() == nil || settings.Holds(ctx, m.r, m.slots) {
		return m.failed(redlock.ErrAlreadyHeld)
	}
	return m.failed(ctx.Err())
}

// failed returns the error of a call that has got nothing because of err; nil if err is.
func (m *Mutex) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %v: %w", redlock.ErrNotAcquired, m, err)
}

// Format prints the name, whatever the verb. Without it, fmt would print the fields.
func (m *Mutex) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "shared %q", m.name) }
