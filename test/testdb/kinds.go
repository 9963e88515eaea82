package testdb

import (
	"fmt"
	"path/filepath"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

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
