//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// stubborn is a command that ignores SIGTERM, and so does a process that it has started. It says
// when it runs, and which group it is.
const stubborn = `trap '' TERM; sleep 600 & echo group $$; while :; do sleep 600; done`

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

// waitGone waits until no process of a group is left, and returns when one was seen last.
func waitGone(t *testing.T, group int) (seen time.Time) {
	t.Helper()
	eventually(t, func() bool {
		now := time.Now()
		if gone(group) {
			return true
		}
		seen = now
		return false
	}, "the end of group %d", group)
	return seen
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

// expiry waits for an extension of the lock x, and returns when a quorum of its keys expires if
// there is no other one.
func expiry(t *testing.T, c *testcluster.Cluster) time.Time {
	t.Helper()
	var at time.Time
	eventually(t, func() bool {
		now := time.Now()
		fresh := 0
		for _, node := range c.Nodes {
			keys, err := node.Keys()
			require.NoError(t, err)
			if left := keys["x"].TTL; left > shortTTL*9/10 {
				fresh++
				at = now.Add(left)
			}
		}
		return fresh == len(c.Nodes) && time.Since(now) < shortTTL/20
	}, "an extension")
	return at
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

// lastExpiry returns when fewer than a quorum of the keys of x are left, if nobody extends them
// any more: at the earliest.
func lastExpiry(t *testing.T, c *testcluster.Cluster) time.Time {
	t.Helper()
	now := time.Now()
	var left []time.Duration
	for _, node := range c.Nodes {
		keys, err := node.Keys()
		require.NoError(t, err)
		left = append(left, keys["x"].TTL)
	}
	slices.Sort(left)
	return now.Add(left[1])
}

func TestRunForwardsSignals(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		t.Run(sig.String(), func(t *testing.T) {
			script := fmt.Sprintf(`trap 'echo caught; exit 7' %d; echo ready; while :; do sleep 0.05; done`, int(sig))
			p := start(t, c, "run", "x", "--", "sh", "-c", script)
			p.waitFor("ready")
			require.NoError(t, p.cmd.Process.Signal(sig))
			assert.Equal(t, 7, p.wait(), "%s", p.errOut)
			assert.Contains(t, p.out.String(), "caught")
		})
	}
	t.Run("to all of the group", func(t *testing.T) {
		p, group := startGroup(t, c, `sleep 600 & echo group $$; wait`)
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		p.wait()
		waitGone(t, group)
		assert.False(t, p.cmd.ProcessState.Success())
	})
	t.Run("that the command ignores", func(t *testing.T) {
		p := start(t, c, "run", "x", "--", "sh", "-c", `trap '' TERM; echo ready; sleep 1; exit 5`)
		p.waitFor("ready")
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 5, p.wait(), "%s", p.errOut)
	})
}

// A command that is stopped could hear of nothing: it goes on with what is to end it.
func TestRunForwardsSignalsToOneThatIsStopped(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		p, group := startGroup(t, c, fmt.Sprintf(`trap 'exit 7' %d; echo group $$; while :; do sleep 0.05; done`, int(sig)))
		require.NoError(t, syscall.Kill(-group, syscall.SIGSTOP))
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

// The command is gone before the keys of a quorum can expire, though it ignores SIGTERM.
func TestRunMajorityFrozen(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p, group := startGroup(t, c, stubborn, "--ttl", shortTTL.String())
	free := freezeAfterExtension(t, c)
	seen := waitGone(t, group)
	assert.Truef(t, seen.Before(free), "the command was there %v after the keys could have expired", seen.Sub(free))
	t.Logf("seen last %v before the keys can expire", free.Sub(seen))
	assert.Equal(t, exitLost, p.wait(), "%s", p.errOut)
	assert.Contains(t, p.errOut.String(), "redlock: the lock was lost, and the command ended: it could not be extended in time, as too few nodes answered\n")
}

// freezeAfterExtension stops a majority just after an extension, and returns when a quorum of the
// keys expires. On a busy machine it may take several attempts: the next extension is a third of
// the ttl later.
func freezeAfterExtension(t *testing.T, c *testcluster.Cluster) time.Time {
	t.Helper()
	for {
		free := expiry(t, c)
		freeze(t, c)
		if time.Until(free) > shortTTL*3/4 {
			return free
		}
		for _, node := range c.Nodes[:2] {
			require.NoError(t, node.Resume())
		}
	}
}

// freeze stops a majority of three.
func freeze(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	for _, node := range c.Nodes[:2] {
		require.NoError(t, node.Hang())
		t.Cleanup(func() { _ = node.Resume() })
	}
}

// A command that hears SIGTERM has the time of --kill-after to end by itself.
func TestRunTellsTheCommandFirst(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	script := `trap 'echo told; sleep 0.2; echo tidy; exit 0' TERM; echo group $$; while :; do sleep 0.05; done`
	p, _ := startGroup(t, c, script, "--node-timeout", "2s", "--connect-timeout", "20s", "--ttl", "20s", "--kill-after", "10s")
	freeze(t, c)
	assert.Equal(t, exitLost, p.wait(), "%s", p.errOut)
	assert.Contains(t, p.out.String(), "told\ntidy\n")
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
	assert.Less(t, waitGone(t, group).Sub(begun), ttl*9/10)
	assert.Equal(t, exitLost, p.wait(), "%s", p.errOut)
}

// kill -9 of redlock itself: the command ends, too, and the lock is free after the ttl.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p, group := startGroup(t, c, stubborn, "--ttl", shortTTL.String())
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	free := lastExpiry(t, c)
	goneWhileLocked(t, c, group)
	next := start(t, c, "run", "x", "--", "echo", "ran")
	assert.Equal(t, 0, next.wait(), "%s", next.errOut)
	assert.False(t, time.Now().Before(free.Add(-shortTTL/10)), "the lock was free before its ttl was over")
}

// A signal that goes to all processes of a name, or of a service, does not take the guard away.
func TestRunGuardStays(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p, group := startGroup(t, c, stubborn)
	guards := childrenOf(t, p.cmd.Process.Pid, group)
	require.Len(t, guards, 1)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		require.NoError(t, syscall.Kill(guards[0], sig))
		require.NoError(t, p.cmd.Process.Signal(sig))
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	waitGone(t, group)
	eventually(t, func() bool { return errors.Is(syscall.Kill(guards[0], 0), syscall.ESRCH) || onlyZombies(guards[0]) }, "the end of the guard")
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
	file := filepath.Join(t.TempDir(), "done")
	script := fmt.Sprintf(`echo group $$; while [ ! -e %s ]; do sleep 0.05; done; exit 4`, file)
	p, group := startGroup(t, c, script, "--ttl", shortTTL.String())
	require.NoError(t, syscall.Kill(-group, syscall.SIGSTOP))
	first := expiry(t, c)
	eventually(t, func() bool { return expiry(t, c).After(first.Add(shortTTL / 5)) }, "another extension")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, syscall.Kill(-group, syscall.SIGCONT))
	assert.Equal(t, 4, p.wait(), "%s", p.errOut)
}

// A minority that is frozen costs the command nothing.
func TestRunMinorityFrozen(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p, _ := startGroup(t, c, `echo group $$; sleep 15`, "--ttl", shortTTL.String())
	require.NoError(t, c.Nodes[2].Hang())
	assert.Equal(t, 0, p.wait(), "%s", p.errOut)
}
