//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
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
	cmd := command(t, c, "run", "a", "--", "cat")
	cmd.Stdin = strings.NewReader("hello\n")
	p := startCommand(t, cmd)
	assert.Equal(t, 0, p.wait(), "%s", p.errOut)
	assert.Equal(t, "hello\n", p.out.String())
	p = start(t, c, "run", "a", "--", "sh", "-c", "kill -TERM $$")
	p.wait()
	assert.True(t, p.endedBy(syscall.SIGTERM), "%v", p.cmd.ProcessState)
}

// A release that cannot be confirmed is worth a remark, unless the user wants none.
func TestRunReleaseNotConfirmed(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"--quiet=false": "could not be confirmed", "--quiet": ""} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			c := testcluster.RunServers(t, 3)
			cmd := command(t, c, "run", flag, "--ttl", "10m", "x", "--", "sh", "-c", "echo works; read line; exit 3")
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
				runs[i] = start(t, c, "run", "--quiet", "--wait", wait, "--at-least", "60s", resource, "--", "true")
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

// Two extensions that fail can be made up for by a third, whatever the flags.
func TestLeeway(t *testing.T) {
	given := func(string) bool { return true }
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 30 * time.Second, time.Hour} {
		for _, nodeTimeout := range []time.Duration{time.Millisecond, 250 * time.Millisecond, 5 * time.Second} {
			for _, killAfter := range []time.Duration{0, ttl / 8, ttl / 4, ttl / 3, ttl / 2} {
				f := &runFlags{wait: "0", ttl: ttl, killAfter: killAfter}
				require.NoError(t, f.complete(given, 0))
				limited := f.limitKillAfter(nodeTimeout)
				assert.Equal(t, limited, f.killAfter != killAfter)
				assert.LessOrEqual(t, f.killAfter, killAfter)
				if limited {
					assert.GreaterOrEqual(t, f.killAfter, ttl/4, "no more than needed")
				}
				answer := f.leeway() / triesOfLeeway // of the third one
				assert.GreaterOrEqual(t, answer, min(nodeTimeout, ttl*3/20), "ttl %v, node timeout %v, kill after %v", ttl, nodeTimeout, killAfter)
			}
		}
	}
	f := &runFlags{wait: "0", ttl: 10 * time.Second, killAfter: 6 * time.Second}
	require.ErrorContains(t, f.complete(given, 0), "--kill-after 6s: must be from 0 to half of the ttl, 5s")
	f = &runFlags{wait: "0", ttl: 10 * time.Second, killAfter: 5 * time.Second}
	require.NoError(t, f.complete(func(string) bool { return false }, 0))
	assert.Equal(t, 2500*time.Millisecond, f.killAfter, "the default follows a short ttl")
}

// far returns the addresses of the nodes behind a long way.
func far(t *testing.T, c *testcluster.Cluster, roundTrip time.Duration) string {
	t.Helper()
	var addrs []string
	for _, node := range c.Nodes {
		p := testcluster.NewProxy(func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", node.Addr())
		})
		t.Cleanup(p.Close)
		p.SetDelay(roundTrip/2, roundTrip/2)
		addr, err := p.Listen()
		require.NoError(t, err)
		addrs = append(addrs, addr)
	}
	return strings.Join(addrs, ",")
}

// With healthy nodes a command goes on, also if the ttl is short, the way long, and --kill-after as long as
// it may be. KeepAlive's first extension would be answered when SIGTERM is due.
func TestRunFarAway(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p := start(t, c, "run", "--nodes", far(t, c, 700*time.Millisecond), "--connect-timeout", "20s", "--node-timeout", "1500ms",
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
		s := execute(t.Context(), append([]string{"acquire"}, args...), strings.NewReader(""), full{}, &errOut)
		assert.Equal(t, exitInternal, s.code)
		assert.Contains(t, errOut.String(), "no space")
		eventually(t, func() bool { return holders(t, c, "x") == 0 }, "the release")
	}
}

// permit starts a command that holds a permit until its standard input ends, and returns its slot.
func permit(t *testing.T, c *testcluster.Cluster, args ...string) (slot string, end func()) {
	t.Helper()
	args = append(append([]string{"run", "--ttl", "10m"}, args...), "--", "sh", "-c", `echo "$REDLOCK_SLOT on $REDLOCK_RESOURCES"; cat`)
	cmd := command(t, c, args...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	p := startCommand(t, cmd)
	p.waitFor("\n")
	slot, resource, _ := strings.Cut(strings.TrimSpace(p.out.String()), " on ")
	require.Equal(t, "jobs#"+slot, resource)
	return slot, func() {
		require.NoError(t, stdin.Close())
		assert.Equal(t, 0, p.wait(), "%s", p.errOut)
	}
}

// As many commands run as there are permits, each with a slot of its own, and no more.
func TestRunPermits(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	const k = 3
	var ends []func()
	slots := map[string]bool{}
	for range k {
		slot, end := permit(t, c, "--permits", "3", "jobs")
		slots[slot] = true
		ends = append(ends, end)
	}
	require.Equal(t, map[string]bool{"0": true, "1": true, "2": true}, slots)
	for want, args := range map[string][]string{
		`^redlock: all 3 permits of jobs are taken: jobs#\d is held by .+ for another \d+m.+\n$`:                      {"--wait", "0"},
		`^(redlock: waiting for .+\n)*redlock: gave up waiting for one of the 3 permits of jobs: jobs#\d is held by `: {"--wait", "10s"},
		`^$`:                              {"--wait", "0", "--quiet"},
		`^\{"error":.*,"reason":"taken",`: {"--wait", "0", "--json"},
	} {
		p := start(t, c, append(append([]string{"run", "--permits", "3"}, args...), "jobs", "--", "echo", "ran")...)
		assert.Equal(t, exitTaken, p.wait())
		assert.Regexp(t, want, p.errOut.String())
		assert.Empty(t, p.out.String())
	}
	p := start(t, c, "run", "--wait", "0", "jobs", "--", "echo", "ran")
	assert.Equal(t, 0, p.wait(), "the lock of the name is another: %s", p.errOut)

	next := start(t, c, "run", "--permits", "3", "--fence", "jobs", "--", "sh", "-c", `echo "$REDLOCK_SLOT $REDLOCK_FENCE"`)
	eventually(t, func() bool {
		return strings.Contains(next.errOut.String(), "waiting for one of the 3 permits of jobs\n")
	}, "a word")
	for i := range k {
		eventually(t, func() bool { return waiting(t, c, fmt.Sprintf("jobs#%d", i)) > 0 }, "a place in each line")
	}
	ends[0]()
	assert.Equal(t, 0, next.wait(), "%s", next.errOut)
	assert.Regexp(t, `^\d [1-9]\d*\n$`, next.out.String())
	ends[1]()
	ends[2]()
	for i := range k {
		eventually(t, func() bool { return holders(t, c, fmt.Sprintf("jobs#%d", i)) == 0 }, "the release on all nodes")
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p := start(t, c, "watch", "--interval", "100ms", "x")
	p.waitFor(" x free\n")
	lock := hold(t, c, "x", redlock.WithOwner("me"))
	p.waitFor(`x held by "me"`)
	require.NoError(t, lock.Unlock(t.Context()))
	eventually(t, func() bool { return strings.Count(p.out.String(), " x free\n") == 2 }, "the release")
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	p.wait()
	assert.NotContains(t, p.out.String(), "\x1b", "colour, or a picture, without a terminal")
}

func TestWatchPermits(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p := start(t, c, "watch", "--interval", "100ms", "--permits", "2", "jobs", "other")
	p.waitFor(" other#1 free\n")
	hold(t, c, "jobs#1", redlock.WithOwner("me"))
	p.waitFor(`jobs#1 held by "me"`)
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	p.wait()
	assert.Equal(t, 5, strings.Count(p.out.String(), "\n"), "only what has changed: %s", p.out)

	j := start(t, c, "watch", "--json", "--permits", "2", "jobs")
	j.waitFor("\n{")
	require.NoError(t, j.cmd.Process.Signal(os.Interrupt))
	j.wait()
	for i, line := range strings.Split(strings.TrimSpace(j.out.String()), "\n")[:2] {
		v := decode[viewJSON](t, line)
		assert.Equal(t, []any{"jobs", i, fmt.Sprintf("jobs#%d", i)}, []any{v.Semaphore, *v.Slot, v.Resource})
	}
}

// A signal ends the wait, and leaves nothing behind.
func TestSignalEndsTheWait(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	dir := t.TempDir()
	hold(t, c, "x")
	for sig, args := range map[syscall.Signal][]string{
		syscall.SIGTERM: {"acquire", "--token-file", filepath.Join(dir, "token"), "x"},
		syscall.SIGINT:  {"run", "x", "--", "touch", filepath.Join(dir, "ran")},
	} {
		p := start(t, c, args...)
		eventually(t, func() bool { return waiting(t, c, "x") > 0 }, "a place in the line")
		require.NoError(t, p.cmd.Process.Signal(sig))
		p.wait()
		assert.True(t, p.endedBy(sig), "%v", p.cmd.ProcessState)
		eventually(t, func() bool { return waiting(t, c, "x") == 0 }, "the end of the line")
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}
