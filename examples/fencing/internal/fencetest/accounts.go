package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// account is the one that the tests are about.
const account = "joint"

// Accounts is package sqlstore or mysqlstore, of which DB is the interface of that name, and what its databases do
// each in their own way. Its methods are tests, of databases that open returns.
type Accounts[DB any] struct {
	Put, Write      func(ctx context.Context, db DB, id string, fence, balance int64) error
	Read            func(ctx context.Context, db DB, id string, fence int64) (balance int64, err error)
	Stale, NotFound error

	Stored  string   // asks for the balance and the fence of an account
	Others  []string // accounts that are not the one
	History string   // creates a table of fences, which are in the order in which they were appended
	First   string   // asks for a number, ahead of all else in a transaction; empty: nothing does
	Append  string   // appends a fence
}

// Open returns a database with a schema.
func Open(t *testing.T, driver, dsn, schema string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxOpenConns(4)
	_, err = db.ExecContext(t.Context(), schema)
	require.NoError(t, err)
	return db
}

func as[DB any](db any) DB { return db.(DB) }

// WriteRefuses is the test of all recipes, of Write.
func (a Accounts[DB]) WriteRefuses(t *testing.T, open func(t *testing.T) *sql.DB) {
	t.Helper()
	Run(t, func(t *testing.T) Store {
		t.Helper()
		db := open(t)
		require.NoError(t, a.Put(t.Context(), as[DB](db), account, 1, 0))
		return a.store(t, db, a.Write)
	})
}

// PutRefuses is the same test, of Put.
func (a Accounts[DB]) PutRefuses(t *testing.T, open func(t *testing.T) *sql.DB) {
	t.Helper()
	Run(t, func(t *testing.T) Store {
		t.Helper()
		return a.store(t, open(t), a.Put)
	})
}

func (a Accounts[DB]) store(t *testing.T, db *sql.DB, write func(context.Context, DB, string, int64, int64) error) Store {
	t.Helper()
	return Store{
		Write: func(fence int64, value string) error {
			balance, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return err
			}
			return write(t.Context(), as[DB](db), account, fence, balance)
		},
		Read: func(fence int64) (string, error) {
			balance, err := a.Read(t.Context(), as[DB](db), account, fence)
			return strconv.FormatInt(balance, 10), err
		},
		Stored: func() (value string, fence int64, err error) {
			err = db.QueryRowContext(t.Context(), a.Stored, account).Scan(&value, &fence)
			return value, fence, err
		},
		Stale: a.Stale,
	}
}

// Repeated is a write that says again what is stored.
func (a Accounts[DB]) Repeated(t *testing.T, open func(t *testing.T) *sql.DB) {
	t.Helper()
	db := as[DB](open(t))
	require.NoError(t, a.Put(t.Context(), db, account, 5, 1))
	for range 2 {
		require.NoError(t, a.Put(t.Context(), db, account, 5, 2))
		require.NoError(t, a.Write(t.Context(), db, account, 5, 2))
	}
}

// NoSuchAccount has none but others.
func (a Accounts[DB]) NoSuchAccount(t *testing.T, open func(t *testing.T) *sql.DB) {
	t.Helper()
	db := as[DB](open(t))
	for _, another := range a.Others {
		require.NoError(t, a.Put(t.Context(), db, another, 7, 1))
	}
	err := a.Write(t.Context(), db, account, 5, 1)
	require.ErrorIs(t, err, a.NotFound)
	require.NotErrorIs(t, err, a.Stale)
	_, err = a.Read(t.Context(), db, account, 5)
	require.ErrorIs(t, err, a.NotFound)
	require.NoError(t, a.Put(t.Context(), db, account, 5, 1))
	require.NoError(t, a.Write(t.Context(), db, account, 5, 2))
}

// Transaction has several statements behind one Read, by many holders at once. What they have appended to a table
// without a fence is in order.
func (a Accounts[DB]) Transaction(t *testing.T, open func(t *testing.T) *sql.DB) {
	t.Helper()
	const holders, rounds = 6, 10
	db := open(t)
	_, err := db.ExecContext(t.Context(), a.History)
	require.NoError(t, err)
	require.NoError(t, a.Put(t.Context(), as[DB](db), account, 1, 0))

	var wg sync.WaitGroup
	for i := range holders {
		rng := rand.New(rand.NewPCG(2, uint64(i)))
		wg.Go(func() {
			for n := range int64(rounds) {
				fence := 1 + 20*n + rng.Int64N(100)
				if err := a.deposit(t.Context(), db, fence); err != nil && !errors.Is(err, a.Stale) {
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
}

// deposit adds 1 to the balance and a line to the history.
func (a Accounts[DB]) deposit(ctx context.Context, db *sql.DB, fence int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // Nothing after a Commit.
	if a.First != "" {
		if err = tx.QueryRowContext(ctx, a.First).Scan(new(int)); err != nil {
			return err
		}
	}
	balance, err := a.Read(ctx, as[DB](tx), account, fence)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, a.Append, fence); err != nil {
		return err
	}
	if err := a.Write(ctx, as[DB](tx), account, fence, balance+1); err != nil {
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

// Errors of a database are its own.
func (a Accounts[DB]) Errors(t *testing.T, open func(t *testing.T) *sql.DB) {
	t.Helper()
	db := as[DB](open(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := a.Read(ctx, db, account, 1)
	for _, err := range []error{err, a.Write(ctx, db, account, 1, 1), a.Put(ctx, db, account, 1, 1)} {
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, a.Stale)
		require.NotErrorIs(t, err, a.NotFound)
	}
}
