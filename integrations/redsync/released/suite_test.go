//go:build unix

// Package released holds the drop-in against the released module of redsync: its exported names, its own tests, its
// speed, and a fleet in which both lock the same resources. It is a module of its own, so that users of the drop-in get
// neither redsync nor the six clients of Redis that redsync's tests need.
package released

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"

	// What redsync's tests import, so that go.mod has it: they are compiled in a copy.
	_ "github.com/go-redis/redis"
	_ "github.com/go-redis/redis/v7"
	_ "github.com/go-redis/redis/v8"
	_ "github.com/go-redsync/redsync/v4/redis/goredis"
	_ "github.com/go-redsync/redsync/v4/redis/goredis/v7"
	_ "github.com/go-redsync/redsync/v4/redis/redigo"
	_ "github.com/go-redsync/redsync/v4/redis/rueidis"
	_ "github.com/gomodule/redigo/redis"
	_ "github.com/redis/go-redis/v9"
	_ "github.com/redis/rueidis"
	_ "github.com/redis/rueidis/rueidiscompat"
	_ "github.com/stvp/tempredis"
	_ "golang.org/x/sync/errgroup"

	_ "github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v8"
	_ "github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v9"
)

const theirModule = "github.com/go-redsync/redsync/v4"

// redsync's own tests run through the drop-in, on real servers, with the path of redsync changed. They stand beside a copy
// of the drop-in, as they look into its types. Those about redsync's own scripts are left out, which are not here.
func TestTheirTests(t *testing.T) {
	t.Parallel()
	server, err := testcluster.ServerBinary()
	if err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	names, binary := compileTheirTests(t)

	bin := t.TempDir() // tempredis looks for redis-server in PATH.
	require.NoError(t, os.Symlink(server, filepath.Join(bin, "redis-server")))
	// At the same time, as most of their time they wait; each with servers of its own.
	var all sync.WaitGroup
	parts := []string{"-test.run=^TestValid$", "-test.run=^TestMutexExtend", "-test.skip=^TestValid$|^TestMutexExtend"}
	outputs := make([][]byte, len(parts))
	for i, part := range parts {
		all.Go(func() { outputs[i] = run(t, binary, bin, part) })
	}
	all.Wait()
	judge(t, names, outputs)
}

// compileTheirTests returns the names of redsync's tests, and their binary.
func compileTheirTests(t *testing.T) (names []string, binary string) {
	t.Helper()
	const drop = "github.com/seed6c881748/redlock/integrations/redsync"
	c, theirs := newCopy(t, drop), moduleDir(t, theirModule)
	for _, module := range []string{drop, drop + "/redis/goredis/v8", drop + "/redis/goredis/v9"} {
		c.drop(module)
	}
	c.require("github.com/seed6c881748/redlock/integrations/goredis", "../../goredis")
	for _, dir := range []string{".", "internal/pools", "redis", "redis/redigo", "redis/goredis/v8", "redis/goredis/v9"} {
		c.copyGo(dir, filepath.Join("..", dir), nil)
	}
	// Pools of clients that the drop-in has no pools for. nodes_test.go has them be some.
	for _, dir := range []string{"redis/goredis", "redis/goredis/v7", "redis/rueidis"} {
		c.copyGo(dir, filepath.Join(theirs, dir), func(text string) string { return strings.ReplaceAll(text, theirModule, drop) })
	}
	c.write("nodes_test.go", read(t, "testdata", "nodes_test.go"))

	files, err := filepath.Glob(filepath.Join(theirs, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		name, text := filepath.Base(file), strings.ReplaceAll(read(t, file), theirModule, drop)
		if name == "scripts_test.go" {
			continue
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T`).FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		if name == "mutex_test.go" || name == "redsync_test.go" {
			text = withNodes(t, name, text)
		}
		c.write(name, text)
	}

	// The servers that their tests start: those of today no longer say ready as tempredis expects, which redsync's
	// go.mod mends with a fork.
	tempredis := moduleDir(t, "github.com/stvp/tempredis")
	c.write("tempredis/go.mod", "module github.com/stvp/tempredis\n")
	c.write("tempredis/config.go", read(t, tempredis, "config.go"))
	c.write("tempredis/tempredis.go", edit(t, read(t, tempredis, "tempredis.go"), `"The server is now ready to accept`, `"eady to accept`))
	c.require("github.com/stvp/tempredis", "./tempredis")

	binary = filepath.Join(c.dir, "their.test")
	said, err := c.run("test", "-trimpath", "-mod=mod", "-c", "-o", binary, ".")
	require.NoError(t, err, said)
	return names, binary
}

// withNodes has their tests look where the drop-in has what they look for.
func withNodes(t *testing.T, name, text string) string {
	t.Helper()
	if name == "redsync_test.go" {
		text = edit(t, text, `\b51200\b`, "firstPort")
		return edit(t, text, `newMockPools(\w+)\(poolCount\)`, "on(${1}Block, newMockPools$1(poolCount))")
	}
	text = edit(t, text, `(?s)mutexes\[i\] = &Mutex\{.*?\n\t\t\}`,
		`mutexes[i] = New(pools...).NewMutex(name+"-"+strconv.Itoa(i), WithRetryDelay(500*time.Millisecond))`)
	text = edit(t, text, `\bmutex\.name\b`, "mutex.Name()")
	text = edit(t, text, `(\w+)\.expiry = (.*)`, "WithExpiry($2).Apply($1)")
	text = edit(t, text, `(\w+)\.tries = (.*)`, "WithTries($2).Apply($1)")
	text = edit(t, text, `(\w+)\.setNXOnExtend = true`, "WithSetNXOnExtend().Apply($1)")
	text = edit(t, text, `getPoolExpiries\(v\.pools, mutex\.Name\(\)\)`, "getPoolExpiries(t, v.pools, mutex.Name())")
	text = edit(t, text, `func getPoolExpiries\(pools (.*)\n`, "func getPoolExpiries(t *testing.T, pools $1\n\tsettle(t, pools)\n")
	return edit(t, text, `\bmutex\.quorum\b`, "quorumOf(mutex)")
}

// run runs a part of their tests, and returns what it has printed. What is left of its processes, it ends.
func run(t *testing.T, binary, path, part string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "-test.v", part)
	cmd.Dir = t.TempDir() // Servers write their data where they are.
	cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"), fmt.Sprintf("REDSYNC_FIRST_PORT=%d", freePorts(t)))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second // Servers that are left have it open.
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return nil
	}
	_ = cmd.Wait() // The tests say what has failed.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return out.Bytes()
}

// freePorts returns the first of 48 consecutive ports that are free now. They are none of those that the system gives to
// connections, of which other tests have so many that 48 in a row may not be found.
func freePorts(t *testing.T) int {
	t.Helper()
	const ports = 48
	for range 100 {
		var taken []net.Listener
		first := 12000 + rand.IntN(20000)
		for i := range ports {
			l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", first+i))
			if err != nil {
				break
			}
			taken = append(taken, l)
		}
		for _, l := range taken {
			_ = l.Close()
		}
		if len(taken) == ports {
			return first
		}
	}
	t.Error("there are no 48 free ports in a row")
	return 0
}

// judge requires that each of their tests has passed, with each client, and nothing has failed.
func judge(t *testing.T, names []string, outputs [][]byte) {
	t.Helper()
	all := bytes.Join(outputs, []byte("\n"))
	passed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+)`).FindAllStringSubmatch(string(all), -1) {
		require.Equal(t, "PASS", m[1], "%s:\n%s", m[2], all)
		passed[m[2]] = true
	}
	for _, client := range []string{"redigo", "goredis", "goredis_v7", "goredis_v8", "goredis_v9", "rueidis"} {
		names = append(names, "TestRedsync/"+client)
	}
	for _, name := range names {
		require.True(t, passed[name], "%s has not been run:\n%s", name, all)
	}
	t.Logf("%d of redsync's tests have passed", len(passed))
}
