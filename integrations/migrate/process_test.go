package redlockmigrate

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

	"github.com/golang-migrate/migrate/v4"
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
		if err := work(strings.Split(job, "\n")); err != nil {
			fmt.Println("failed:", err)
		}
		return
	}
	testdb.Main(m)
}

// work waits before its first migration for a line from the test.
func work(job []string) (err error) {
	r, err := nodetest.Connect(job[3:], redlock.WithHook(func(_ context.Context, e redlock.Event) {
		if e.Kind == redlock.EventWaiting {
			fmt.Println("waiting")
		}
	}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close(context.Background())) }()
	driver, err := open(job[0], job[1])
	if err != nil {
		return err
	}
	input := bufio.NewReader(os.Stdin)
	d := New(&watched{driver, func() error {
		fmt.Println("migrating")
		_, failed := input.ReadString('\n')
		return failed
	}}, r, name, time.Minute)
	d.Wait, d.Both = time.Minute, job[2] == "true"
	m, err := newMigrate(d)
	if err != nil {
		return err
	}
	m.LockTimeout = 2 * time.Minute
	switch err = m.Up(); {
	case err == nil:
		fmt.Println("migrated")
	case errors.Is(err, migrate.ErrNoChange):
		fmt.Println("nothing to do")
	default:
		return err
	}
	source, database := m.Close()
	return errors.Join(source, database)
}

func start(t *testing.T, driver, dsn string, both bool, cluster *testcluster.Cluster) *child.Process {
	t.Helper()
	return child.Start(t, "REDLOCK_MIGRATE", append([]string{driver, dsn, fmt.Sprint(both)}, cluster.Addrs()...)...)
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, driver, dsn string, both bool) {
		cluster := testcluster.RunEmbedded(t, 3)
		first := start(t, driver, dsn, both, cluster)
		first.Says("migrating", "waiting")
		second := start(t, driver, dsn, both, cluster)
		if !both { // With both it waits in WithInstance, for the driver's own lock.
			second.Says("waiting", "")
		}
		first.GoOn()
		first.Says("migrating", "waiting")
		first.GoOn()
		first.Says("migrated", "waiting")
		first.End()
		second.Says("nothing to do", "waiting")
		second.End()

		db, err := sql.Open(driver, dsn)
		require.NoError(t, err)
		var rows int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM orders").Scan(&rows))
		require.Equal(t, 1, rows)
		require.NoError(t, db.Close())
	})
}
