package redlockmigrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/mysql"
	"github.com/golang-migrate/migrate/v4/database/postgres"
	"github.com/golang-migrate/migrate/v4/database/stub"
	conformance "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/test/testdb"
)

const name = "migrate:orders"

func TestMain(m *testing.M) { testdb.Main(m) }

// databases runs a test on each database: on one with the driver's own lock as well, on the other one without it.
func databases(t *testing.T, test func(t *testing.T, driver, dsn string, both bool)) {
	t.Helper()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, "postgres", testdb.Postgres(t, "postgres"), true)
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		test(t, "mysql", testdb.MariaDB(t)+"?multiStatements=true", false)
	})
}

// open returns the driver of a database, without a redlock.
func open(t *testing.T, driver, dsn string) (d database.Driver) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	if driver == "mysql" {
		d, err = mysql.WithInstance(db, &mysql.Config{})
	} else {
		d, err = postgres.WithInstance(db, &postgres.Config{})
	}
	require.NoError(t, err)
	return d
}

func newMigrate(t *testing.T, d database.Driver) *migrate.Migrate {
	t.Helper()
	source, err := iofs.New(fstest.MapFS{
		"1_orders.up.sql":   {Data: []byte("CREATE TABLE orders (x INT)")},
		"1_orders.down.sql": {Data: []byte("DROP TABLE orders")},
		"2_first.up.sql":    {Data: []byte("INSERT INTO orders VALUES (1)")},
		"2_first.down.sql":  {Data: []byte("DELETE FROM orders")},
	}, ".")
	require.NoError(t, err)
	m, err := migrate.NewWithInstance("iofs", source, "orders", d)
	require.NoError(t, err)
	return m
}

func closeMigrate(t *testing.T, m *migrate.Migrate) {
	t.Helper()
	sourceErr, databaseErr := m.Close()
	assert.NoError(t, errors.Join(sourceErr, databaseErr))
}

// What migrate asks of its drivers.
func TestConformance(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, driver, dsn string, both bool) {
		r := nodetest.Redlock(t, testcluster.RunEmbedded(t, 3).Addrs())
		newDriver := func() *Driver {
			d := New(open(t, driver, dsn), r, name, time.Minute)
			d.Both = both
			return d
		}
		d := newDriver()
		conformance.Test(t, d, []byte("CREATE TABLE orders (x INT)"))
		require.NoError(t, d.Close())
		m := newMigrate(t, newDriver())
		conformance.TestMigrate(t, m)
		closeMigrate(t, m)
	})
}

// A watched driver calls a function before each migration.
type watched struct {
	database.Driver
	before func()
}

func (w *watched) Run(migration io.Reader) error {
	w.before()
	return w.Driver.Run(migration)
}

// The lock is lost in the middle of a migration.
func TestTheLockIsLost(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, driver, dsn string, both bool) {
		cluster := testcluster.RunEmbedded(t, 3)
		w := &watched{Driver: open(t, driver, dsn)}
		d := New(w, nodetest.Redlock(t, cluster.Addrs()), name, 2*time.Second) // The next extension is not long in coming.
		d.Both = both
		w.before = func() {
			for _, n := range cluster.Nodes {
				require.NoError(t, n.Del(name))
			}
			require.Eventually(t, func() bool { return d.check() != nil }, 2*time.Minute, 10*time.Millisecond)
		}
		m := newMigrate(t, d)
		defer closeMigrate(t, m)
		require.ErrorIs(t, m.Up(), redlock.ErrLost)
		version, dirty, err := m.Version()
		require.NoError(t, err)
		require.EqualValues(t, 1, version, "the migration was not finished, or the next one was begun")
		require.False(t, dirty)
		require.ErrorIs(t, m.Up(), migrate.ErrLocked, "one needs another Migrate")
		require.ErrorIs(t, d.Unlock(), database.ErrNotLocked)
	})
}

// After a loss, somebody has changed the version. That stands.
func TestAfterALossOthersAreRespected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		d := New(&stub.Stub{}, cluster.Redlock, name, time.Minute)
		require.NoError(t, d.Lock())
		require.NoError(t, d.SetVersion(3, true))
		cluster.Lose(d.held.Load())
		require.ErrorIs(t, d.Run(nil), redlock.ErrLost)
		require.ErrorIs(t, d.Drop(), redlock.ErrLost)
		require.ErrorIs(t, d.SetVersion(4, true), redlock.ErrLost)
		require.ErrorIs(t, d.SetVersion(4, false), redlock.ErrLost)
		require.NoError(t, d.Driver.SetVersion(7, true))
		require.ErrorIs(t, d.SetVersion(3, false), redlock.ErrLost)
		require.NoError(t, d.Driver.SetVersion(3, false))
		require.ErrorIs(t, d.SetVersion(3, false), redlock.ErrLost)
		require.NoError(t, d.Driver.SetVersion(3, true))
		require.ErrorIs(t, d.SetVersion(3, true), redlock.ErrLost)
		require.NoError(t, d.SetVersion(3, false))
		require.ErrorIs(t, d.Unlock(), redlock.ErrLost)
		require.NoError(t, d.Lock())
		require.NoError(t, d.Unlock())
		require.NoError(t, d.Close())
	})
}

// Whoever finds the lock taken waits as it was told, and leaves nothing behind, also if migrate gives up before.
func TestAnotherHasTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		first := New(&stub.Stub{}, cluster.Redlock, name, time.Minute)
		require.NoError(t, first.Lock())
		require.ErrorIs(t, first.Lock(), database.ErrLocked)

		second := New(&stub.Stub{}, cluster.NewRedlock(), name, time.Minute)
		m := newMigrate(t, second)
		start := time.Now()
		require.ErrorIs(t, m.Up(), database.ErrLocked)
		assert.Equal(t, 10*time.Second, time.Since(start).Round(time.Second))
		second.Wait, m.LockTimeout = time.Hour, time.Minute
		require.ErrorIs(t, m.Up(), migrate.ErrLockTimeout)
		closeMigrate(t, m)
		require.NoError(t, first.Close())
		synctest.Wait()
		cluster.AssertFree()
		require.False(t, second.locked.Load())
	})
}

func TestOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(&stub.Stub{}, redlocktest.New(t, 3).Redlock, name, time.Minute)
		d.Both = true
		opened, err := d.Open("stub://")
		require.NoError(t, err)
		require.True(t, opened.(*Driver).Both)
		require.NoError(t, opened.Lock())
		require.ErrorIs(t, opened.Lock(), database.ErrLocked)
		require.NoError(t, opened.Close())
	})
}

// A closing driver calls a function while it is closed.
type closing struct {
	database.Driver
	during func()
}

func (c closing) Close() error {
	c.during()
	return c.Driver.Close()
}

// A statement may be running until the driver is closed.
func TestCloseReleasesTheLockLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		var held []string
		d := New(closing{&stub.Stub{}, func() { held = cluster.Held() }}, cluster.Redlock, name, time.Minute)
		require.NoError(t, d.Lock())
		time.Sleep(time.Hour) // A migration may take longer than the ttl.
		require.NoError(t, d.Close())
		require.Equal(t, []string{name}, held)
		cluster.AssertFree()
	})
}

// Migrate gives up a Lock after its LockTimeout, but does not end the call. Close does.
func TestCloseEndsALockThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		release := cluster.Take(name, 24*time.Hour)
		d := New(&stub.Stub{}, cluster.Redlock, name, time.Minute)
		d.Wait = time.Hour
		ended := make(chan error, 1)
		go func() { ended <- d.Lock() }()
		time.Sleep(time.Minute)
		require.Empty(t, ended)
		require.NoError(t, d.Close())
		synctest.Wait()
		require.Len(t, ended, 1)
		require.Error(t, <-ended)
		release()
		cluster.AssertFree()
	})
}

// Nobody would unlock what a Lock gets after Close.
func TestALockThatComesAfterCloseIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		var d *Driver
		d = wrap(&stub.Stub{}, func(ctx context.Context) (*redlock.Lock, error) {
			lock, err := cluster.Redlock.Lock(ctx, []string{name}, time.Minute)
			assert.NoError(t, d.Close(), "it comes between the last answer and what Lock does with it")
			return lock, err
		})
		require.ErrorIs(t, d.Lock(), context.Canceled)
		cluster.AssertFree()
		require.ErrorIs(t, d.Unlock(), database.ErrNotLocked)
	})
}

// A driver whose own lock somebody else has.
type refusing struct{ database.Driver }

func (refusing) Lock() error { return database.ErrLocked }

// The driver's own lock is taken after the redlock, which is given back if that fails.
func TestTheDriverHasALockOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		d := New(refusing{&stub.Stub{}}, cluster.Redlock, name, time.Minute)
		d.Both = true
		require.ErrorIs(t, d.Lock(), database.ErrLocked)
		cluster.AssertFree()
		d.Both = false
		require.NoError(t, d.Lock())
		require.NoError(t, d.Close())
		cluster.AssertFree()
	})
}

// A secretive driver has a field that nobody must see.
type secretive struct {
	database.Driver

	Password string
}

func TestADriverPrintsNoSecretsWhileItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(secretive{Password: "hunter2"}, redlocktest.New(t, 1).Redlock, name, time.Minute)
		var both sync.WaitGroup
		both.Go(func() { assert.NoError(t, errors.Join(d.Lock(), d.Unlock())) })
		nodetest.RequirePrinted(t, "redlockmigrate.secretive with the lock of redlock", d)
		require.NotContains(t, fmt.Sprintf("%+v", []database.Driver{d}), "hunter2")
		both.Wait()
	})
}
