package mysqlstore

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/fencing/internal/fencetest"
)

func TestTheSQLOfTheDocument(t *testing.T) {
	blocks, inGo := fencetest.DocumentedSQL(t)
	create, insert, raise, look := blocks[0], blocks[1], blocks[2], blocks[3]
	require.Equal(t, "UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2", inGo[1])
	write := strings.NewReplacer("$1", "?", "$2", "?", "$3", "?").Replace(inGo[1])
	databases(t, func(t *testing.T, open func(t *testing.T) *sql.DB) {
		db := open(t)
		for _, statement := range []string{`DROP TABLE account`, create, insert} {
			_, err := db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		reads := func(fence int64) (balance, seen int64) {
			_, err := db.ExecContext(t.Context(), raise, fence, "42", fence)
			require.NoError(t, err)
			require.NoError(t, db.QueryRowContext(t.Context(), look, "42").Scan(&balance, &seen))
			return balance, seen
		}
		writes := func(fence, balance int64) int64 {
			res, err := db.ExecContext(t.Context(), write, balance, fence, "42", fence)
			require.NoError(t, err)
			n, err := res.RowsAffected()
			require.NoError(t, err)
			return n
		}

		balance, seen := reads(7)
		require.Equal(t, []int64{100, 7}, []int64{balance, seen})
		require.EqualValues(t, 0, writes(6, 1), "an earlier holder, after the read")
		require.EqualValues(t, 1, writes(7, balance-30))
		_, seen = reads(6)
		require.EqualValues(t, 7, seen, "not its own")
		balance, seen = reads(8)
		require.Equal(t, []int64{70, 8}, []int64{balance, seen})
	})
}
