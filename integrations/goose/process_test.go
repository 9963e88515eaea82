package redlockgoose

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/testdb"
	"github.com/seed6c881748/redlock/redlock"
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
	r, err := connect(job[4:], redlock.WithHook(func(_ context.Context, e redlock.Event) {
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

// A process is one that runs migrate.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	input io.Writer
	said  *bufio.Reader
}

func start(t *testing.T, d database, kind string, cluster *testcluster.Cluster) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0]) // It is killed if the test ends before.
	cmd.Env = append(os.Environ(), "REDLOCK_MIGRATE="+
		strings.Join(append([]string{string(d.dialect), d.driver, d.dsn, kind}, addresses(cluster)...), "\n"))
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &process{t, cmd, input, bufio.NewReader(output)}
}

// says waits for a line, past others that say that it waits still.
func (p *process) says(want string) {
	p.t.Helper()
	for {
		line, err := p.said.ReadString('\n')
		require.NoError(p.t, err)
		if line = strings.TrimSpace(line); line != "waiting" || line == want {
			require.Equal(p.t, want, line)
			return
		}
	}
}

func (p *process) ends() {
	p.t.Helper()
	rest, err := io.ReadAll(p.said)
	require.NoError(p.t, err)
	require.Empty(p.t, string(rest))
	require.NoError(p.t, p.cmd.Wait())
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
		first.says("migrating")
		second := start(t, d, kind, cluster)
		second.says("waiting")
		_, err = fmt.Fprintln(first.input)
		require.NoError(t, err)
		first.says("migrated 2")
		first.ends()
		second.says("migrated 0")
		second.ends()
		var rows int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM orders").Scan(&rows))
		require.Equal(t, 2, rows)
	})
}
