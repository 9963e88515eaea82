package snippets

import (
	"context"
	"fmt"
	"go/format"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Programs and statements of the documents run on real servers, which stand in for these.
const (
	servers   = 3
	firstNode = "`10.0.0.1:6379`"
	liveNodes = "redlock.NewNode(`10.0.0.1:6379`), redlock.NewNode(`10.0.0.2:6379`), redlock.NewNode(`10.0.0.3:6379`)"
)

// runTime is more than enough for any of them.
const runTime = 5 * time.Minute

// liveNames are what the names of fragmentNames mean where a fragment runs. Each fragment
// has a lock of its own.
var liveNames = map[string]string{
	"ctx":       "ctx = context.Background()",
	"db":        "db *sql.DB",
	"err":       "err error",
	"l":         "l = newLock(`l`)",
	"lock":      "lock = newLock(`lock`)",
	"logger":    "logger = slog.Default()",
	"nodes":     "nodes = []redlock.Node{" + liveNodes + "}",
	"pool":      "pool = &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial(`tcp`, " + firstNode + ") }}",
	"r":         "r = newRedlock()",
	"req":       "req = &http.Request{Header: http.Header{}}",
	"resources": "resources = []string{`resource`}",
	"rl":        "rl = r",
	"t":         "t *testing.T",
	"ttl":       "ttl = 10 * time.Second",
	"w":         "w http.ResponseWriter",
}

// liveHelpers make the values of liveNames, and say how a fragment has ended.
const liveHelpers = `
func work(context.Context) error { return nil }

func newRedlock() *redlock.Redlock {
	r, err := redlock.New([]redlock.Node{` + liveNodes + `})
	if err != nil {
		panic(err)
	}
	return r
}

func newLock(resource string) *redlock.Lock {
	lock, err := newRedlock().Lock(context.Background(), []string{fmt.Sprint(resource, os.Getpid())}, 10*time.Second)
	if err != nil {
		panic(err)
	}
	return lock
}

func end(results ...any) {
	fmt.Println(results...)
	for _, result := range results {
		if err, failed := result.(error); failed && err != nil {
			os.Exit(1)
		}
	}
}
`

// goBlocks are the blocks to check, in order.
func goBlocks(t *testing.T) []block {
	t.Helper()
	all := pages(t)
	var found []block
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, b := range all[name].blocks {
			if isChecked(b) {
				found = append(found, b)
			}
		}
	}
	return found
}

// TestSnippetsRun runs each program as it stands, and each fragment of statements as a
// function. A program must end with the status 0, a fragment must not panic nor return an error,
// unless it is marked "mayfail".
func TestSnippetsRun(t *testing.T) {
	c := testcluster.RunServers(t, servers)
	seen := map[string]bool{}
	for _, b := range goBlocks(t) {
		source := b.text
		switch {
		case moduleOf(b) != ".":
			continue // What it plugs into need not be here; the integration has tests of its own.
		case !isFile(b):
			var err error
			if source, err = liveFragment(b); err != nil {
				t.Logf("%s:%d declares, so there is nothing to run", b.file, b.line)
				continue
			}
		case !strings.Contains(source, "func main()"):
			continue
		}
		if seen[source] {
			continue // As in the other language.
		}
		seen[source] = true
		t.Run(fmt.Sprintf("%s:%d", b.file, b.line), func(t *testing.T) {
			out, err := runProgram(t, c, source)
			t.Logf("%s", out)
			if err != nil && !strings.Contains(b.info, "mayfail") {
				t.Errorf("%s:%d: %v\n%s", b.file, b.line, err, out)
			}
			if b.file == "README.md" && !strings.Contains(out, "held for ") {
				t.Errorf("%s:%d: it does not say that it has held the lock: %q", b.file, b.line, out)
			}
		})
	}
}

// runProgram builds a program and runs it. It returns what it has printed, and how it has ended.
func runProgram(t *testing.T, c *testcluster.Cluster, source string) (string, error) {
	t.Helper()
	for i, addr := range c.Addrs() {
		source = strings.ReplaceAll(source, fmt.Sprintf("10.0.0.%d:6379", i+1), addr)
	}
	dir := t.TempDir()
	file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program.exe")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", raceFlag, "-ldflags=-s -w", "-o", program, file)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s\n%s", err, out, source)
	}
	out, err := exec.CommandContext(ctx, program).CombinedOutput()
	return string(out), err
}

// liveFragment makes a program of statements: a function that is given live values for the
// names that it may use. It fails for a fragment that only declares.
func liveFragment(b block) (string, error) {
	c := &checker{fset: token.NewFileSet()}
	n, err := countResults(c, b)
	if err != nil {
		return "", err
	}
	names := make([]string, n)
	for i := range names {
		names[i] = "_ any"
	}
	call := "end(fragment())"
	if n == 0 {
		call = "fragment()"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "package main\n\nfunc fragment() (%s) {\n%s\nreturn\n}\n\nfunc main() { %s }\n",
		strings.Join(names, ", "), b.text, call)
	s.WriteString(liveHelpers)
	for _, name := range slices.Sorted(maps.Keys(liveNames)) {
		fmt.Fprintf(&s, "var %s\n", liveNames[name])
	}
	f, err := c.parse(s.String())
	if err != nil {
		return "", err
	}
	addImports(f)
	var out strings.Builder
	if err := format.Node(&out, c.fset, f); err != nil {
		return "", err
	}
	return out.String(), nil
}

// countResults returns how many results the statements of a fragment return.
func countResults(c *checker, b block) (int, error) {
	f, err := c.parse("package main\nfunc _() {\n" + b.text + "\n}\n")
	if err != nil {
		return 0, err
	}
	return results(f), nil
}

func TestLiveNamesAreAllNames(t *testing.T) {
	for name := range fragmentNames {
		if liveNames[name] == "" && name != "work" {
			t.Errorf("no value for %s", name)
		}
	}
}
