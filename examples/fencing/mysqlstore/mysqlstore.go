// Package mysqlstore keeps account balances in MariaDB or MySQL, which refuses what earlier
// holders of an account's lock write. It is package sqlstore for these databases, which differ
// from PostgreSQL and SQLite in three ways:
//
//   - UPDATE has no RETURNING. A read raises the fence and then looks: if it finds its own fence,
//     no later holder was there, and no earlier one can come any more.
//   - The number of rows is that of the rows changed, or with clientFoundRows=true that of the rows
//     found. Only "more than none" can be relied on. A write that is repeated changes nothing, and
//     is told from one that was refused by a look at the fence.
//   - A transaction reads from a snapshot, at their usual level REPEATABLE READ. Only a SELECT with
//     FOR UPDATE sees what is there now.
//
// The check is in the statement that writes, so that the database does both in one step. Several
// statements belong in one transaction that has [Read] or [Write] as its first one: that refuses an
// earlier holder before it has done anything, and locks the row until the transaction ends.
//
// A deleted row has forgotten its fence. Mark rows as deleted, or keep the fences in a table of
// their own, as long as a holder of an earlier lock may still come.
package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Schema creates the table. Names of resources are bytes: a VARCHAR would, by the usual
// collations, have one account for "a" and "A". MyISAM would have no transactions.
const Schema = `CREATE TABLE IF NOT EXISTS account (
	id      VARBINARY(255) PRIMARY KEY,
	balance BIGINT NOT NULL,
	fence   BIGINT NOT NULL
) ENGINE = InnoDB`

var (
	// ErrStale is matched by the error of a holder that comes after a later one. Its
	// lock has ended, and it must give up.
	ErrStale = errors.New("mysqlstore: a later holder has written")

	// ErrNotFound is matched by the error of Read and Write if there is no such account.
	ErrNotFound = errors.New("mysqlstore: no such account")
)

// DB is a *sql.DB, a *sql.Conn, or a *sql.Tx. All functions may be called concurrently,
// as far as it allows that.
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

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
		`UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?`,
		balance, fence, id, fence)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil || n > 0 {
		return err
	}
	_, err = look(ctx, db, id, fence)
	return err
}

// Put is Write for an account that need not be there: it is created then. Two holders
// that both find it missing cannot overwrite each other in the wrong order either.
//
// An error that matches ErrStale does not say that nothing was written, unless it is called in a
// transaction: a later holder may have come right after it.
func Put(ctx context.Context, db DB, id string, fence, balance int64) error {
	if err := check(fence); err != nil {
		return err
	}
	// The assignments are carried out in this order: the first one compares with the old fence.
	_, err := db.ExecContext(ctx,
		`INSERT INTO account (id, balance, fence) VALUES (?, ?, ?)
		ON DUPLICATE KEY UPDATE
			balance = IF(fence <= VALUES(fence), VALUES(balance), balance),
			fence = GREATEST(fence, VALUES(fence))`,
		id, balance, fence)
	if err != nil {
		return err
	}
	_, err = look(ctx, db, id, fence)
	return err
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
	_, err = db.ExecContext(ctx, `UPDATE account SET fence = ? WHERE id = ? AND fence < ?`, fence, id, fence)
	if err != nil {
		return 0, err
	}
	return look(ctx, db, id, fence)
}

func check(fence int64) error {
	if fence < 1 {
		return fmt.Errorf("mysqlstore: fence %d: must be at least 1", fence)
	}
	return nil
}

// look returns the balance if the account has this fence.
func look(ctx context.Context, db DB, id string, fence int64) (balance int64, err error) {
	var seen int64
	err = db.QueryRowContext(ctx, `SELECT balance, fence FROM account WHERE id = ? FOR UPDATE`, id).Scan(&balance, &seen)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && seen < fence: // It has come only now.
		return 0, fmt.Errorf("%w: %q", ErrNotFound, id)
	case err != nil:
		return 0, err
	case seen > fence:
		return 0, fmt.Errorf("%w: fence %d is behind %d", ErrStale, fence, seen)
	}
	return balance, nil
}
