package fencing_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	_ "github.com/go-sql-driver/mysql" // The driver "mysql".
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // The driver "sqlite".

	"github.com/seed6c881748/redlock/examples/fencing/sqlstore"
	"github.com/seed6c881748/redlock/test/testdb"
)

// account is the one that the tests are about.
const account = "joint"

// A database is one that sqlstore is for, and what it does in its own way.
type database struct {
	sqlstore.Dialect
	driver  string
	dsn     func(t *testing.T) string
	history string // creates a table of fences, which are in the order in which they were appended
	append  string // appends a fence
}

var postgres = database{
	Dialect: sqlstore.Postgres, driver: "postgres",
	dsn:     func(t *testing.T) string { return testdb.Postgres(t, "postgres") },
	history: `CREATE TABLE history (nr BIGINT PRIMARY KEY, fence BIGINT NOT NULL)`,
	append:  `INSERT INTO history (nr, fence) SELECT COUNT(*), CAST($1 AS BIGINT) FROM history`,
}

var sqlite = database{
	Dialect: sqlstore.SQLite, driver: "sqlite",
	dsn: func(t *testing.T) string {
		// Writers wait for each other instead of failing at once.
		return "file:" + filepath.ToSlash(filepath.Join(t.TempDir(), "db")) +
			"?_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"
	},
	history: postgres.history,
	append:  postgres.append,
}

// mariadb returns the database for a client with these parameters, which say how rows are counted.
func mariadb(parameters string) database {
	return database{
		Dialect: sqlstore.MySQL, driver: "mysql",
		dsn:     func(t *testing.T) string { return testdb.MariaDB(t) + parameters },
		history: `CREATE TABLE history (nr BIGINT PRIMARY KEY AUTO_INCREMENT, fence BIGINT NOT NULL)`,
		append:  `INSERT INTO history (fence) VALUES (?)`,
	}
}

func databases(t *testing.T, test func(t *testing.T, d database)) {
	t.Helper()
	t.Parallel()
	for name, d := range map[string]database{
		"SQLite": sqlite, "PostgreSQL": postgres, "MariaDB": mariadb(""), "MariaDBFound": mariadb("?clientFoundRows=true"),
	} {
		t.Run(name, func(t *testing.T) { test(t, d) })
	}
}

func (d database) open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.driver, d.dsn(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxOpenConns(4)
	execute(t, db, d.Schema)
	return db
}

func execute(t *testing.T, db *sql.DB, statement string, args ...any) (rows int64) {
	t.Helper()
	res, err := db.ExecContext(t.Context(), statement, args...)
	require.NoError(t, err)
	rows, err = res.RowsAffected()
	require.NoError(t, err)
	return rows
}

func TestSQLRefusesEarlierHolders(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		for name, set := range map[string]func(context.Context, sqlstore.DB, string, int64, int64) error{
			"Write": d.Write, "Put": d.Put,
		} {
			t.Run(name, func(t *testing.T) {
				keepsOut(t, func(t *testing.T) store {
					db := d.open(t)
					if name == "Write" {
						require.NoError(t, d.Put(t.Context(), db, account, 1, 0))
					}
					return store{
						write: func(fence int64, value string) error {
							balance, err := strconv.ParseInt(value, 10, 64)
							return errors.Join(err, set(t.Context(), db, account, fence, balance))
						},
						read: func(fence int64) (string, error) {
							balance, err := d.Read(t.Context(), db, account, fence)
							return strconv.FormatInt(balance, 10), err
						},
						stale: sqlstore.ErrStale,
					}
				})
			})
		}
	})
}

func TestSQLAccounts(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		db := d.open(t)
		others := []string{"Joint", "joint ", "jöint"} // Which are not the account.
		for _, another := range others {
			require.NoError(t, d.Put(t.Context(), db, another, 7, 1))
		}
		err := d.Write(t.Context(), db, account, 5, 1)
		require.ErrorIs(t, err, sqlstore.ErrNotFound)
		require.NotErrorIs(t, err, sqlstore.ErrStale)
		_, err = d.Read(t.Context(), db, account, 5)
		require.ErrorIs(t, err, sqlstore.ErrNotFound)
		require.NoError(t, d.Put(t.Context(), db, account, 5, 1))
		for range 2 { // What says again what is stored is not refused.
			require.NoError(t, d.Put(t.Context(), db, account, 5, 2))
			require.NoError(t, d.Write(t.Context(), db, account, 5, 2))
		}
	})
}

// Transactions have several statements behind one Read, by many holders at once. What they have appended to a table
// without a fence is in order.
func TestTransactionIsRefusedAsAWhole(t *testing.T) {
	databases(t, func(t *testing.T, d database) {
		const holders, rounds = 6, 10
		db := d.open(t)
		execute(t, db, d.history)
		require.NoError(t, d.Put(t.Context(), db, account, 1, 0))
		var wg sync.WaitGroup
		for i := range holders {
			wg.Go(func() {
				for _, fence := range someFences(uint64(i), rounds) {
					if err := d.deposit(t.Context(), db, fence); err != nil && !errors.Is(err, sqlstore.ErrStale) {
						t.Errorf("fence %d: %v", fence, err)
					}
				}
			})
		}
		wg.Wait()

		fences := history(t, db)
		require.True(t, slices.IsSorted(fences), "%v", fences)
		require.Less(t, len(fences), holders*rounds, "none was refused")
		var balance, fence int64
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT balance, fence FROM account`).Scan(&balance, &fence))
		require.EqualValues(t, len(fences), balance, "an update was lost")
		require.Equal(t, fences[len(fences)-1], fence)
	})
}

// deposit adds 1 to the balance and a line to the history.
func (d database) deposit(ctx context.Context, db *sql.DB, fence int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // Nothing after a Commit.
	if d.driver == "mysql" {             // It has its snapshot before it reads the balance.
		if err = tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM history`).Scan(new(int)); err != nil {
			return err
		}
	}
	balance, err := d.Read(ctx, tx, account, fence)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, d.append, fence); err != nil {
		return err
	}
	if err := d.Write(ctx, tx, account, fence, balance+1); err != nil {
		return err
	}
	return tx.Commit()
}

func history(t *testing.T, db *sql.DB) (fences []int64) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT fence FROM history ORDER BY nr`)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		var fence int64
		require.NoError(t, rows.Scan(&fence))
		fences = append(fences, fence)
	}
	require.NoError(t, rows.Err())
	return fences
}

// What the package says of PostgreSQL's higher levels of isolation.
func TestATransactionWithASnapshotIsRunAgain(t *testing.T) {
	t.Parallel()
	d := postgres
	db := d.open(t)
	require.NoError(t, d.Put(t.Context(), db, account, 1, 0))
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	require.NoError(t, err)
	require.NoError(t, tx.QueryRowContext(t.Context(), `SELECT balance FROM account`).Scan(new(int64)))
	require.NoError(t, d.Write(t.Context(), db, account, 5, 1))
	_, err = d.Read(t.Context(), tx, account, 6)
	var refused *pq.Error
	require.ErrorAs(t, err, &refused)
	require.EqualValues(t, "40001", refused.Code) // serialization_failure
	require.NoError(t, tx.Rollback())
}

// What docs/fencing.md prints does what it says there.
func TestTheSQLOfTheDocument(t *testing.T) {
	blocks, inGo := documentedSQL(t)
	databases(t, func(t *testing.T, d database) {
		db := d.open(t)
		execute(t, db, `DROP TABLE account`)
		execute(t, db, blocks[0])
		execute(t, db, blocks[1])
		read := func(fence int64) (balance, seen int64) {
			seen = fence
			err := db.QueryRowContext(t.Context(), inGo[0], fence, "42").Scan(&balance)
			if errors.Is(err, sql.ErrNoRows) {
				return 0, -1
			}
			require.NoError(t, err)
			return balance, seen
		}
		write := func(fence, balance int64) int64 { return execute(t, db, inGo[1], balance, fence, "42") }
		if d.driver == "mysql" {
			read = func(fence int64) (balance, seen int64) {
				execute(t, db, blocks[2], fence, "42", fence)
				require.NoError(t, db.QueryRowContext(t.Context(), blocks[3], "42").Scan(&balance, &seen))
				return balance, seen
			}
			statement := regexp.MustCompile(`\$\d`).ReplaceAllString(inGo[1], "?")
			write = func(fence, balance int64) int64 { return execute(t, db, statement, balance, fence, "42", fence) }
		}

		balance, seen := read(7)
		require.Equal(t, []int64{100, 7}, []int64{balance, seen})
		require.Zero(t, write(6, 1), "an earlier holder, after the read")
		require.EqualValues(t, 1, write(7, balance-30))
		_, seen = read(6)
		require.NotEqualValues(t, 6, seen, "not its own")
		balance, seen = read(8)
		require.Equal(t, []int64{70, 8}, []int64{balance, seen})
	})
}

// documentedSQL is the SQL of docs/fencing.md: the statements of its blocks of SQL, and those in its Go, in their order.
func documentedSQL(t *testing.T) (blocks, inGo []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/fencing.md")
	require.NoError(t, err)
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for statement := range strings.SplitSeq(strings.TrimSpace(block[1]), ";\n") {
			blocks = append(blocks, strings.TrimSuffix(statement, ";"))
		}
	}
	for _, literal := range regexp.MustCompile("Context\\(ctx, `([^`]*)`").FindAllStringSubmatch(string(text), -1) {
		inGo = append(inGo, literal[1])
	}
	require.Len(t, blocks, 4, "the table, its row, two statements for MariaDB")
	require.Len(t, inGo, 2, "a read and a write")
	return blocks, inGo
}
