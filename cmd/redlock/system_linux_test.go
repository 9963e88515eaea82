package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
		t.Run("the command is ended by "+sig.String(), func(t *testing.T) {
			script := fmt.Sprintf("kill -%d $$; sleep 600", int(sig))
			p := startCommand(t, asFirst(t, command(t, c, "run", sig.String(), "--", "sh", "-c", script)))
			assert.Equal(t, exitSignal+int(sig), p.wait(), "%s", p.errOut)
		})
	}
	lock := hold(t, c, "x")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		for name, tt := range map[string]struct {
			args []string
			says string
		}{
			"run waits":  {[]string{"run", "x", "--", "true"}, "waiting for x"},
			"watch":      {[]string{"watch", "x"}, "x held"},
			"break asks": {[]string{"break", "x"}, "[y/N] "},
		} {
			t.Run(name+", "+sig.String(), func(t *testing.T) {
				cmd := asFirst(t, command(t, c, tt.args...))
				in, err := cmd.StdinPipe()
				require.NoError(t, err)
				defer func() { _ = in.Close() }()
				p := startCommand(t, cmd)
				eventually(t, func() bool { return strings.Contains(p.out.String()+p.errOut.String(), tt.says) }, "%q", tt.says)
				require.NoError(t, cmd.Process.Signal(sig))
				assert.Equal(t, exitSignal+int(sig), p.wait(), "%s", p.errOut)
			})
		}
	}
	require.NoError(t, lock.Unlock(t.Context()))
	t.Run("nobody reads its answer", func(t *testing.T) {
		read, write, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, read.Close())
		defer func() { _ = write.Close() }()
		cmd := asFirst(t, command(t, c, "help"))
		cmd.Stdout = write
		_ = cmd.Run()
		assert.Equal(t, exitInternal, cmd.ProcessState.ExitCode())
	})
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

// The command hears of redlock's end from the kernel, and the others of its group once, from the guard. A
// second SIGTERM means to many programs that there is no time to tidy up.
func TestRunKilledTellsTheGroup(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	file := filepath.Join(t.TempDir(), "told")
	script := fmt.Sprintf(`
		(trap 'echo other >>%[1]s' TERM; : >%[1]s; while :; do sleep 0.05; done) &
		trap 'echo itself >>%[1]s' TERM; trap 'echo end >>%[1]s; exit' WINCH
		until [ -e %[1]s ]; do sleep 0.05; done
		echo group $$; while :; do sleep 0.05; done`, file)
	p, group := startGroup(t, c, script, "--ttl", "4m", "--kill-after", "2m")
	told := func() string {
		text, _ := os.ReadFile(file)
		return string(text)
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	eventually(t, func() bool { return strings.Contains(told(), "itself") && strings.Contains(told(), "other") }, "the word")
	require.NoError(t, syscall.Kill(group, syscall.SIGWINCH)) // Which a shell sees to after SIGTERM.
	eventually(t, func() bool { return strings.Contains(told(), "end") }, "the end")
	assert.Equal(t, 1, strings.Count(told(), "other"))
}

// The command itself has heard of redlock's end from the kernel, and not from the guard.
func TestGuardTellsOnlyTheOthers(t *testing.T) {
	t.Parallel()
	g := startHearer(t)
	w := &watcher{group: g.cmd.Process.Pid, killAfter: time.Hour}
	w.read("", false)
	w.look()
	assert.True(t, w.told)
	assert.Zero(t, g.terms())
}
