package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// asFirst has a command be the first process of a PID namespace, as the program of a container is, or ends the test
// where that is not allowed.
func asFirst(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if id := os.Geteuid(); id != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
	}
	try := exec.Command(program(t, "true"))
	try.SysProcAttr = attr
	if err := try.Run(); err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("no PID namespace: %v", err)
	} else if err != nil {
		t.Skipf("no PID namespace: %v", err)
	}
	cmd.SysProcAttr = attr
	return cmd
}

// The kernel does not end the first process of a container by a signal that this raises against itself.
func TestFirstProcessEndsAsOthersDo(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGKILL} {
		script := fmt.Sprintf("kill -%d $$; sleep 600", int(sig))
		p := startCommand(t, asFirst(t, command(t, c, "run", sig.String(), "--", "sh", "-c", script)))
		assert.Equal(t, exitSignal+int(sig), p.wait(), "%s", p.errOut)
	}
	hold(t, c, "x")
	for line, says := range map[string]string{"run x -- true": "waiting for x", "watch x": "x held", "break x": "[y/N] "} {
		cmd := asFirst(t, command(t, c, strings.Fields(line)...))
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		defer func() { _ = in.Close() }()
		p := startCommand(t, cmd)
		eventually(t, func() bool { return strings.Contains(p.out.String()+p.errOut.String(), says) }, "%q", says)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, exitSignal+int(syscall.SIGTERM), p.wait(), "%s", p.errOut)
	}
	read, write, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, read.Close()) // Nobody reads the answer.
	defer func() { _ = write.Close() }()
	cmd := asFirst(t, command(t, c, "help"))
	cmd.Stdout = write
	_ = cmd.Run()
	assert.Equal(t, exitInternal, cmd.ProcessState.ExitCode())
}

// Whoever kills redlock and its guard at once (pkill -9 redlock) leaves the command to the kernel.
func TestRunKilledWithItsGuard(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p, group := startGroup(t, c, `echo group $$; exec sleep 600`)
	guards := childrenOf(t, p.cmd.Process.Pid, group)
	require.Len(t, guards, 1)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP), "or it might start another guard")
	require.NoError(t, syscall.Kill(guards[0], syscall.SIGKILL))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	waitGone(t, group)
}

// The command itself has heard of redlock's end from the kernel, and not from the guard, from which the others of its
// group hear. A second SIGTERM means to many programs that there is no time to tidy up.
func TestGuardTellsOnlyTheOthers(t *testing.T) {
	t.Parallel()
	g := startHearer(t)
	other := exec.Command("sleep", "60")
	other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.cmd.Process.Pid}
	require.NoError(t, other.Start())
	w := &watcher{group: g.cmd.Process.Pid, killAfter: time.Hour}
	w.read("", false)
	w.look()
	assert.True(t, w.told)
	require.ErrorContains(t, other.Wait(), "signal: terminated")
	assert.Zero(t, g.terms())
}
