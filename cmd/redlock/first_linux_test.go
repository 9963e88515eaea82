package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

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
