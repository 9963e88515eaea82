package redlockgoose

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/child"
	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testdb"
)

// TestMain is also the other processes: they migrate, and say what happens to them.
func TestMain(m *testing.M) {
	if job := os.Getenv("REDLOCK_MIGRATE"); job != "" {
		if err := migrate(strings.Split(job, "\n")); err != nil {
			fmt.Println("failed:", err)
		}
		return
	}
	testdb.Main(m)
}

// migrate waits in its first migration for a line from the test.
func migrate(job []string) (err error) {
	d := database{goose.Dialect(job[0]), job[1], job[2]}
	r, err := nodetest.Connect(job[4:], redlock.WithHook(func(_ context.Context, e redlock.Event) {
		if e.Kind == redlock.EventWaiting {
			fmt.Println("waiting")
		}
	}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close(context.Background())) }()
	db, err := d.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	p, err := newProvider(d, db, kinds[job[3]](New(r, name, time.Minute)),
		in(1, func(ctx context.Context, tx *sql.Tx) error {
			fmt.Println("migrating")
			if _, stdin := bufio.NewReader(os.Stdin).ReadString('\n'); stdin != nil {
				return stdin
			}
			_, inserted := tx.ExecContext(ctx, "INSERT INTO orders VALUES (1)")
			return inserted
		}),
		statement(2, "INSERT INTO orders VALUES (2)"))
	if err != nil {
		return err
	}
	results, err := p.Up(context.Background())
	fmt.Println("migrated", len(results))
	return err
}

func start(t *testing.T, d database, kind string, cluster *testcluster.Cluster) *child.Process {
	t.Helper()
	return child.Start(t, "REDLOCK_MIGRATE", append([]string{string(d.dialect), d.driver, d.dsn, kind}, cluster.Addrs()...)...)
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, d database, kind string) {
		db := d.mustOpen(t)
		_, err := db.ExecContext(t.Context(), "CREATE TABLE orders (x INT)")
		require.NoError(t, err)
		d.provider(t, db, goose.WithVerbose(false), statement(1, "")) // Goose's table.
		cluster := testcluster.RunEmbedded(t, 3)
		first := start(t, d, kind, cluster)
		first.Says("migrating", "waiting")
		second := start(t, d, kind, cluster)
		second.Says("waiting", "")
		first.GoOn()
		first.Says("migrated 2", "waiting")
		first.End()
		second.Says("migrated 0", "waiting")
		second.End()
		var rows int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM orders").Scan(&rows))
		require.Equal(t, 2, rows)
	})
}
