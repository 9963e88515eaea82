//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// endedBy reports whether a process has ended by a signal.
func (p *process) endedBy(sig syscall.Signal) bool {
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status.Signaled() && status.Signal() == sig
}

func TestRunIsTheCommand(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	cmd := command(t, c, "run", "a", "--", "sh", "-c", "cat; kill -TERM $$")
	cmd.Stdin = strings.NewReader("hello\n")
	p := startCommand(t, cmd)
	p.wait()
	assert.Equal(t, "hello\n", p.out.String())
	assert.True(t, p.endedBy(syscall.SIGTERM), "%v", p.cmd.ProcessState)
}

// A release that cannot be confirmed is worth a remark, unless the user wants none.
func TestRunReleaseNotConfirmed(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	says := map[string]string{"--quiet=false": "could not be confirmed", "--quiet": `^$`}
	var ends []func()
	for flag, want := range says {
		p, end := startHolding(t, c, "run", flag, "--ttl", "10m", "x"+flag, "--", "sh", "-c", "echo works; read line; exit 3")
		ends = append(ends, func() {
			end()
			assert.Equal(t, 3, p.wait(), "%s", p.errOut)
			assert.Regexp(t, want, p.errOut.String())
		})
	}
	require.NoError(t, c.Nodes[0].Stop())
	require.NoError(t, c.Nodes[1].Stop())
	for _, end := range ends {
		end()
	}
}

// startHolding starts a command that runs until its standard input ends, and waits for its first line.
func startHolding(t *testing.T, c *testcluster.Cluster, args ...string) (p *process, end func()) {
	t.Helper()
	cmd := command(t, c, args...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	p = startCommand(t, cmd)
	p.waitFor("\n")
	return p, func() { _ = stdin.Close() }
}

// Two extensions that fail can be made up for by a third, whatever the flags.
func TestLeeway(t *testing.T) {
	given := func(string) bool { return true }
	for _, ttl := range []time.Duration{time.Second, 4 * time.Second, 30 * time.Second, time.Hour} {
		for _, nodeTimeout := range []time.Duration{time.Millisecond, 250 * time.Millisecond, 5 * time.Second} {
			for _, killAfter := range []time.Duration{0, ttl / 4, ttl / 3, ttl / 2} {
				f := &runFlags{wait: "0", ttl: ttl, killAfter: killAfter}
				require.NoError(t, f.complete(given, 0))
				limited := f.limitKillAfter(nodeTimeout)
				assert.Equal(t, limited, f.killAfter < killAfter)
				assert.GreaterOrEqual(t, f.killAfter, min(killAfter, ttl/4), "no more than needed")
				answer := f.leeway() / triesOfLeeway // of the third one
				assert.GreaterOrEqual(t, answer, min(nodeTimeout, ttl*3/20), "ttl %v, node timeout %v, kill after %v", ttl, nodeTimeout, killAfter)
			}
		}
	}
	f := &runFlags{wait: "0", ttl: 10 * time.Second, killAfter: 5 * time.Second}
	require.NoError(t, f.complete(func(string) bool { return false }, 0))
	assert.Equal(t, 2500*time.Millisecond, f.killAfter, "the default follows a short ttl")
}

// With healthy nodes a command goes on, also if the ttl is short, the way long, and --kill-after as long as
// it may be. KeepAlive's first extension would be answered when SIGTERM is due.
func TestRunFarAway(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	for _, node := range c.Nodes {
		require.NoError(t, node.Slow(350*time.Millisecond, 350*time.Millisecond))
	}
	p := start(t, c, "run", "--connect-timeout", "20s", "--node-timeout", "1500ms",
		"--ttl", "6s", "--kill-after", "3s", "x", "--", "sleep", "8")
	assert.Equal(t, 0, p.wait(), "%s", p.errOut)
	assert.Contains(t, p.errOut.String(), "redlock: --kill-after is 1.5s: more of a ttl of 6s would leave no time for extensions that fail\n")
}

// Only the user can read a token, and nothing else is left.
func TestAcquireToAFile(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(file, []byte("an older one, which everybody can read\n"), 0o644))
	exits(t, c, exitOK, "acquire", "--token-file", file, "x")
	exits(t, c, exitTaken, "acquire", "--token-file", file, "--wait", "0", "x")
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1)
}

// A lock whose token nobody has is released again.
func TestAcquireCannotWriteTheToken(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	t.Setenv("REDLOCK_NODES", strings.Join(c.Addrs(), ","))
	for _, args := range [][]string{{"x"}, {"--json", "x"}, {"--token-file", filepath.Join(t.TempDir(), "token"), "x"}} {
		var errOut bytes.Buffer
		s := execute(t.Context(), append([]string{"acquire", "--ttl", "10m"}, args...), strings.NewReader(""), full{}, &errOut)
		assert.Equal(t, exitInternal, s.code)
		assert.Contains(t, errOut.String(), "no space")
		eventually(t, func() bool { return holders(t, c, "x") == 0 }, "the release")
	}
}

// As many commands run as there are permits, each with a slot of its own, and no more.
func TestRunPermits(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	script := `echo "$REDLOCK_SLOT on $REDLOCK_RESOURCES"; cat`
	var ends []func()
	var slots []string
	for range 3 {
		p, end := startHolding(t, c, "run", "--permits", "3", "--ttl", "10m", "jobs", "--", "sh", "-c", script)
		slots = append(slots, p.out.String())
		ends = append(ends, end)
	}
	require.ElementsMatch(t, []string{"0 on jobs#0\n", "1 on jobs#1\n", "2 on jobs#2\n"}, slots)
	for flags, want := range map[string]string{
		"--wait 0":         `^redlock: no permit of jobs is free: jobs#\d is held by .+ for another \d+m.+\n$`,
		"--wait 0 --quiet": `^$`,
		"--wait 0 --json":  `^\{"error":.*,"reason":"taken",`,
	} {
		p := start(t, c, strings.Fields("run --permits 3 "+flags+" jobs -- echo ran")...)
		assert.Equal(t, exitTaken, p.wait())
		assert.Regexp(t, want, p.errOut.String())
		assert.Empty(t, p.out.String())
	}
	p := start(t, c, "run", "--wait", "0", "jobs", "--", "echo", "ran")
	assert.Equal(t, 0, p.wait(), "the lock of the name is another: %s", p.errOut)

	next := start(t, c, "run", "--permits", "3", "--fence", "jobs", "--", "sh", "-c", `echo "$REDLOCK_SLOT $REDLOCK_FENCE"`)
	said := func() bool { return strings.Contains(next.errOut.String(), "waiting for a permit of jobs\n") }
	eventually(t, said, "a word")
	for i := range 3 {
		eventually(t, func() bool { return waiting(t, c, fmt.Sprintf("jobs#%d", i)) > 0 }, "a place in each line")
	}
	ends[0]()
	assert.Equal(t, 0, next.wait(), "%s", next.errOut)
	assert.Regexp(t, `^\d [1-9]\d*\n$`, next.out.String())
	ends[1]()
	ends[2]()
	for i := range 3 {
		eventually(t, func() bool { return holders(t, c, fmt.Sprintf("jobs#%d", i)) == 0 }, "the release on all nodes")
	}
}

func TestWatchPermits(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p := start(t, c, "watch", "--interval", "100ms", "--permits", "2", "jobs", "other")
	p.waitFor(" other#1 free\n")
	lock := hold(t, c, "jobs#1", redlock.WithOwner("me"))
	p.waitFor(`jobs#1 held by "me"`)
	require.NoError(t, lock.Unlock(t.Context()))
	eventually(t, func() bool { return strings.Count(p.out.String(), " jobs#1 free\n") == 2 }, "the release")
	assert.NotRegexp(t, `\x1b|(?s)jobs#0.*jobs#0`, p.out.String(), "colour, a picture, or what has not changed")

	j := start(t, c, "watch", "--json", "--permits", "2", "jobs")
	j.waitFor("\n{")
	first, _, _ := strings.Cut(j.out.String(), "\n")
	v := decode[viewJSON](t, first)
	assert.Equal(t, []any{"jobs", 0, "jobs#0"}, []any{v.Semaphore, *v.Slot, v.Resource})
}

// A signal ends the wait, and leaves nothing behind.
func TestSignalEndsTheWait(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	dir := t.TempDir()
	hold(t, c, "x")
	for sig, line := range map[syscall.Signal]string{
		syscall.SIGTERM: "acquire --token-file " + filepath.Join(dir, "token") + " x",
		syscall.SIGINT:  "run x -- touch " + filepath.Join(dir, "ran"),
	} {
		p := start(t, c, strings.Fields(line)...)
		eventually(t, func() bool { return waiting(t, c, "x") > 0 }, "a place in the line")
		require.NoError(t, p.cmd.Process.Signal(sig))
		p.wait()
		assert.True(t, p.endedBy(sig), "%v", p.cmd.ProcessState)
		eventually(t, func() bool { return waiting(t, c, "x") == 0 }, "the end of the line")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}
