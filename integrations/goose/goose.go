// Package redlockgoose has one process at a time migrate databases with
// [github.com/pressly/goose/v3]: a [Locker] is what goose's provider takes a lock by.
//
//	locker := redlockgoose.New(r, "migrate:orders", time.Minute)
//	provider, err := goose.NewProvider(goose.DialectMySQL, db, migrations, goose.WithSessionLocker(locker))
//	…
//	results, err := provider.Up(ctx)
//
// Of several processes that come at the same time, one migrates. The others wait, and then find
// nothing to do.
//
// # When the lock is lost
//
// A redlock is a lease: it is extended while the migrations run, and is lost if a quorum of the
// nodes cannot be reached for longer than its ttl. Another process may migrate then. What goose
// does at that moment depends on how it got the lock:
//
//   - With goose.WithSessionLocker, the connection that migrates is closed. A statement that is
//     running ends first; the next one fails, and the database rolls back a transaction that
//     is open. (PostgreSQL and SQLite can roll back what changes tables. MariaDB and MySQL cannot.)
//     It does not reach a migration in Go without a transaction, as goose gives it the *sql.DB.
//   - With goose.WithLocker, nothing stops. Goose has no way to be told.
//   - [redlock.Redlock.Do] around provider.Up needs no Locker and is the strongest: the context that
//     goose uses ends with the lock, so that the driver cancels what is running. It also covers
//     what Up does before it asks for the lock, such as to create goose's table.
//
// In the first two cases the call of the provider returns an error that matches [redlock.ErrLost],
// even if all migrations went well.
package redlockgoose

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/pressly/goose/v3/lock"

	"github.com/seed6c881748/redlock/redlock"
)

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.SessionLocker = (*Locker)(nil)
)

// retries are as many as fit into about five minutes, for which goose's own lockers wait as well.
const retries = 1500

// errNotLocked is the error of an Unlock without a Lock.
var errNotLocked = errors.New("redlockgoose: not locked")

// A Locker lets one provider at a time migrate, of all those that use lockers with the same name and
// nodes. It is for goose.WithSessionLocker, or for goose.WithLocker. Several providers of a process
// can share it.
type Locker struct {
	r    *redlock.Redlock
	name string
	ttl  time.Duration
	opts []redlock.Option

	turn chan struct{} // Full while somebody has the lock, who owns what follows.
	held *redlock.Lock
	stop func() // Ends the watch over a session.
}

// New returns a Locker that locks a resource of this name for ttl and extends it until it is unlocked.
// The ttl is how long the others wait for a process that has died.
//
// A Locker waits for about five minutes, unless opts have another redlock.WithRetryCount: -1 is until
// the context ends.
func New(r *redlock.Redlock, name string, ttl time.Duration, opts ...redlock.Option) *Locker {
	opts = append([]redlock.Option{redlock.WithRetryCount(retries)}, opts...)
	return &Locker{r: r, name: name, ttl: ttl, opts: opts, turn: make(chan struct{}, 1)}
}

// Lock takes the lock, and has it extended until Unlock. It ignores the database, which may be nil.
// Errors are those of [redlock.Redlock.Lock].
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	_, err := l.lock(ctx)
	return err
}

// lock returns a context that ends with the lock.
func (l *Locker) lock(ctx context.Context) (kept context.Context, err error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("redlockgoose: another provider of this process has the lock on %q: %w", l.name, context.Cause(ctx))
	}
	held, err := l.r.Lock(ctx, []string{l.name}, l.ttl, l.opts...)
	if err != nil {
		<-l.turn
		return nil, fmt.Errorf("redlockgoose: %w", err)
	}
	l.held, l.stop = held, func() {}
	return held.KeepAlive(context.WithoutCancel(ctx)), nil // After the end of ctx, goose has yet to stop and unlock.
}

// Unlock releases the lock. The error matches [redlock.ErrLost] if it was lost before. A release that
// too few nodes have confirmed is no error: the lock ends after its ttl at the latest.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	if len(l.turn) == 0 {
		return errNotLocked
	}
	l.stop()
	err := l.held.Unlock(ctx)
	<-l.turn
	if errors.Is(err, redlock.ErrLost) {
		return fmt.Errorf("redlockgoose: the lock on %q was lost, so another process may have migrated, too: %w", l.name, err)
	}
	return nil
}

// SessionLock is Lock, and closes the connection if the lock is lost before SessionUnlock.
func (l *Locker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	kept, err := l.lock(ctx)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(kept, func() {
		defer close(ended)
		closeSession(conn)
	})
	l.stop = func() {
		if !stop() {
			<-ended // A sql.Conn must not be given back while it is used.
		}
	}
	return nil
}

// SessionUnlock is Unlock. Goose calls it when it has ended its use of the connection.
func (l *Locker) SessionUnlock(ctx context.Context, _ *sql.Conn) error { return l.Unlock(ctx, nil) }

// Format prints the name, whatever the verb: the fields belong to who has the lock.
func (l *Locker) Format(s fmt.State, _ rune) { _, _ = fmt.Fprintf(s, "Locker of %q", l.name) }

// closeSession closes a connection beneath whoever uses it, after the statement that is running.
// conn.Close would wait for the end of a transaction.
func closeSession(conn *sql.Conn) {
	_ = conn.Raw(func(c any) error {
		if c, ok := c.(driver.Conn); ok {
			return c.Close()
		}
		return nil
	})
}
