package sqlstore

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/fencing/internal/fencetest"
)

func TestTheSQLOfTheDocument(t *testing.T) {
	blocks, inGo := fencetest.DocumentedSQL(t)
	create, insert, read, write := blocks[0], blocks[1], inGo[0], inGo[1]
	databases(t, func(t *testing.T, open func(t *testing.T) *sql.DB) {
		db := open(t)
		for _, statement := range []string{`DROP TABLE account`, create, insert} {
			_, err := db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		reads := func(fence int64) (balance int64, err error) {
			err = db.QueryRowContext(t.Context(), read, fence, "42").Scan(&balance)
			return balance, err
		}
		writes := func(fence, balance int64) int64 {
			res, err := db.ExecContext(t.Context(), write, balance, fence, "42")
			require.NoError(t, err)
			n, err := res.RowsAffected()
			require.NoError(t, err)
			return n
		}

		balance, err := reads(7)
		require.NoError(t, err)
		require.EqualValues(t, 100, balance)
		require.EqualValues(t, 0, writes(6, 1), "an earlier holder, after the read")
		require.EqualValues(t, 1, writes(7, balance-30))
		require.EqualValues(t, 1, writes(7, balance-30), "it writes more than once")
		_, err = reads(6)
		require.ErrorIs(t, err, sql.ErrNoRows)
		balance, err = reads(8)
		require.NoError(t, err)
		require.EqualValues(t, 70, balance)
	})
}
