// Package testdb runs tests on a real PostgreSQL and a real MariaDB. The tests of a package share one
// server of a kind, which the first test that needs it starts, in a folder of its own that only a
// Unix socket leads to; each test gets an empty database there. [Main] ends what was started, and
// on Linux that also ends with this process.
//
// It opens databases through database/sql, so a test brings the driver. Where a server is not
// installed, tests fail if CI is "true", and are skipped otherwise.
package testdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Main runs the tests of a package from its TestMain, and ends the servers that they have started.
func Main(m interface{ Run() int }) {
	mayStart = true
	defer func() {
		postgres.end()
		mariadb.end()
	}()
	m.Run()
}

// Postgres returns the connection string of a new database on PostgreSQL, which its superuser opens
// with the given driver: "postgres" of lib/pq, or "pgx".
func Postgres(tb testcluster.TB, driver string) string {
	tb.Helper()
	return postgres.database(tb, driver)
}

// MariaDB returns the connection string of a new database on MariaDB, without parameters, for the
// driver "mysql" of go-sql-driver.
func MariaDB(tb testcluster.TB) string {
	tb.Helper()
	return mariadb.database(tb, "mysql")
}

var (
	postgres = &server{kind: postgresKind}
	mariadb  = &server{kind: mariadbKind}

	// mayStart is whether somebody ends what is started.
	mayStart bool
)

// A kind is what to know of a database server.
type kind struct {
	name    string
	program string
	folders []string // Where the program is, besides the PATH. Patterns, of which the last match counts.

	prepare func(*server) error // Makes what is to be in the folder before the server starts.
	args    func(dir string) []string
	dsn     func(dir, database string) string
	home    string // A database that is always there.
	stop    func(*testcluster.Process)
}

// A server is started when it is first needed.
type server struct {
	kind
	once sync.Once
	err  error
	dir  string
	proc *testcluster.Process
}

var errNotInstalled = errors.New("not installed: scripts/tools.sh installs it if CI=true")

// startTimeout is generous, since a busy machine isn't a failing one.
const startTimeout = 3 * time.Minute

func (s *server) database(tb testcluster.TB, driver string) string {
	tb.Helper()
	if !mayStart {
		tb.Fatalf("testdb: TestMain must call testdb.Main")
	}
	s.once.Do(func() { s.err = s.start(driver) })
	if errors.Is(s.err, errNotInstalled) && os.Getenv("CI") != "true" {
		tb.Skipf("%s: %v", s.name, s.err)
	}
	if s.err != nil {
		tb.Fatalf("%s: %v", s.name, s.err)
	}
	name := fmt.Sprintf("test_%016x", rand.Uint64())
	if err := s.exec(driver, "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("%s: %v", s.name, err)
	}
	return s.dsn(s.dir, name)
}

func (s *server) start(driver string) (err error) {
	program, err := s.find(s.program)
	if err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "redlock-"+s.name+"-"); err != nil {
		return err
	}
	if err = giveAway(s.dir); err != nil {
		return err
	}
	if err = s.prepare(s); err != nil {
		return err
	}
	s.proc, err = testcluster.StartProcess(s.command(program, s.args(s.dir)...), s.log())
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(5 * time.Millisecond) {
		if err = s.exec(driver, "SELECT 1"); err == nil {
			return nil
		}
		if s.proc.Ended() || time.Now().After(deadline) {
			return fmt.Errorf("it does not start: %w\n%s", err, s.logged())
		}
	}
}

// command returns a command that runs in the server's folder as a user whom servers accept: they
// refuse to run as root.
func (s *server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = s.dir
	unprivileged(cmd)
	return cmd
}

func (s *server) exec(driver, statement string) (err error) {
	db, err := sql.Open(driver, s.dsn(s.dir, s.home))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	_, err = db.ExecContext(ctx, statement)
	return err
}

func (s *server) end() {
	if s.proc != nil {
		s.stop(s.proc)
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

func (s *server) log() string { return filepath.Join(s.dir, "log") }

// logged is the end of the log.
func (s *server) logged() []byte {
	text, _ := os.ReadFile(s.log())
	return text[max(0, len(text)-1000):]
}

// find returns the path of a program.
func (s *server) find(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, folder := range s.folders {
		if found, _ := filepath.Glob(filepath.Join(folder, program)); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("%s: %w", program, errNotInstalled)
}

var postgresKind = kind{
	name:    "postgres",
	program: "postgres",
	folders: []string{"/usr/lib/postgresql/*/bin", "/usr/libexec/postgresql*"},
	prepare: func(s *server) error {
		initdb, err := s.find("initdb")
		if err != nil {
			return err
		}
		out, err := s.command(initdb, "--pgdata=data", "--username=postgres", "--auth=trust", "--encoding=UTF8",
			"--no-locale", "--no-sync", "--no-instructions").CombinedOutput()
		if err != nil {
			return fmt.Errorf("initdb: %w\n%s", err, out)
		}
		return nil
	},
	args: func(dir string) []string {
		args := []string{"-D", "data", "-k", dir, "-h", "", "-F"}
		for _, setting := range []string{
			"shared_buffers=16MB", "dynamic_shared_memory_type=mmap", "autovacuum=off",
			"full_page_writes=off", "synchronous_commit=off",
		} {
			args = append(args, "-c", setting)
		}
		return args
	},
	dsn: func(dir, database string) string {
		return "postgres:///" + database + "?user=postgres&sslmode=disable&host=" + dir
	},
	home: "postgres",
	stop: (*testcluster.Process).Quit, // A kill would leave a segment of shared memory.
}

// MariaDB needs no preparation if its own tables are left out: of users and their rights, who is
// asked for nothing then, and of time zones.
var mariadbKind = kind{
	name:    "mariadb",
	program: "mariadbd",
	folders: []string{"/usr/sbin", "/usr/libexec"},
	prepare: func(*server) error { return nil },
	args: func(dir string) []string {
		return []string{
			"--no-defaults", "--datadir=" + dir, "--socket=" + filepath.Join(dir, "sock"), "--pid-file=" + filepath.Join(dir, "pid"),
			"--skip-networking", "--skip-grant-tables", "--performance-schema=OFF", "--use-stat-tables=never",
			"--innodb-log-file-size=4M", "--innodb-buffer-pool-size=8M", "--aria-log-file-size=8M", "--key-buffer-size=1M",
			"--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=0", "--sync-frm=OFF",
		}
	},
	dsn: func(dir, database string) string {
		return "root@unix(" + filepath.Join(dir, "sock") + ")/" + database
	},
	stop: (*testcluster.Process).Kill,
}
