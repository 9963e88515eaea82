//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// stubborn is a command that says which group it is and when it was told to end, and goes on. A process that it has
// started does not even hear that.
const stubborn = `trap 'echo told' TERM; trap 'echo heard' USR1
	(trap '' TERM; exec sleep 600) & echo group $$; while :; do sleep 0.05; done`

// shortTTL is the ttl of tests that wait for the end of a lock.
const shortTTL = 10 * time.Second

// groupOf waits until a command has said which group it is.
func groupOf(t *testing.T, p *process) int {
	t.Helper()
	p.waitFor("group ")
	group := 0
	eventually(t, func() bool {
		_, rest, _ := strings.Cut(p.out.String(), "group ")
		line, _, whole := strings.Cut(rest, "\n")
		var err error
		group, err = strconv.Atoi(line)
		return whole && err == nil
	}, "the number of the group")
	t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
	return group
}

// startGroup runs a script for a shell under the lock x, which says which group it is.
func startGroup(t *testing.T, c *testcluster.Cluster, script string, flags ...string) (p *process, group int) {
	t.Helper()
	p = start(t, c, append(append([]string{"run"}, flags...), "x", "--", "sh", "-c", script)...)
	return p, groupOf(t, p)
}

// waitGone waits until no process of a group is left.
func waitGone(t *testing.T, group int) {
	t.Helper()
	eventually(t, func() bool { return gone(group) }, "the end of group %d", group)
}

// gone reports whether no process of a group is left.
func gone(group int) bool {
	return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) || onlyZombies(group)
}

// onlyZombies reports whether nothing of a group runs any more. A test may be run where nobody
// waits for orphans.
func onlyZombies(group int) bool {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		var state string
		var parent, pgrp int
		if _, err := fmt.Sscan(rest, &state, &parent, &pgrp); err == nil && pgrp == group && state != "Z" {
			return false
		}
	}
	return true
}

// goneWhileLocked waits until no process of a group is left. A process that is there although a quorum of
// the keys of x is not any more fails the test. It goes by what is seen, and by no times: on a busy machine
// each look may come late.
func goneWhileLocked(t *testing.T, c *testcluster.Cluster, group int) {
	t.Helper()
	eventually(t, func() bool {
		held := holders(t, c, "x") > len(c.Nodes)/2 // First: what runs after that runs without its lock.
		if gone(group) {
			return true
		}
		require.True(t, held, "the command runs, and somebody else can have the lock")
		return false
	}, "the end of group %d", group)
}

// A command that is stopped could hear of nothing: it goes on with what is to end it.
func TestRunForwardsSignals(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	for i, sig := range []syscall.Signal{
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
	} {
		p, group := startGroup(t, c, fmt.Sprintf(`trap 'exit 7' %d; echo group $$; while :; do sleep 0.05; done`, int(sig)))
		if i >= 2 {
			require.NoError(t, syscall.Kill(-group, syscall.SIGSTOP))
		}
		require.NoError(t, p.cmd.Process.Signal(sig))
		assert.Equal(t, 7, p.wait(), "%v: %s", sig, p.errOut)
	}
}

// What a command leaves running in the background has the lock, too.
func TestRunForksAndExits(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	file := filepath.Join(t.TempDir(), "done")
	script := fmt.Sprintf(`(while [ ! -e %s ]; do sleep 0.05; done) & echo group $$; exit 3`, file)
	p, group := startGroup(t, c, script)
	eventually(t, func() bool { return errors.Is(syscall.Kill(group, 0), syscall.ESRCH) }, "the end of the command itself")
	require.NoError(t, syscall.Kill(-group, 0))
	onAllNodes(t, c, "x")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Equal(t, 3, p.wait(), "%s", p.errOut)
	eventually(t, func() bool { return holders(t, c, "x") == 0 }, "the release")
}

// The command is told, and gone before a quorum of the keys expires, though it ignores SIGTERM.
func TestRunMajorityFrozen(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	p, group := startGroup(t, c, stubborn, "--ttl", shortTTL.String())
	for _, node := range c.Nodes[:2] {
		node.Proxy().Hang()
	}
	goneWhileLocked(t, c, group)
	assert.Equal(t, exitLost, p.wait(), "%s", p.errOut)
	assert.Contains(t, p.out.String(), "told")
	assert.Contains(t, p.errOut.String(), "the command ended: it could not be extended in time, as too few nodes answered")
}

// Somebody has taken the lock away: the command ends at once, not only when its time is over.
func TestRunLockBroken(t *testing.T) {
	t.Parallel()
	const ttl = 20 * time.Second
	c := testcluster.RunServers(t, 3)
	p, group := startGroup(t, c, stubborn, "--ttl", ttl.String(), "--kill-after", "100ms")
	begun := time.Now()
	for _, node := range c.Nodes {
		require.NoError(t, node.Set("x", "another", time.Minute))
	}
	waitGone(t, group)
	assert.Less(t, time.Since(begun), ttl*9/10)
	assert.Equal(t, exitLost, p.wait(), "%s", p.errOut)
}

// kill -9 of redlock: the command ends, too, before its lock does. A signal that goes to all processes of a name, or of
// a service, does not take the guard away, and for one that somebody kills there is another.
func TestRunGuardStays(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p, group := startGroup(t, c, stubborn, "--ttl", shortTTL.String())
	guards := childrenOf(t, p.cmd.Process.Pid, group)
	require.Len(t, guards, 1)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		require.NoError(t, syscall.Kill(guards[0], sig))
	}
	time.Sleep(100 * time.Millisecond)
	require.Equal(t, guards, childrenOf(t, p.cmd.Process.Pid, group))
	require.NoError(t, syscall.Kill(guards[0], syscall.SIGKILL))
	var others []int
	eventually(t, func() bool {
		others = childrenOf(t, p.cmd.Process.Pid, group)
		return len(others) == 1 && others[0] != guards[0]
	}, "another guard")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR1))
	p.waitFor("heard") // So redlock is done with the guard.
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	goneWhileLocked(t, c, group)
	eventually(t, func() bool { return gone(others[0]) }, "the end of the guard")
}

// childrenOf are the children of a process but for one.
func childrenOf(t *testing.T, pid, but int) []int {
	t.Helper()
	text, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=").Output()
	require.NoError(t, err)
	var found []int
	for line := range strings.Lines(string(text)) {
		var child, parent int
		if _, err := fmt.Sscan(line, &child, &parent); err == nil && parent == pid && child != but {
			found = append(found, child)
		}
	}
	return found
}

// redlock is stopped, and cannot see to the command: its guard does.
func TestRunStopped(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p, group := startGroup(t, c, stubborn, "--ttl", shortTTL.String())
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	goneWhileLocked(t, c, group)
	eventually(t, func() bool { return holders(t, c, "x") == 0 }, "the end of the lock")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	assert.Equal(t, exitLost, p.wait(), "%s", p.errOut)
	assert.Regexp(t, `the lock was lost, and the command ended: redlock did not run for \d+(\.\d)?s, as it was stopped`, p.errOut.String())
	assert.NotContains(t, p.errOut.String(), "nodes")
}

// A command that is stopped by another process keeps the lock.
func TestRunCommandStopped(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	script := `trap 'exit 4' TERM; echo group $$; while :; do sleep 0.05; done`
	p, group := startGroup(t, c, script, "--ttl", shortTTL.String())
	require.NoError(t, syscall.Kill(-group, syscall.SIGSTOP))
	time.Sleep(shortTTL * 5 / 4)
	onAllNodes(t, c, "x")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 4, p.wait(), "%s", p.errOut)
}
