//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A command of which the guard does not know would run on without a lock if redlock were killed: it
// is not started before the guard knows of it, and could not be killed by a signal to all of a service.
func TestRunNothingThatNobodyGuards(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(hears, says *os.File) error{
		"the guard is gone":              func(hears, _ *os.File) error { return hears.Close() },
		"the guard was killed too early": func(_, says *os.File) error { return says.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, hears, says := jobOver(t, startHearer(t))
			require.NoError(t, end(hears, says))
			file := j.writes(t)
			require.ErrorContains(t, j.start(), "guards")
			var status syscall.WaitStatus
			_, err := syscall.Wait4(j.group, &status, 0, nil)
			require.NoError(t, err)
			assert.NoFileExists(t, file)
		})
	}
}

// The process that becomes the command ends with redlock, whenever that ends.
func TestGateEndsWithRedlock(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ran")
	sh, err := lookUp("sh")
	require.NoError(t, err)
	g, err := startGate(sh, []string{"sh", "-c", "echo ran >" + file}, os.Environ())
	require.NoError(t, err)
	g.close()
	var status syscall.WaitStatus
	_, err = syscall.Wait4(g.group, &status, 0, nil)
	require.NoError(t, err)
	assert.Equal(t, exitCannot, status.ExitStatus())
	assert.NoFileExists(t, file)
}

// The command has redlock's open files under the same numbers, and no others.
func TestRunOpenFiles(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = read.Close() }()
	cmd := command(t, c, "run", "x", "--", "sh", "-c", `echo third >&3; for f in 4 5 6 7 8 9; do (true >&$f) 2>/dev/null && echo open $f; done; exit 0`)
	cmd.ExtraFiles = []*os.File{write}
	p := startCommand(t, cmd)
	require.NoError(t, write.Close())
	assert.Equal(t, 0, p.wait(), "%s", p.errOut)
	text := make([]byte, 100)
	n, err := read.Read(text)
	require.NoError(t, err)
	assert.Equal(t, "third\n", string(text[:n]))
	assert.Empty(t, p.out.String())
}

// Somebody kills the guard: redlock has the command guarded by another one.
func TestRunGuardKilled(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p := start(t, c, "run", "x", "--", "sh", "-c", `trap '' TERM; trap 'echo heard' USR1; echo group $$; while :; do sleep 0.05; done`)
	group := groupOf(t, p)
	old := childrenOf(t, p.cmd.Process.Pid, group)
	require.Len(t, old, 1)
	require.NoError(t, syscall.Kill(old[0], syscall.SIGKILL))
	eventually(t, func() bool {
		now := childrenOf(t, p.cmd.Process.Pid, group)
		return len(now) == 1 && now[0] != old[0]
	}, "another guard")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR1))
	p.waitFor("heard") // So redlock is done with the guard.
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	waitGone(t, group)
}

// Somebody stops the guard: redlock has it go on.
func TestRunGuardStopped(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "600")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	pid := cmd.Process.Pid
	j := &job{guard: &guard{pid: pid}}
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	c := child{}
	var err error
	c.pid, err = syscall.Wait4(pid, &c.status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, c.status.Stopped())
	j.see(c)
	_, err = syscall.Wait4(pid, &c.status, unix.WCONTINUED, nil)
	require.NoError(t, err)
	assert.True(t, c.status.Continued())
}

// A guard that could not be told of an extension is told again, or it would end a command that has
// its lock.
func TestGuardIsToldAgain(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = read.Close() }()
	g := &guard{pipe: write}
	for err == nil { // A line after the other, which the guard does not read.
		err = g.write(strings.Repeat("x", 1<<12))
	}
	require.ErrorIs(t, err, syscall.EAGAIN, "it does not hold up redlock")
	at := time.Now().Add(time.Minute)
	g.killAt(at)
	full := make([]byte, 1<<22)
	n, err := read.Read(full)
	require.NoError(t, err)
	require.Positive(t, n)
	g.killAt(at)
	require.NoError(t, write.Close())
	rest, err := io.ReadAll(read)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(rest), "kill "))
}
