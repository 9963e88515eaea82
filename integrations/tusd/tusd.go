// Package redlocktusd has several servers of one store of uploads lock them for each other: a
// [Locker] is one for the handler of [github.com/tus/tusd/v2].
//
//	locker := redlocktusd.New(r, 10*time.Second)
//	composer := handler.NewStoreComposer()
//	store.UseIn(composer)
//	locker.UseIn(composer)
//	h, err := handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: composer})
//
// A client whose connection broke may come back through another server, while the first one still
// waits for the rest of the upload. That one is asked to stop. It stores what it has and unlocks, and
// the other server goes on from there.
//
// # When a lock is lost
//
// A redlock is a lease: it is extended while a request is served, and is lost if a quorum of the nodes
// cannot be reached for longer than its ttl. The request is then asked to stop as well, a third of the
// ttl before somebody else can have the lock; see [New]. What tusd's store does after that time, such
// as to complete a slow upload to S3, is not covered.
package redlocktusd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/seed6c881748/redlock/redlock"
)

var (
	_ handler.Locker = (*Locker)(nil)
	_ handler.Lock   = (*lock)(nil)
)

// A Locker locks uploads for the requests of all servers whose lockers use the same nodes. It is safe
// for concurrent use.
type Locker struct {
	r    *redlock.Redlock
	ttl  time.Duration
	opts []redlock.Option
}

// New returns a Locker that locks the resource "tusd:" + id for each upload.
//
// The ttl is how long an upload stays locked when the server that holds it has died, so it should be
// shorter than AcquireLockTimeout of handler.Config, which is 20 s by default. A request may take
// longer: until it is served, the lock is extended after 2/9 of the ttl, again and again. By an extension,
// a server learns that another one waits for the upload. 10 s is a good choice: a server dies
// for 10 s, and another one that lives is asked to stop within 2.2 s.
//
// By default a Locker waits until the context ends (redlock.WithRetryCount(-1)), and asks a request to
// stop a third of the ttl before a lock ends that cannot be extended (redlock.WithStopTime). The opts
// come after these.
//
// r remains the caller's to close, after the server's Shutdown. If opts are wrong, each Lock fails, and
// says why.
func New(r *redlock.Redlock, ttl time.Duration, opts ...redlock.Option) *Locker {
	opts = append([]redlock.Option{redlock.WithRetryCount(-1), redlock.WithStopTime(ttl / 3)}, opts...)
	return &Locker{r: r, ttl: ttl, opts: opts}
}

// UseIn adds the locker to a composer.
func (l *Locker) UseIn(composer *handler.StoreComposer) { composer.UseLocker(l) }

// NewLock returns a lock for the upload, which nobody holds yet. It never fails.
//
// Its Lock waits until the context ends, and the error is then handler.ErrLockTimeout, whether the
// upload was locked or too few nodes answered: the events of the Redlock say which. Its requestUnlock is
// called once at most, in a goroutine of its own: when somebody waits for the upload, or when the lock
// is lost, or will be. It may unlock. After Unlock it is not called any more.
//
// Its Unlock takes at most the node timeout. The error matches [redlock.ErrLost] if the lock was not held to
// the end, so that another server may have written to the upload, too. Without a lock Unlock does nothing.
func (l *Locker) NewLock(id string) (handler.Lock, error) {
	return &lock{locker: l, resource: "tusd:" + id}, nil
}

type lock struct {
	locker   *Locker
	resource string

	held *redlock.Lock // nil before the first Lock that succeeds
	stop func() bool   // keeps requestUnlock from being called
}

func (l *lock) Lock(ctx context.Context, requestUnlock func()) error {
	held, err := l.locker.r.Lock(ctx, []string{l.resource}, l.locker.ttl, l.locker.opts...)
	switch {
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, redlock.ErrTaken), errors.Is(err, redlock.ErrNoQuorum):
		return handler.ErrLockTimeout // As it is: tusd shows the text of others to the client.
	default:
		return fmt.Errorf("redlocktusd: %w", err)
	}
	ctx = context.WithoutCancel(ctx) // It limits the wait only.
	kept := held.KeepAlive(ctx)
	unwanted, want := context.WithCancel(ctx)
	l.held, l.stop = held, context.AfterFunc(unwanted, requestUnlock)
	go func() {
		defer want()
		select {
		case <-kept.Done(): // By Unlock, too.
		case <-held.Wanted():
		}
	}()
	return nil
}

func (l *lock) Unlock() error {
	if l.held == nil {
		return nil
	}
	l.stop()
	if err := l.held.Unlock(context.Background()); err != nil {
		return fmt.Errorf("redlocktusd: %w", err)
	}
	return nil
}
