//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
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

// stubborn is a command that ignores SIGTERM, and so does a process that it has started. It says
// when it runs, and which group it is.
const stubborn = `trap '' TERM; sleep 600 & echo group $$; while :; do sleep 600; done`

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

// goneAt waits until no process of a group is left, and returns when that was: at the latest.
func goneAt(t *testing.T, group int) time.Time {
	t.Helper()
	eventually(t, func() bool { return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) || onlyZombies(group) }, "the end of group %d", group)
	return time.Now()
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
func expiry(t *testing.T, c *testcluster.Cluster, ttl time.Duration) time.Time {
	t.Helper()
	var at time.Time
	eventually(t, func() bool {
		now := time.Now()
		fresh := 0
		for _, node := range c.Nodes {
			keys, err := node.Keys()
			require.NoError(t, err)
			if left := keys["x"].TTL; left > ttl*9/10 {
				fresh++
				at = now.Add(left)
			}
		}
		return fresh == len(c.Nodes) && time.Since(now) < ttl/20
	}, "an extension")
	return at
}

func TestRunForwardsSignals(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		t.Run(sig.String(), func(t *testing.T) {
			script := fmt.Sprintf(`trap 'echo caught; exit 7' %d; echo ready; while :; do sleep 0.05; done`, int(sig))
			p := start(t, c, runArgs("x", "--", "sh", "-c", script)...)
			p.waitFor("ready")
			require.NoError(t, p.cmd.Process.Signal(sig))
			assert.Equal(t, 7, p.wait(), "%s", p.errOut)
			assert.Contains(t, p.out.String(), "caught")
		})
	}
	t.Run("to all of the group", func(t *testing.T) {
		p := start(t, c, runArgs("x", "--", "sh", "-c", `sleep 600 & echo group $$; wait`)...)
		group := groupOf(t, p)
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		p.wait()
		goneAt(t, group)
		assert.False(t, p.cmd.ProcessState.Success())
	})
	t.Run("that the command ignores", func(t *testing.T) {
		p := start(t, c, runArgs("x", "--", "sh", "-c", `trap '' TERM; echo ready; sleep 1; exit 5`)...)
		p.waitFor("ready")
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 5, p.wait(), "%s", p.errOut)
	})
}

// What a command leaves running in the background has the lock, too.
func TestRunForksAndExits(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	file := filepath.Join(t.TempDir(), "done")
	script := fmt.Sprintf(`(while [ ! -e %s ]; do sleep 0.05; done) & echo group $$; exit 3`, file)
	p := start(t, c, runArgs("x", "--", "sh", "-c", script)...)
	group := groupOf(t, p)
	eventually(t, func() bool { return errors.Is(syscall.Kill(group, 0), syscall.ESRCH) }, "the end of the command itself")
	require.NoError(t, syscall.Kill(-group, 0))
	assert.Equal(t, 3, holders(t, c, "x"))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Equal(t, 3, p.wait(), "%s", p.errOut)
	eventually(t, func() bool { return holders(t, c, "x") == 0 }, "the release")
}

// The command is gone before the keys of a quorum can expire, though it ignores SIGTERM.
func TestRunMajorityFrozen(t *testing.T) {
	const ttl = 4 * time.Second
	c := testcluster.RunServers(t, 3)
	p := start(t, c, runArgs("--ttl", ttl.String(), "x", "--", "sh", "-c", stubborn)...)
	group := groupOf(t, p)
	free := expiry(t, c, ttl)
	freeze(t, c)
	gone := goneAt(t, group)
	assert.Truef(t, gone.Before(free), "the command was gone %v after the keys could have expired", gone.Sub(free))
	t.Logf("gone %v before the keys can expire", free.Sub(gone))
	assert.Equal(t, exitLost, p.wait(), "%s", p.errOut)
	assert.Contains(t, p.errOut.String(), "lost")
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
	c := testcluster.RunServers(t, 3)
	script := `trap 'echo told; sleep 0.2; echo tidy; exit 0' TERM; echo group $$; while :; do sleep 0.05; done`
	p := start(t, c, runArgs("--ttl", "6s", "--kill-after", "3s", "x", "--", "sh", "-c", script)...)
	groupOf(t, p)
	freeze(t, c)
	assert.Equal(t, exitLost, p.wait(), "%s", p.errOut)
	assert.Contains(t, p.out.String(), "told\ntidy\n")
}

// A minority that is frozen costs the command nothing.
func TestRunMinorityFrozen(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	p := start(t, c, runArgs("--ttl", "2s", "x", "--", "sh", "-c", `echo group $$; sleep 5`)...)
	groupOf(t, p)
	require.NoError(t, c.Nodes[2].Hang())
	assert.Equal(t, 0, p.wait(), "%s", p.errOut)
}

// Somebody has taken the lock away: the command ends at once, not only when its time is over.
func TestRunLockBroken(t *testing.T) {
	const ttl = 20 * time.Second
	c := testcluster.RunServers(t, 3)
	p := start(t, c, runArgs("--ttl", ttl.String(), "--kill-after", "100ms", "x", "--", "sh", "-c", stubborn)...)
	group := groupOf(t, p)
	begun := time.Now()
	for _, node := range c.Nodes {
		require.NoError(t, node.Set("x", "another", time.Minute))
	}
	assert.Less(t, goneAt(t, group).Sub(begun), ttl*9/10)
	assert.Equal(t, exitLost, p.wait(), "%s", p.errOut)
}

// kill -9 of redlock itself: the command ends, too, and the lock is free after the ttl.
func TestRunKilled(t *testing.T) {
	const ttl = 4 * time.Second
	c := testcluster.RunServers(t, 3)
	p := start(t, c, runArgs("--ttl", ttl.String(), "x", "--", "sh", "-c", stubborn)...)
	group := groupOf(t, p)
	free := expiry(t, c, ttl)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	gone := goneAt(t, group)
	assert.Truef(t, gone.Before(free), "the command was gone %v after the keys could have expired", gone.Sub(free))
	next := start(t, c, runArgs("x", "--", "echo", "ran")...)
	assert.Equal(t, 0, next.wait(), "%s", next.errOut)
	assert.False(t, time.Now().Before(free.Add(-ttl/10)), "the lock was free before its ttl was over")
}

// redlock is stopped, and cannot see to the command: its guard does.
func TestRunStopped(t *testing.T) {
	const ttl = 4 * time.Second
	c := testcluster.RunServers(t, 3)
	p := start(t, c, runArgs("--ttl", ttl.String(), "x", "--", "sh", "-c", stubborn)...)
	group := groupOf(t, p)
	free := expiry(t, c, ttl)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	gone := goneAt(t, group)
	assert.Truef(t, gone.Before(free), "the command was gone %v after the keys could have expired", gone.Sub(free))
	time.Sleep(time.Until(free))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	assert.Equal(t, exitLost, p.wait(), "%s", p.errOut)
}

// A command that is stopped by another process keeps the lock.
func TestRunCommandStopped(t *testing.T) {
	const ttl = 4 * time.Second
	c := testcluster.RunServers(t, 3)
	file := filepath.Join(t.TempDir(), "done")
	script := fmt.Sprintf(`echo group $$; while [ ! -e %s ]; do sleep 0.05; done; exit 4`, file)
	p := start(t, c, runArgs("--ttl", ttl.String(), "x", "--", "sh", "-c", script)...)
	group := groupOf(t, p)
	require.NoError(t, syscall.Kill(-group, syscall.SIGSTOP))
	first := expiry(t, c, ttl)
	eventually(t, func() bool { return expiry(t, c, ttl).After(first.Add(ttl / 5)) }, "another extension")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, syscall.Kill(-group, syscall.SIGCONT))
	assert.Equal(t, 4, p.wait(), "%s", p.errOut)
}
