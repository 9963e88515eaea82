//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

func TestRunIsTheCommand(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	t.Run("input, output and code", func(t *testing.T) {
		cmd := command(t, c, runArgs("a", "--", "sh", "-c", "cat; echo oops >&2; exit 3")...)
		cmd.Stdin = strings.NewReader("hello\n")
		p := startCommand(t, cmd)
		assert.Equal(t, 3, p.wait())
		assert.Equal(t, "hello\n", p.out.String())
		assert.Equal(t, "oops\n", p.errOut.String())
	})
	t.Run("a signal", func(t *testing.T) {
		p := start(t, c, runArgs("a", "--", "sh", "-c", "kill -TERM $$")...)
		p.wait()
		status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		assert.True(t, status.Signaled() && status.Signal() == syscall.SIGTERM, "%v", p.cmd.ProcessState)
		p = start(t, c, runArgs("a", "--", "sh", "-c", "kill -USR1 $$")...)
		assert.Equal(t, 128+int(syscall.SIGUSR1), p.wait())
	})
	t.Run("environment", func(t *testing.T) {
		cmd := command(t, c, runArgs("--fence", "b", "a", "b", "--", "env")...)
		cmd.Env = append(cmd.Env, "REDLOCK_TOKEN=outer", "OWN=1")
		p := startCommand(t, cmd)
		require.Equal(t, 0, p.wait(), "%s", p.errOut)
		assert.Contains(t, p.out.String(), "REDLOCK_RESOURCES=a\nb\n")
		assert.Regexp(t, `(?m)^REDLOCK_TOKEN=[0-9a-f]{32} owner=.+/\d+$`, p.out.String())
		assert.Regexp(t, `(?m)^REDLOCK_FENCE=[1-9]\d*$`, p.out.String())
		assert.NotContains(t, p.out.String(), "outer")
		assert.Contains(t, p.out.String(), "OWN=1\n")
		p = start(t, c, runArgs("a", "--", "env")...)
		require.Equal(t, 0, p.wait(), "%s", p.errOut)
		assert.NotContains(t, p.out.String(), "REDLOCK_FENCE")
	})
	t.Run("its own process group", func(t *testing.T) {
		p := start(t, c, runArgs("a", "--", "sh", "-c", "ps -o pid= -o pgid= -p $$")...)
		require.Equal(t, 0, p.wait(), "%s", p.errOut)
		var pid, group int
		_, err := fmt.Sscan(p.out.String(), &pid, &group)
		require.NoError(t, err)
		assert.Equal(t, pid, group)
	})
	eventually(t, func() bool { return holders(t, c, "a") == 0 }, "the release on all nodes")
}

func TestRunRefused(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	hold(t, c, "held")
	file := filepath.Join(t.TempDir(), "ran")
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no program"), 0o600))
	tests := []struct {
		name string
		args []string
		code int
		want string
	}{
		{"taken", []string{"--wait", "0", "held", "--", "touch", file}, exitTaken, "redlock: held is held by "},
		{"taken for long", []string{"--wait", "4s", "held", "--", "touch", file}, exitTaken, "redlock: gave up waiting: held is held by "},
		{"no command", []string{"free", "--", "no-such-command-anywhere"}, exitNotFound, "no such command"},
		{"no program", []string{"free", "--", text}, exitCannot, "permission denied"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, c, runArgs(tt.args...)...)
			assert.Equal(t, tt.code, p.wait())
			assert.Contains(t, p.errOut.String(), tt.want)
			assert.NoFileExists(t, file)
		})
	}
	t.Run("json", func(t *testing.T) {
		p := start(t, c, runArgs("--json", "--wait", "0", "held", "--", "touch", file)...)
		assert.Equal(t, exitTaken, p.wait())
		var e errorJSON
		require.NoError(t, json.Unmarshal([]byte(p.errOut.String()), &e))
		assert.Equal(t, "taken", e.Reason)
		assert.Equal(t, exitTaken, e.Exit)
		assert.Len(t, e.Votes, 3)
	})
	t.Run("quiet", func(t *testing.T) {
		for _, more := range [][]string{{"--wait", "0"}, {"--wait", "4s"}, {"--wait", "0", "--json"}} {
			p := start(t, c, runArgs(append(more, "--quiet", "held", "--", "touch", file)...)...)
			assert.Equal(t, exitTaken, p.wait())
			assert.Empty(t, p.out.String()+p.errOut.String(), "%q", more)
			assert.NoFileExists(t, file)
		}
		p := start(t, c, runArgs("--quiet", "free", "--", "no-such-command-anywhere")...)
		assert.Equal(t, exitNotFound, p.wait())
		assert.Contains(t, p.errOut.String(), "no such command")
	})
	t.Run("not executable by the kernel", func(t *testing.T) {
		require.NoError(t, os.Chmod(text, 0o700)) //nolint:gosec // It is the point.
		p := start(t, c, runArgs("--at-least", "30s", "free", "--", text)...)
		assert.Equal(t, exitCannot, p.wait())
		assert.Contains(t, p.errOut.String(), "exec format error")
		eventually(t, func() bool { return holders(t, c, "free") == 0 }, "the release in spite of --at-least")
	})
}

func TestRunNoQuorum(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	require.NoError(t, c.Nodes[0].Stop())
	require.NoError(t, c.Nodes[1].Stop())
	for _, wait := range []string{"0", "500ms"} {
		p := start(t, c, "run", "--quiet", "--wait", wait, "x", "--", "echo", "ran")
		assert.Equal(t, exitNoQuorum, p.wait())
		assert.Empty(t, p.out.String())
		assert.Contains(t, p.errOut.String(), "no quorum")
	}
}

// A release that cannot be confirmed is worth a remark, unless the user wants none.
func TestRunReleaseNotConfirmed(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"--quiet=false": "could not be confirmed", "--quiet": ""} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			c := testcluster.RunServers(t, 3)
			cmd := command(t, c, runArgs(flag, "--ttl", "10m", "x", "--", "sh", "-c", "echo works; read line; exit 3")...)
			stdin, err := cmd.StdinPipe()
			require.NoError(t, err)
			p := startCommand(t, cmd)
			p.waitFor("works")
			require.NoError(t, c.Nodes[0].Stop())
			require.NoError(t, c.Nodes[1].Stop())
			require.NoError(t, stdin.Close())
			assert.Equal(t, 3, p.wait(), "%s", p.errOut)
			if want == "" {
				assert.Empty(t, p.errOut.String())
			} else {
				assert.Contains(t, p.errOut.String(), want)
			}
		})
	}
}

func TestRunWaits(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	lock := hold(t, c, "x")
	p := start(t, c, runArgs("--wait", "forever", "x", "--", "echo", "ran")...)
	eventually(t, func() bool { return waiting(t, c, "x") > 0 }, "a place in the line")
	require.NoError(t, lock.Unlock(t.Context()))
	assert.Equal(t, 0, p.wait(), "%s", p.errOut)
	assert.Equal(t, "ran\n", p.out.String())

	t.Run("until a signal", func(t *testing.T) {
		hold(t, c, "y")
		q := start(t, c, runArgs("y", "--", "echo", "ran")...)
		eventually(t, func() bool { return waiting(t, c, "y") > 0 }, "a place in the line")
		require.NoError(t, q.cmd.Process.Signal(syscall.SIGINT))
		q.wait()
		status := q.cmd.ProcessState.Sys().(syscall.WaitStatus)
		assert.True(t, status.Signaled() && status.Signal() == syscall.SIGINT, "%v", q.cmd.ProcessState)
		assert.Empty(t, q.out.String())
	})
}

// Several machines with one crontab: whoever comes first runs the job, nobody else, and never
// nobody.
func TestRunOnceOnSeveralMachines(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	for _, machines := range []int{2, 3, 5} {
		for round, wait := range []string{"0", "1s"} {
			resource := fmt.Sprintf("job-%d-%d", machines, round)
			runs := make([]*process, machines)
			for i := range runs {
				runs[i] = start(t, c, runArgs("--quiet", "--wait", wait, "--at-least", "60s", resource, "--", "true")...)
			}
			codes := make(map[int]int)
			for _, p := range runs {
				codes[p.wait()]++
				assert.Empty(t, p.errOut.String(), "cron would mail it")
			}
			assert.Equal(t, map[int]int{0: 1, exitTaken: machines - 1}, codes, "%s", resource)
		}
	}
}
