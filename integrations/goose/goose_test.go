package redlockgoose

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/go-sql-driver/mysql" // The driver "mysql".
	_ "github.com/lib/pq"              // The driver "postgres".
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock/locktesting"
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

// A database is one that goose migrates.
type database struct {
	dialect goose.Dialect
	driver  string
	dsn     string
}

// databases runs a test on each database.
func databases(t *testing.T, test func(t *testing.T, d database)) {
	t.Helper()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, database{goose.DialectPostgres, "postgres", testdb.Postgres(t, "postgres")})
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		test(t, database{goose.DialectMySQL, "mysql", testdb.MariaDB(t)})
	})
}

func (d database) open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.driver, d.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

// provider returns a provider that has made its table: that is not under its lock.
func (d database) provider(t *testing.T, db *sql.DB, option goose.ProviderOption, migrations ...*goose.Migration) *goose.Provider {
	t.Helper()
	p, err := goose.NewProvider(d.dialect, db, nil, option,
		goose.WithGoMigrations(migrations...), goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)
	_, err = p.HasPending(t.Context())
	require.NoError(t, err)
	return p
}

func in(version int64, run func(ctx context.Context, tx *sql.Tx) error) *goose.Migration {
	return goose.NewGoMigration(version, &goose.GoFunc{RunTx: run}, nil)
}

func statement(version int64, text string) *goose.Migration {
	return in(version, func(ctx context.Context, tx *sql.Tx) error { return exec(ctx, tx, text) })
}

func exec(ctx context.Context, tx *sql.Tx, text string) error {
	_, err := tx.ExecContext(ctx, text)
	return err
}

// What goose asks of a locker: of five providers, one migrates, in both ways in which goose takes a lock.
func TestProviders(t *testing.T) {
	t.Parallel()
	for kind, option := range map[string]func(*Locker) goose.ProviderOption{
		"Locker":        func(l *Locker) goose.ProviderOption { return goose.WithLocker(l) },
		"SessionLocker": func(l *Locker) goose.ProviderOption { return goose.WithSessionLocker(l) },
	} {
		t.Run(kind, func(t *testing.T) {
			databases(t, func(t *testing.T, d database) {
				cluster := testcluster.RunEmbedded(t, 3)
				locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
					l := New(nodetest.Redlock(t, cluster.Addrs()), name, time.Minute)
					return d.provider(t, d.open(t), option(l),
						statement(1, "CREATE TABLE a (x INT)"), statement(2, "CREATE TABLE b (x INT)"))
				})
			})
		})
	}
}

// The lock is lost in the middle of a migration.
func TestTheLockIsLost(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, d database) {
		const ttl = 2 * time.Second // The next extension is not long in coming.
		cluster := testcluster.RunEmbedded(t, 3)
		l := New(nodetest.Redlock(t, cluster.Addrs()), name, ttl)
		db := d.open(t)
		_, err := db.ExecContext(t.Context(), "CREATE TABLE orders (x INT)")
		require.NoError(t, err)
		var failed error
		p := d.provider(t, db, goose.WithSessionLocker(l),
			in(1, func(ctx context.Context, tx *sql.Tx) error {
				failed = exec(ctx, tx, "INSERT INTO orders VALUES (1)")
				lose(t, cluster)
				for failed == nil {
					failed = exec(ctx, tx, "INSERT INTO orders VALUES (2)")
				}
				return failed
			}),
			statement(2, "INSERT INTO orders VALUES (3)"))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		_, err = p.Up(ctx)
		require.ErrorIs(t, err, redlock.ErrLost)
		require.NoError(t, ctx.Err(), "the session was not closed")
		require.ErrorIs(t, err, failed)
		var rows int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM orders").Scan(&rows))
		require.Zero(t, rows, "the transaction was not rolled back")
		version, err := p.GetDBVersion(t.Context())
		require.NoError(t, err)
		require.Zero(t, version)
		require.NoError(t, l.SessionLock(t.Context(), nil), "it can be locked again")
		require.NoError(t, l.SessionUnlock(t.Context(), nil))
	})
}

// lose removes the lock from all nodes.
func lose(t *testing.T, cluster *testcluster.Cluster) {
	t.Helper()
	for _, n := range cluster.Nodes {
		assert.NoError(t, n.Del(name))
	}
}

// With a Locker nothing stops goose, but it says so.
func TestALostLockerIsReported(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, d database) {
		cluster := testcluster.RunEmbedded(t, 3)
		l := New(nodetest.Redlock(t, cluster.Addrs()), name, time.Minute)
		p := d.provider(t, d.open(t), goose.WithLocker(l), in(1, func(context.Context, *sql.Tx) error {
			lose(t, cluster)
			return nil
		}))
		_, err := p.Up(t.Context())
		require.ErrorIs(t, err, redlock.ErrLost)
		require.ErrorContains(t, err, "another process may have migrated, too")
		version, err := p.GetDBVersion(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, version)
	})
}

func TestErrors(t *testing.T) {
	t.Parallel()
	cluster := testcluster.RunEmbedded(t, 3)
	l := New(nodetest.Redlock(t, cluster.Addrs(), redlock.WithNodeTimeout(time.Second)), name, time.Minute)
	require.Equal(t, `Locker of "`+name+`"`, fmt.Sprintf("%+v", l)) // fmt would read what belongs to who has the lock.
	require.ErrorIs(t, l.Unlock(t.Context(), nil), errNotLocked)
	require.NoError(t, l.Lock(t.Context(), nil))

	another := New(nodetest.Redlock(t, cluster.Addrs()), name, time.Minute, redlock.WithRetryCount(0))
	require.ErrorIs(t, another.SessionLock(t.Context(), nil), redlock.ErrTaken)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	require.ErrorIs(t, l.Lock(ctx, nil), cause)

	for _, n := range cluster.Nodes {
		require.NoError(t, n.Stop())
	}
	require.NoError(t, l.Unlock(t.Context(), nil), "the lock ends by itself")
	require.ErrorIs(t, l.Unlock(t.Context(), nil), errNotLocked)
}

// Goose stops when its context ends, and then unlocks. Until that nobody else may migrate, however long it takes.
func TestTheLockOutlivesTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		l := New(cluster.Redlock, name, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, l.Lock(ctx, nil))
		cancel()
		time.Sleep(time.Hour)
		require.Equal(t, []string{name}, cluster.Held())
		require.NoError(t, l.Unlock(ctx, nil), "it was held to the end")
		cluster.AssertFree()
	})
}

// As goose's own lockers, one waits for about five minutes while somebody migrates, and no longer.
func TestALockerWaitsForFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 1)
		first, second := New(cluster.Redlock, name, time.Hour), New(cluster.NewRedlock(), name, time.Hour)
		require.NoError(t, first.Lock(t.Context(), nil))
		began := time.Now()
		require.ErrorIs(t, second.Lock(t.Context(), nil), redlock.ErrTaken)
		require.InDelta(t, 5*time.Minute, time.Since(began), float64(time.Minute))
		require.NoError(t, first.Unlock(t.Context(), nil))
		cluster.AssertFree()
	})
}

// A slowConn is a connection whose Close takes until the test lets it go on.
type slowConn struct{ closing, goOn chan struct{} }

func (c slowConn) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (c slowConn) Driver() driver.Driver                        { return nil }
func (c slowConn) Prepare(string) (driver.Stmt, error)          { return nil, errors.New("no statements") }

func (c slowConn) Begin() (driver.Tx, error) { return nil, errors.New("no transactions") }

func (c slowConn) Close() error {
	c.closing <- struct{}{}
	<-c.goOn
	return nil
}

// Goose gives the connection back to the pool after SessionUnlock, for somebody else. Nobody may be closing it then.
func TestSessionUnlockWaitsForTheEndOfTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		l := New(cluster.Redlock, name, time.Minute)
		below := slowConn{make(chan struct{}, 2), make(chan struct{})}
		db := sql.OpenDB(below)
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.SessionLock(t.Context(), conn))
		cluster.Lose(l.held)
		<-below.closing
		unlocked := make(chan error, 1)
		go func() { unlocked <- l.SessionUnlock(t.Context(), conn) }()
		time.Sleep(time.Minute)
		assert.Empty(t, unlocked, "the connection is still in use")
		close(below.goOn)
		require.ErrorIs(t, <-unlocked, redlock.ErrLost)
		require.NoError(t, conn.Close())
		require.NoError(t, db.Close())
	})
}
