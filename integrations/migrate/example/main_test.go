package main

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestRun(t *testing.T) {
	dsn := testdb.MariaDB(t)
	addrs := testcluster.RunEmbedded(t, 3).Addrs()
	for range 2 {
		require.NoError(t, run(t.Context(), dsn, addrs))
	}
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "INSERT INTO orders (id, total, paid) VALUES (1, 100, TRUE)")
	require.NoError(t, err)
	require.NoError(t, db.Close())
}
