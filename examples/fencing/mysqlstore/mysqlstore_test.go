package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	_ "github.com/go-sql-driver/mysql" // The driver "mysql".
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/fencing/internal/fencetest"
	"github.com/seed6c881748/redlock/test/testdb"
)

const id = "joint"

func TestMain(m *testing.M) { testdb.Main(m) }

// databases runs a test with both ways in which clients can have rows counted.
func databases(t *testing.T, test func(t *testing.T, open func(t *testing.T) *sql.DB)) {
	t.Helper()
	for name, parameters := range map[string]string{"Changed": "", "Found": "?clientFoundRows=true"} {
		t.Run(name, func(t *testing.T) {
			test(t, func(t *testing.T) *sql.DB {
				t.Helper()
				return open(t, testdb.MariaDB(t)+parameters)
			})
		})
	}
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxOpenConns(4)
	_, err = db.ExecContext(t.Context(), Schema)
	require.NoError(t, err)
	return db
}

func TestWriteRefusesEarlierHolders(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, open func(t *testing.T) *sql.DB) {
		fencetest.Run(t, func(t *testing.T) fencetest.Store {
			db := open(t)
			require.NoError(t, Put(t.Context(), db, id, 1, 0))
			return store(t, db, Write)
		})
	})
}

func TestPutRefusesEarlierHolders(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, open func(t *testing.T) *sql.DB) {
		fencetest.Run(t, func(t *testing.T) fencetest.Store {
			return store(t, open(t), Put)
		})
	})
}

func store(t *testing.T, db *sql.DB, write func(context.Context, DB, string, int64, int64) error) fencetest.Store {
	t.Helper()
	return fencetest.Store{
		Write: func(fence int64, value string) error {
			balance, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return err
			}
			return write(t.Context(), db, id, fence, balance)
		},
		Read: func(fence int64) (string, error) {
			balance, err := Read(t.Context(), db, id, fence)
			return strconv.FormatInt(balance, 10), err
		},
		Stored: func() (value string, fence int64, err error) {
			err = db.QueryRowContext(t.Context(), `SELECT balance, fence FROM account WHERE id = ?`, id).Scan(&value, &fence)
			return value, fence, err
		},
		Stale: ErrStale,
	}
}

func TestARepeatedWriteIsNotRefused(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, open func(t *testing.T) *sql.DB) {
		db := open(t)
		require.NoError(t, Put(t.Context(), db, id, 5, 1))
		for range 2 {
			require.NoError(t, Put(t.Context(), db, id, 5, 2))
			require.NoError(t, Write(t.Context(), db, id, 5, 2))
		}
	})
}

func TestNoSuchAccount(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, open func(t *testing.T) *sql.DB) {
		db := open(t)
		for _, another := range []string{"Joint", "joint ", "jöint"} {
			require.NoError(t, Put(t.Context(), db, another, 7, 1))
		}
		err := Write(t.Context(), db, id, 5, 1)
		require.ErrorIs(t, err, ErrNotFound)
		require.NotErrorIs(t, err, ErrStale)
		_, err = Read(t.Context(), db, id, 5)
		require.ErrorIs(t, err, ErrNotFound)
		require.NoError(t, Put(t.Context(), db, id, 5, 1))
		require.NoError(t, Write(t.Context(), db, id, 5, 2))
	})
}

// TestTransactionIsRefusedAsAWhole has several statements behind one Read, by many
// holders at once. What they have appended to a table without a fence is in order.
func TestTransactionIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, open func(t *testing.T) *sql.DB) {
		const holders, rounds = 6, 10
		db := open(t)
		_, err := db.ExecContext(t.Context(), `CREATE TABLE history (nr BIGINT PRIMARY KEY AUTO_INCREMENT, fence BIGINT NOT NULL)`)
		require.NoError(t, err)
		require.NoError(t, Put(t.Context(), db, id, 1, 0))

		var wg sync.WaitGroup
		for i := range holders {
			rng := rand.New(rand.NewPCG(2, uint64(i)))
			wg.Go(func() {
				for n := range int64(rounds) {
					fence := 1 + 20*n + rng.Int64N(100)
					if err := deposit(t.Context(), db, fence); err != nil && !errors.Is(err, ErrStale) {
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

// deposit adds 1 to the balance and a line to the history. Its transaction has its snapshot before
// it reads the balance.
func deposit(ctx context.Context, db *sql.DB, fence int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // Nothing after a Commit.
	var lines int
	if err = tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM history`).Scan(&lines); err != nil {
		return err
	}
	balance, err := Read(ctx, tx, id, fence)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO history (fence) VALUES (?)`, fence); err != nil {
		return err
	}
	if err := Write(ctx, tx, id, fence, balance+1); err != nil {
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

func TestErrorsOfTheDatabase(t *testing.T) {
	t.Parallel()
	db := open(t, testdb.MariaDB(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{
		Write(ctx, db, id, 1, 1),
		Put(ctx, db, id, 1, 1),
		func() error { _, err := Read(ctx, db, id, 1); return err }(),
	} {
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrStale)
		require.NotErrorIs(t, err, ErrNotFound)
	}
}
