// Package sqlstore keeps account balances in an SQL database that refuses what earlier
// holders of an account's lock write. It is for SQLite and PostgreSQL, with the same
// statements; package mysqlstore is for MariaDB and MySQL.
//
// The check is in the WHERE of the statement that writes, so that the database does both
// in one step. A program that first selects the fence, compares, and then updates has
// the gap back in which a later holder writes, even inside a transaction: at the
// usual isolation levels what was selected may be old by then.
//
// Several statements belong in one transaction that has [Read] or [Write] as its first one:
//
//	tx, err := db.BeginTx(ctx, nil)
//	balance, err := sqlstore.Read(ctx, tx, id, fence) // on an error: roll back
//	… any statements …
//	err = tx.Commit()
//
// That refuses an earlier holder before it has done anything, and locks the row: a later
// one waits there until the transaction ends. SELECT fence … FOR UPDATE as the first
// statement locks it too, where the database has that, but raises nothing. If what is
// written has no single row, give the fences of the locks a table of their own, and
// begin every transaction with the update of its row there.
//
// At the levels above READ COMMITTED, PostgreSQL fails such a transaction with a
// serialization error if another one has written since its first statement: run it again.
//
// A deleted row has forgotten its fence. Mark rows as deleted, or keep the fences in a
// table of their own, as long as a holder of an earlier lock may still come.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Schema creates the table.
const Schema = `CREATE TABLE IF NOT EXISTS account (
	id      VARCHAR(255) PRIMARY KEY,
	balance BIGINT NOT NULL,
	fence   BIGINT NOT NULL
)`

var (
	// ErrStale is matched by the error of a holder that comes after a later one. Its
	// lock has ended, and it must give up.
	ErrStale = errors.New("sqlstore: a later holder has written")

	// ErrNotFound is matched by the error of Read and Write if there is no such account.
	ErrNotFound = errors.New("sqlstore: no such account")
)

// DB is a *sql.DB, a *sql.Conn, or a *sql.Tx. All functions may be called concurrently,
// as far as it allows that.
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Parameters are numbered in the order in which they appear, since some SQLite drivers
// bind them in that order whatever their numbers are.

// Write sets the balance of an account. It returns an error that matches ErrStale if a
// larger fence has been used for it.
//
// After another error, such as a lost connection, the balance may have been set. To
// call Write again with the same fence and balance is safe. Not so to
// write another value: the first request may still be on its way, and lands with an
// equal fence. Take the lock again for that.
func Write(ctx context.Context, db DB, id string, fence, balance int64) error {
	if err := check(fence); err != nil {
		return err
	}
	res, err := db.ExecContext(ctx,
		`UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2`,
		balance, fence, id)
	return result(ctx, db, id, fence, res, err)
}

// Put is Write for an account that need not be there: it is created then. Two holders
// that both find it missing cannot overwrite each other in the wrong order either.
func Put(ctx context.Context, db DB, id string, fence, balance int64) error {
	if err := check(fence); err != nil {
		return err
	}
	res, err := db.ExecContext(ctx,
		`INSERT INTO account (id, balance, fence) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, fence = excluded.fence
		WHERE account.fence <= excluded.fence`,
		id, balance, fence)
	return result(ctx, db, id, fence, res, err)
}

// Read returns the balance for a holder that will write what it computes from it. It
// raises the fence, so that no earlier holder changes the balance after it was read; a
// SELECT would let it. Errors are those of Write.
//
// An account that is not there keeps no fence: after ErrNotFound an earlier holder
// may still create it.
func Read(ctx context.Context, db DB, id string, fence int64) (balance int64, err error) {
	if err = check(fence); err != nil {
		return 0, err
	}
	err = db.QueryRowContext(ctx,
		`UPDATE account SET fence = $1 WHERE id = $2 AND fence <= $1 RETURNING balance`,
		fence, id).Scan(&balance)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, refused(ctx, db, id, fence)
	}
	return balance, err
}

func check(fence int64) error {
	if fence < 1 {
		return fmt.Errorf("sqlstore: fence %d: must be at least 1", fence)
	}
	return nil
}

// result is the error of a write. The number of rows must be that of the rows found.
// MySQL's is of those changed unless the client asks otherwise, so there a repeated write
// would look like a refused one.
func result(ctx context.Context, db DB, id string, fence int64, res sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil || n > 0 {
		return err
	}
	return refused(ctx, db, id, fence)
}

// refused says why no row was written. Nothing is decided here, so this may well be a
// statement of its own.
func refused(ctx context.Context, db DB, id string, fence int64) error {
	var seen int64
	err := db.QueryRowContext(ctx, `SELECT fence FROM account WHERE id = $1`, id).Scan(&seen)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && seen <= fence: // It has come only now.
		return fmt.Errorf("%w: %q", ErrNotFound, id)
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: fence %d is behind %d", ErrStale, fence, seen)
}
