package sqlstore

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // The driver "sqlite".

	"github.com/seed6c881748/redlock/examples/fencing/internal/fencetest"
	"github.com/seed6c881748/redlock/test/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// databases runs a test with SQLite and with PostgreSQL.
func databases(t *testing.T, test func(t *testing.T, open func(t *testing.T) *sql.DB)) {
	t.Helper()
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) { test(t, openSQLite) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, openPostgres) })
}

func openSQLite(t *testing.T) *sql.DB {
	t.Helper()
	// Writers wait for each other instead of failing at once.
	file := "file:" + filepath.ToSlash(filepath.Join(t.TempDir(), "db"))
	file += "?_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"
	return fencetest.Open(t, "sqlite", file, Schema)
}

func openPostgres(t *testing.T) *sql.DB {
	t.Helper()
	return fencetest.Open(t, "postgres", testdb.Postgres(t, "postgres"), Schema)
}

var accounts = fencetest.Accounts[DB]{
	Put: Put, Write: Write, Read: Read, Stale: ErrStale, NotFound: ErrNotFound,
	Stored:  `SELECT balance, fence FROM account WHERE id = $1`,
	Others:  []string{"another"},
	History: `CREATE TABLE history (nr BIGINT PRIMARY KEY, fence BIGINT NOT NULL)`,
	Append:  `INSERT INTO history (nr, fence) SELECT COUNT(*), CAST($1 AS BIGINT) FROM history`,
}

func TestWriteRefusesEarlierHolders(t *testing.T)   { databases(t, accounts.WriteRefuses) }
func TestPutRefusesEarlierHolders(t *testing.T)     { databases(t, accounts.PutRefuses) }
func TestARepeatedWriteIsNotRefused(t *testing.T)   { databases(t, accounts.Repeated) }
func TestNoSuchAccount(t *testing.T)                { databases(t, accounts.NoSuchAccount) }
func TestTransactionIsRefusedAsAWhole(t *testing.T) { databases(t, accounts.Transaction) }
func TestErrorsOfTheDatabase(t *testing.T)          { databases(t, accounts.Errors) }

// What the package says of PostgreSQL's higher levels of isolation.
func TestATransactionWithASnapshotIsRunAgain(t *testing.T) {
	t.Parallel()
	db := openPostgres(t)
	require.NoError(t, Put(t.Context(), db, "joint", 1, 0))
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		require.NoError(t, err)
		var balance int64
		require.NoError(t, tx.QueryRowContext(t.Context(), `SELECT balance FROM account`).Scan(&balance))
		require.NoError(t, Write(t.Context(), db, "joint", 5, balance+1))
		_, err = Read(t.Context(), tx, "joint", 6)
		var refused *pq.Error
		require.ErrorAs(t, err, &refused)
		require.EqualValues(t, "40001", refused.Code) // serialization_failure
		require.NoError(t, tx.Rollback())
	}
	balance, err := Read(t.Context(), db, "joint", 6)
	require.NoError(t, err)
	require.EqualValues(t, 2, balance)
}
