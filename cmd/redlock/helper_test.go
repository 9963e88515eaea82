package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/stored"
	"github.com/seed6c881748/redlock/test/testkit"
)

// asTool is set in the environment of a test binary that is to be the tool.
const asTool = "REDLOCK_TEST_AS_TOOL"

// patience is how long a test waits for what must happen: long enough for a busy machine.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	helping := len(os.Args) > 1 && (os.Args[1] == guardArg || os.Args[1] == gateArg)
	if helping || os.Getenv(asTool) != "" {
		_ = os.Unsetenv(asTool)
		main()
	}
	// For a busy machine.
	_, _ = os.Setenv("REDLOCK_NODE_TIMEOUT", "5s"), os.Setenv("REDLOCK_CONNECT_TIMEOUT", "20s")
	// What runs the tests may ignore signals, as nohup does, and the tool would go on ignoring them.
	// Programs get them by default where this one is told of them.
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	os.Exit(m.Run())
}

// execTool carries out a command line in this process. A run that starts its command needs one of its own: it would
// wait for the children of the test, for ever.
func execTool(t *testing.T, c *testcluster.Cluster, args ...string) (code int, out, errOut string) {
	t.Helper()
	if c != nil {
		t.Setenv("REDLOCK_NODES", strings.Join(c.Addrs(), ","))
	}
	var o, e bytes.Buffer
	args = append([]string{}, args...) // Not nil, for which cobra takes those of the test.
	s := execute(t.Context(), args, strings.NewReader(""), &o, &e)
	return s.code, o.String(), e.String()
}

// exits does the same, and compares the exit code.
func exits(t *testing.T, c *testcluster.Cluster, code int, args ...string) (out, errOut string) {
	t.Helper()
	got, out, errOut := execTool(t, c, args...)
	assert.Equal(t, code, got, "%q: %s%s", args, out, errOut)
	return out, errOut
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(text), &v), "%s", text)
	return v
}

// A process is the tool in a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *buffer
	errOut *buffer
	ended  chan struct{} // closed when it has
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// command returns the tool as a command that has not been started.
func command(t *testing.T, c *testcluster.Cluster, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asTool+"=1", "REDLOCK_NODES="+strings.Join(c.Addrs(), ","))
	return cmd
}

// start starts the tool.
func start(t *testing.T, c *testcluster.Cluster, args ...string) *process {
	t.Helper()
	return startCommand(t, command(t, c, args...))
}

func startCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, out: &buffer{}, errOut: &buffer{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.out, p.errOut
	cmd.WaitDelay = 10 * time.Second // What a command has left behind must not hold up a test that fails.
	require.NoError(t, cmd.Start())
	go func() {
		defer close(p.ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// wait waits for the end and returns the exit code, -1 after a signal.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		require.FailNow(p.t, "the tool does not end", "stdout: %s\nstderr: %s", p.out, p.errOut)
	}
	return p.cmd.ProcessState.ExitCode()
}

// waitFor waits until the standard output has a text.
func (p *process) waitFor(text string) {
	p.t.Helper()
	eventually(p.t, func() bool { return strings.Contains(p.out.String(), text) }, "%q in the output", text)
}

// eventually waits for a condition.
func eventually(t *testing.T, ok func() bool, format string, args ...any) {
	t.Helper()
	testkit.Await(t, patience, "there is "+fmt.Sprintf(format, args...), ok)
}

// locker returns a Redlock over the nodes.
func locker(t *testing.T, c *testcluster.Cluster, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	opts = append([]redlock.Option{redlock.WithConnectTimeout(20 * time.Second), redlock.WithNodeTimeout(5 * time.Second)}, opts...)
	return testkit.NewOver(t, testkit.ServerNodes(c), opts...)
}

// hold takes a lock of ten minutes that all nodes have. A quorum of them is enough for a lock, and on
// a busy machine the others may be late, or not be asked at all.
func hold(t *testing.T, c *testcluster.Cluster, resource string, opts ...redlock.Option) *redlock.Lock {
	t.Helper()
	lock := testkit.WaitLock(t, locker(t, c), []string{resource}, 10*time.Minute, opts...)
	eventually(t, func() bool {
		_ = lock.Extend(t.Context(), 10*time.Minute) // Which brings it to nodes that were late.
		return holders(t, c, resource) == len(c.Nodes)
	}, "a lock on all nodes")
	return lock
}

// holders counts the nodes on which a key exists.
func holders(t *testing.T, c *testcluster.Cluster, key string) int {
	t.Helper()
	n := 0
	for _, node := range c.Nodes {
		_, ok, err := node.Get(key)
		require.NoError(t, err)
		if ok {
			n++
		}
	}
	return n
}

// onAllNodes waits until all nodes have a lock that is kept: the extensions bring it to those that were
// late.
func onAllNodes(t *testing.T, c *testcluster.Cluster, resource string) {
	t.Helper()
	eventually(t, func() bool { return holders(t, c, resource) == len(c.Nodes) }, "the lock on all nodes")
}

// waiting counts those in line for a resource on the nodes.
func waiting(t *testing.T, c *testcluster.Cluster, resource string) int {
	t.Helper()
	n := 0
	for _, node := range c.Nodes {
		found, err := node.Keys()
		require.NoError(t, err)
		if _, ok := found[stored.Keys{}.Line(resource)]; ok {
			n++
		}
	}
	return n
}
