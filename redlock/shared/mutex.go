package shared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
)

// MaxReaders is how many Mutexes of a name, so processes, may have readers at the same time; others wait. It is no option,
// and must not change between versions: a writer with a smaller one would not see readers on the slots above it.
const MaxReaders = 32

// turn is for how long readers of a process may join those that are there without a look whether a writer waits.
const turn = 10 * time.Millisecond

// turnstileTTL is for how long a process that is killed while it waits at the turnstile keeps others from it.
const turnstileTTL = 2 * time.Second

// What the turnstile's lock says of its holder: a writer, which waits for the readers to go, or one reader among others.
const (
	writing = "writer"
	reading = "reader"
)

// A Mutex is a name that many may read at a time, or one may write. It is safe for concurrent use. Only [New] makes one:
// the methods of a nil or zero Mutex fail with an error. A process needs one for each name, as its readers share
// what they hold.
//
// It has no Close. Goroutines that it needs are there only while callers wait, and closing its Redlock ends their wait.
type Mutex struct {
	of        contextKey
	ttl       time.Duration
	opts      []redlock.Option // of the locks on slots, a reader's one or a writer's all
	waits     []redlock.Option // and of those that wait, for as long as their context allows
	slots     []string
	permits   *semaphore.Semaphore // the same slots, for a reader that has to wait for one
	turnstile []string             // one resource, which a writer holds while it waits, and a reader while it waits for a slot

	writers atomic.Int32 // of this process, which wait

	mu      sync.Mutex // guards what follows; before a lock's
	current *permit    // which readers may join; nil before the first one
	looked  time.Time  // when no writer waited
	entry   *entry     // of readers that are about to come in; nil: none
}

// contextKey is the key of what a context has of a Mutex. Two Mutexes of a process with one name are the same here.
type contextKey struct {
	r    *redlock.Redlock
	name string
}

// New returns a Mutex for name over the nodes of r. What a reader or a writer has lives for ttl unless it is extended: a
// process that is killed keeps others out for no longer. It does no I/O. The error says which argument is wrong, and how.
//
// opts are those of the locks, see the package documentation. Options about retries and WithWait, also those of r, have no
// effect on Lock and RLock: they wait until their context ends.
func New(r *redlock.Redlock, name string, ttl time.Duration, opts ...redlock.Option) (*Mutex, error) {
	if name == "" {
		return nil, errors.New("shared: empty name")
	}
	m := &Mutex{of: contextKey{r, name}, ttl: ttl, opts: slices.Clip(opts), turnstile: []string{name + "#t"}}
	slots := name + "#r"
	m.slots = semaphore.Slots(slots, MaxReaders)
	m.waits = slices.Clip(append(m.opts, redlock.WithRetryCount(-1), redlock.WithRetryIf(func(error) bool { return true }),
		redlock.WithRetryBackoff(func(int) time.Duration { return 200 * time.Millisecond })))

	// A call whose context has ended checks its other arguments first, and sends nothing.
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := r.TryLock(ended, m.slots, ttl, m.opts...); !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("shared %q: %w", name, err)
	}
	var err error
	m.permits, err = semaphore.New(r, slots, MaxReaders, ttl, m.opts...)
	return m, err
}

// through calls get at the turnstile, with a context that ends if the turnstile is lost: then it stands there once more.
// It passes it on when get has returned. Nobody waits for that but whoever is next there, and Close of the Redlock.
func (m *Mutex) through(ctx context.Context, as string, get func(at context.Context) error) error {
	opts := append(slices.Clip(m.waits), settings.Plain().(redlock.Option), redlock.WithOwner(as))
	for {
		turnstile, err := m.of.r.Lock(ctx, m.turnstile, min(turnstileTTL, m.ttl), opts...)
		if err != nil {
			return err
		}
		at := turnstile.KeepAlive(ctx)
		err = get(at)
		isOver := err == nil || ctx.Err() != nil || at.Err() == nil || errors.Is(err, redlock.ErrClosed)
		exit := settings.Enter(m.of.r)
		go func() {
			defer exit()
			_ = turnstile.Unlock(ctx)
		}()
		if isOver {
			return err
		}
	}
}

// within returns a context in which the same name is refused as long as held is.
func (k contextKey) within(ctx context.Context, held interface{ Err() error }) context.Context {
	return context.WithValue(ctx, k, held)
}

// refuse says why a call cannot begin, nil if it can. hasWork is false of a Do without a function.
func (m *Mutex) refuse(ctx context.Context, hasWork bool) error {
	switch {
	case m == nil || m.of.r == nil:
		return acquireError{errors.New("shared: make it with New")}
	case ctx == nil:
		return m.failed(errors.New("nil context"), nil)
	case !hasWork:
		return m.failed(errors.New("nil function"), nil)
	case ctx.Err() != nil:
		return m.failed(ctx.Err(), nil)
	}
	if held, ok := ctx.Value(m.of).(interface{ Err() error }); ok && held.Err() == nil {
		return m.failed(fmt.Errorf("%w: this call would wait for what its own caller has", redlock.ErrAlreadyHeld), nil)
	}
	return nil
}

// acquireError is the error of a call that has got nothing.
type acquireError struct{ error }

func (e acquireError) Is(target error) bool { return target == redlock.ErrNotAcquired }

func (e acquireError) Unwrap() error { return e.error }

// failed returns the error of a call that ends because of cause. last is what was seen before that, if anything was.
func (m *Mutex) failed(cause, last error) error {
	if last == nil {
		return acquireError{fmt.Errorf("shared %q: %w", m.of.name, cause)}
	}
	return acquireError{fmt.Errorf("shared %q: %w; last attempt: %w", m.of.name, cause, last)}
}

// workError is an error of Do's function that matches ErrNotAcquired, which the error of Do must not: it was called.
type workError struct{ error }

func (e workError) Is(target error) bool {
	return target != redlock.ErrNotAcquired && errors.Is(e.error, target)
}

func (e workError) As(target any) bool { return errors.As(e.error, target) }

// Format prints the name, whatever the verb. Without it, fmt would print the fields.
func (m *Mutex) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "shared %q", m.of.name) }
