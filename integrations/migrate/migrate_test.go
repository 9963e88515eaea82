package redlockmigrate

import (
	"database/sql"
	"errors"
	"io"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/mysql"
	"github.com/golang-migrate/migrate/v4/database/postgres"
	conformance "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testdb"
)

const name = "migrate:orders"

// databases runs a test on each database, with the driver's own lock as well, and without it.
func databases(t *testing.T, test func(t *testing.T, driver, dsn string, both bool)) {
	t.Helper()
	for title, both := range map[string]bool{"Both": true, "Instead": false} {
		t.Run("PostgreSQL/"+title, func(t *testing.T) {
			t.Parallel()
			test(t, "postgres", testdb.Postgres(t, "postgres"), both)
		})
		t.Run("MariaDB/"+title, func(t *testing.T) {
			t.Parallel()
			test(t, "mysql", testdb.MariaDB(t)+"?multiStatements=true", both)
		})
	}
}

// open returns the driver of a database, without a redlock.
func open(driver, dsn string) (database.Driver, error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	if driver == "mysql" {
		return mysql.WithInstance(db, &mysql.Config{})
	}
	return postgres.WithInstance(db, &postgres.Config{})
}

func mustOpen(t *testing.T, driver, dsn string) database.Driver {
	t.Helper()
	d, err := open(driver, dsn)
	require.NoError(t, err)
	return d
}

func newMigrate(d database.Driver) (*migrate.Migrate, error) {
	source, err := iofs.New(fstest.MapFS{
		"1_orders.up.sql":   {Data: []byte("CREATE TABLE orders (x INT)")},
		"1_orders.down.sql": {Data: []byte("DROP TABLE orders")},
		"2_first.up.sql":    {Data: []byte("INSERT INTO orders VALUES (1)")},
		"2_first.down.sql":  {Data: []byte("DELETE FROM orders")},
	}, ".")
	if err != nil {
		return nil, err
	}
	return migrate.NewWithInstance("iofs", source, "orders", d)
}

func mustMigrate(t *testing.T, d database.Driver) *migrate.Migrate {
	t.Helper()
	m, err := newMigrate(d)
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
		d := New(mustOpen(t, driver, dsn), r, name, time.Minute)
		d.Both = both
		conformance.Test(t, d, []byte("CREATE TABLE orders (x INT)"))
		require.NoError(t, d.Close())

		d = New(mustOpen(t, driver, dsn), r, name, time.Minute)
		d.Both = both
		m := mustMigrate(t, d)
		conformance.TestMigrate(t, m)
		closeMigrate(t, m)
	})
}

func TestDown(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, driver, dsn string, both bool) {
		d := New(mustOpen(t, driver, dsn), nodetest.Redlock(t, testcluster.RunEmbedded(t, 3).Addrs()), name, time.Minute)
		d.Both = both
		m := mustMigrate(t, d)
		defer closeMigrate(t, m)
		require.NoError(t, m.Up())
		require.ErrorIs(t, m.Up(), migrate.ErrNoChange)
		require.NoError(t, m.Down())
		_, _, err := m.Version()
		require.ErrorIs(t, err, migrate.ErrNilVersion)
	})
}

// A watched driver calls a function before each migration.
type watched struct {
	database.Driver
	before func() error
}

func (w *watched) Run(migration io.Reader) error {
	if err := w.before(); err != nil {
		return err
	}
	return w.Driver.Run(migration)
}

// lose removes the lock from all nodes, and waits until an extension has shown it.
func lose(t *testing.T, cluster *testcluster.Cluster, d *Driver) {
	t.Helper()
	for _, n := range cluster.Nodes {
		require.NoError(t, n.Del(name))
	}
	require.Eventually(t, func() bool { return d.check() != nil }, 2*time.Minute, 10*time.Millisecond)
}

// The lock is lost in the middle of a migration.
func TestTheLockIsLost(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, driver, dsn string, both bool) {
		cluster := testcluster.RunEmbedded(t, 3)
		w := &watched{Driver: mustOpen(t, driver, dsn)}
		d := New(w, nodetest.Redlock(t, cluster.Addrs()), name, 2*time.Second) // The next extension is not long in coming.
		d.Both = both
		w.before = func() error {
			lose(t, cluster, d)
			return nil
		}
		m := mustMigrate(t, d)
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
	t.Parallel()
	databases(t, func(t *testing.T, driver, dsn string, both bool) {
		cluster := testcluster.RunEmbedded(t, 3)
		d := New(mustOpen(t, driver, dsn), nodetest.Redlock(t, cluster.Addrs()), name, 2*time.Second)
		d.Both = both
		require.NoError(t, d.Lock())
		require.NoError(t, d.SetVersion(3, true))
		lose(t, cluster, d)
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

func TestAnotherHasTheLock(t *testing.T) {
	t.Parallel()
	cluster := testcluster.RunEmbedded(t, 3)
	databases(t, func(t *testing.T, driver, dsn string, _ bool) {
		r := nodetest.Redlock(t, cluster.Addrs())
		resource := name + t.Name()
		first := New(mustOpen(t, driver, dsn), r, resource, time.Minute)
		require.NoError(t, first.Lock())
		require.ErrorIs(t, first.Lock(), database.ErrLocked)

		second := New(mustOpen(t, driver, dsn), r, resource, time.Minute)
		second.Wait = 50 * time.Millisecond
		m := mustMigrate(t, second)
		require.ErrorIs(t, m.Up(), database.ErrLocked)
		second.Wait, m.LockTimeout = time.Hour, 50*time.Millisecond
		require.ErrorIs(t, m.Up(), migrate.ErrLockTimeout)
		closeMigrate(t, m)
		require.NoError(t, first.Close())
		// Neither the Close nor the Lock that was waiting has left a lock.
		require.Eventually(t, func() bool {
			lock, err := r.TryLock(t.Context(), []string{resource}, time.Minute)
			return err == nil && lock.Unlock(t.Context()) == nil
		}, 2*time.Minute, 10*time.Millisecond)
		require.Eventually(t, func() bool { return !second.locked.Load() }, 2*time.Minute, 10*time.Millisecond)
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()
	dsn := testdb.MariaDB(t)
	d := New(&mysql.Mysql{}, nodetest.Redlock(t, testcluster.RunEmbedded(t, 3).Addrs()), name, time.Minute)
	d.Both = true
	_, err := d.Open("mysql://%")
	require.Error(t, err)
	opened, err := d.Open("mysql://" + dsn)
	require.NoError(t, err)
	require.True(t, opened.(*Driver).Both)
	require.NoError(t, opened.Lock())
	require.ErrorIs(t, opened.Lock(), database.ErrLocked)
	require.NoError(t, opened.Close())
}
