// Package sqlstore keeps account balances in an SQL database that refuses what earlier
// holders of an account's lock write: SQLite, PostgreSQL, and MariaDB or MySQL. A program
// needs the statements of one of them only.
//
// The check is in the WHERE of the statement that writes, so that the database does both
// in one step. A program that first selects the fence, compares, and then updates has
// the gap back in which a later holder writes, even inside a transaction: at the
// usual isolation levels what was selected may be old by then.
//
// Several statements belong in one transaction that has [Dialect.Read] or [Dialect.Write]
// as its first one:
//
//	tx, err := db.BeginTx(ctx, nil)
//	balance, err := sqlstore.Postgres.Read(ctx, tx, id, fence) // on an error: roll back
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

// A Dialect is a kind of database. All its methods may be called concurrently, as far as
// the DB allows that.
type Dialect struct {
	// Schema creates the table.
	Schema string

	write, put, raise, look string // statements

	// putCounts says that the number of rows of put is 0 if it was refused.
	putCounts bool
}

// Parameters are numbered in the order in which they appear, since some SQLite drivers
// bind them in that order whatever their numbers are.

// Postgres is PostgreSQL.
var Postgres = Dialect{
	Schema: `CREATE TABLE IF NOT EXISTS account (
		id      VARCHAR(255) PRIMARY KEY,
		balance BIGINT NOT NULL,
		fence   BIGINT NOT NULL
	)`,
	write: `UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $4`,
	put: `INSERT INTO account (id, balance, fence) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, fence = excluded.fence
		WHERE account.fence <= excluded.fence`,
	// An equal fence is written again, which locks the row in a transaction.
	raise:     `UPDATE account SET fence = $1 WHERE id = $2 AND fence <= $3`,
	look:      `SELECT balance, fence FROM account WHERE id = $1`,
	putCounts: true,
}

// SQLite takes the same statements.
var SQLite = Postgres

// MySQL is MariaDB, too. Names of resources are bytes: a VARCHAR would, by the usual
// collations, have one account for "a" and "A". MyISAM would have no transactions.
var MySQL = Dialect{
	Schema: `CREATE TABLE IF NOT EXISTS account (
		id      VARBINARY(255) PRIMARY KEY,
		balance BIGINT NOT NULL,
		fence   BIGINT NOT NULL
	) ENGINE = InnoDB`,
	write: `UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?`,
	// The assignments are carried out in this order: the first one compares with the old fence.
	put: `INSERT INTO account (id, balance, fence) VALUES (?, ?, ?)
		ON DUPLICATE KEY UPDATE
			balance = IF(fence <= VALUES(fence), VALUES(balance), balance),
			fence = GREATEST(fence, VALUES(fence))`,
	raise: `UPDATE account SET fence = ? WHERE id = ? AND fence < ?`,
	// A transaction reads from a snapshot, at the usual level REPEATABLE READ. Only a SELECT
	// with FOR UPDATE sees what is there now.
	look: `SELECT balance, fence FROM account WHERE id = ? FOR UPDATE`,
}

var (
	// ErrStale is matched by the error of a holder that comes after a later one. Its
	// lock has ended, and it must give up.
	ErrStale = errors.New("sqlstore: a later holder has written")

	// ErrNotFound is matched by the error of Read and Write if there is no such account.
	ErrNotFound = errors.New("sqlstore: no such account")
)

// DB is a *sql.DB, a *sql.Conn, or a *sql.Tx.
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
func (d Dialect) Write(ctx context.Context, db DB, id string, fence, balance int64) error {
	n, err := execute(ctx, db, fence, d.write, balance, fence, id, fence)
	if err != nil || n > 0 {
		return err
	}
	// MySQL counts the rows that were changed, not those that were found, unless the client
	// asks for these. So this may be a write that was repeated, and was not refused.
	_, err = d.current(ctx, db, id, fence)
	return err
}

// Put is Write for an account that need not be there: it is created then. Two holders
// that both find it missing cannot overwrite each other in the wrong order either.
//
// With MySQL, an error that matches ErrStale does not say that nothing was written, unless
// it is called in a transaction: a later holder may have come right after it.
func (d Dialect) Put(ctx context.Context, db DB, id string, fence, balance int64) error {
	n, err := execute(ctx, db, fence, d.put, id, balance, fence)
	if err != nil || d.putCounts && n > 0 {
		return err
	}
	_, err = d.current(ctx, db, id, fence)
	return err
}

// Read returns the balance for a holder that will write what it computes from it. It
// raises the fence, so that no earlier holder changes the balance after it was read; a
// SELECT would let it. Errors are those of Write.
//
// It raises and then looks: if it finds its own fence, no later holder was there, and no
// earlier one can come any more. Where UPDATE has RETURNING, one statement can do both.
//
// An account that is not there keeps no fence: after ErrNotFound an earlier holder
// may still create it.
func (d Dialect) Read(ctx context.Context, db DB, id string, fence int64) (balance int64, err error) {
	if _, err = execute(ctx, db, fence, d.raise, fence, id, fence); err != nil {
		return 0, err
	}
	return d.current(ctx, db, id, fence)
}

func execute(ctx context.Context, db DB, fence int64, statement string, args ...any) (rows int64, err error) {
	if fence < 1 {
		return 0, fmt.Errorf("sqlstore: fence %d: must be at least 1", fence)
	}
	res, err := db.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// current returns the balance if the account has this fence.
func (d Dialect) current(ctx context.Context, db DB, id string, fence int64) (balance int64, err error) {
	var seen int64
	err = db.QueryRowContext(ctx, d.look, id).Scan(&balance, &seen)
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
