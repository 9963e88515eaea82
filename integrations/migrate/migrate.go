// Package redlockmigrate has one process at a time migrate databases with
// [github.com/golang-migrate/migrate/v4]: a [Driver] is any of its database drivers, whose lock is a
// redlock.
//
//	driver, err := mysql.WithInstance(db, &mysql.Config{})
//	…
//	locked := redlockmigrate.New(driver, r, "migrate:orders", time.Minute)
//	m, err := migrate.NewWithInstance("iofs", source, "mysql", locked)
//	…
//	err = m.Up()
//
// Of several processes that come at the same time, one migrates. The others wait, and then get
// migrate.ErrNoChange.
//
// # When the lock is lost
//
// A redlock is a lease: it is extended while the migrations run, and is lost if a quorum of the
// nodes cannot be reached for longer than its ttl. Migrate gives drivers no context, so a migration
// that is running goes on. No other one begins: the Driver refuses it, and what migrate was called
// for returns an error that matches [redlock.ErrLost].
//
// Another process that gets the lock meanwhile does nothing, since migrate marks the version as dirty
// before each migration, and refuses a dirty version. When the running migration has ended, the
// Driver removes that mark, unless somebody has changed it. What is left is a process that is
// suspended between the check of its lock and the mark. [Driver.Both] closes that gap.
package redlockmigrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/seed6c881748/redlock/redlock"
)

var _ database.Driver = (*Driver)(nil)

// A Driver is a database driver whose lock is a redlock instead of its own. Set its fields before its first use.
//
// It has the methods of database.Driver and its own. What else the embedded driver can do is hidden: use that driver
// itself.
type Driver struct {
	database.Driver

	// Wait is how long Lock waits for another process, by default 10 s. It must be shorter than
	// migrate's LockTimeout, by default 15 s: after that migrate gives up, but does not end its call
	// of Lock, and nobody would unlock what is got then, until Close.
	Wait time.Duration

	// Both has Lock take the driver's own lock as well, after the redlock. That one ends with the
	// connection that migrates, so that nobody comes in before, even if the redlock is lost. But
	// drivers also take it while they are opened. So where a migration is running, the others wait
	// in WithInstance: on PostgreSQL without end, on MySQL for 10 s, after which it fails.
	Both bool

	acquire func(ctx context.Context) (*redlock.Lock, error)
	open    context.Context //nolint:containedctx // It ends with Close. Migrate gives drivers no context.
	close   context.CancelFunc
	locked  atomic.Bool // A Lock is running or has succeeded.
	held    atomic.Pointer[redlock.Lock]
}

// New returns a Driver that locks a resource of this name for ttl and extends it until it is unlocked.
// The ttl is how long the others wait for a process that has died.
func New(d database.Driver, r *redlock.Redlock, name string, ttl time.Duration, opts ...redlock.Option) *Driver {
	opts = append([]redlock.Option{redlock.WithRetryCount(-1)}, opts...) // Wait ends it.
	return wrap(d, func(ctx context.Context) (*redlock.Lock, error) { return r.Lock(ctx, []string{name}, ttl, opts...) })
}

func wrap(d database.Driver, acquire func(context.Context) (*redlock.Lock, error)) *Driver {
	open, cancel := context.WithCancel(context.Background())
	return &Driver{Driver: d, Wait: 10 * time.Second, acquire: acquire, open: open, close: cancel}
}

// String names the type of the embedded driver. Its fields may be secret, and those of the Driver change.
func (d *Driver) String() string { return fmt.Sprintf("%T with the lock of redlock", d.Driver) }

// Format prints the String, whatever the verb.
func (d *Driver) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, d.String()) }

// MarshalText returns the String, for those who log JSON.
func (d *Driver) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Lock takes the redlock, and with Both the driver's own lock. The error matches database.ErrLocked if
// this Driver has the lock, or if another one has it for longer than Wait.
func (d *Driver) Lock() error {
	return database.CasRestoreOnErr(&d.locked, false, true, database.ErrLocked, d.lock)
}

func (d *Driver) lock() error {
	ctx, cancel := context.WithTimeout(d.open, d.Wait)
	defer cancel()
	held, err := d.acquire(ctx)
	if errors.Is(err, redlock.ErrTaken) {
		return fmt.Errorf("%w: %w", database.ErrLocked, err)
	}
	if err != nil {
		return fmt.Errorf("redlockmigrate: %w", err)
	}
	held.KeepAlive(d.open)
	if d.Both {
		if err = d.Driver.Lock(); err != nil {
			_ = held.Unlock(ctx)
			return err
		}
	}
	d.held.Store(held)
	if err = d.open.Err(); err != nil { // Close may not have seen it.
		return errors.Join(err, d.release())
	}
	return nil
}

// Unlock releases the lock. The error matches database.ErrNotLocked if there are none, and
// [redlock.ErrLost] if the redlock was lost before; then migrate takes the database for locked still,
// and one needs another Migrate. A release that too few nodes have confirmed is no error: the
// redlock ends after its ttl at the latest.
func (d *Driver) Unlock() error {
	if d.held.Load() == nil {
		return database.ErrNotLocked
	}
	var err error
	if d.Both {
		err = d.Driver.Unlock()
	}
	err = errors.Join(err, d.release())
	d.locked.Store(false)
	return err
}

// release returns an error if the redlock was lost. Unlock ignores that a context has ended.
func (d *Driver) release() error {
	held := d.held.Swap(nil)
	if held == nil {
		return nil
	}
	if err := held.Unlock(d.open); errors.Is(err, redlock.ErrLost) {
		return lost(err)
	}
	return nil
}

// Close closes the driver, ends a Lock that waits, and releases the redlock.
func (d *Driver) Close() error {
	d.close()
	err := d.Driver.Close() // First, so that nobody comes in while a statement may be running.
	return errors.Join(err, d.release())
}

// Open opens the driver with a URL, and returns it with the same lock.
func (d *Driver) Open(url string) (database.Driver, error) {
	opened, err := d.Driver.Open(url)
	if err != nil {
		return nil, err
	}
	locked := wrap(opened, d.acquire)
	locked.Wait, locked.Both = d.Wait, d.Both
	return locked, nil
}

// Run applies a migration, unless the lock is lost.
func (d *Driver) Run(migration io.Reader) error {
	if err := d.check(); err != nil {
		return err
	}
	return d.Driver.Run(migration)
}

// Drop deletes everything in the database, unless the lock is lost.
func (d *Driver) Drop() error {
	if err := d.check(); err != nil {
		return err
	}
	return d.Driver.Drop()
}

// SetVersion saves the version. If the lock is lost, it says only that a migration has ended whose
// beginning it has saved: while a version is dirty, nobody else migrates.
func (d *Driver) SetVersion(version int, dirty bool) error {
	if lost := d.check(); lost != nil {
		begun, wasDirty, err := d.Version()
		if err != nil || dirty || !wasDirty || begun != version {
			return errors.Join(lost, err)
		}
	}
	return d.Driver.SetVersion(version, dirty)
}

// check returns an error if the lock was there and is lost.
func (d *Driver) check() error {
	if held := d.held.Load(); held != nil {
		if err := held.Err(); err != nil {
			return lost(err)
		}
	}
	return nil
}

func lost(err error) error {
	return fmt.Errorf("redlockmigrate: the lock was lost, so another process may migrate, too: %w", err)
}
