//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// permit starts a command that holds a permit until its standard input ends, and returns its slot.
func permit(t *testing.T, c *testcluster.Cluster, args ...string) (slot string, end func()) {
	t.Helper()
	args = append(append([]string{"--ttl", "10m"}, args...), "--", "sh", "-c", `echo "$REDLOCK_SLOT on $REDLOCK_RESOURCES"; cat`)
	cmd := command(t, c, runArgs(args...)...)
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
	t.Run("none is free", func(t *testing.T) {
		for wait, want := range map[string]string{
			"0":   `^redlock: all 3 permits of jobs are taken: jobs#\d is held by .+ for another \d+m.+\n$`,
			"10s": `^(redlock: waiting for .+\n)*redlock: gave up waiting for one of the 3 permits of jobs: jobs#\d is held by `,
		} {
			p := start(t, c, runArgs("--permits", "3", "--wait", wait, "jobs", "--", "echo", "ran")...)
			assert.Equal(t, exitTaken, p.wait())
			assert.Regexp(t, want, p.errOut.String())
			assert.Empty(t, p.out.String())
		}
		p := start(t, c, runArgs("--permits", "3", "--quiet", "--wait", "0", "jobs", "--", "echo", "ran")...)
		assert.Equal(t, exitTaken, p.wait())
		assert.Empty(t, p.out.String()+p.errOut.String())
		p = start(t, c, runArgs("--json", "--permits", "3", "--wait", "0", "jobs", "--", "echo", "ran")...)
		assert.Equal(t, exitTaken, p.wait())
		var e errorJSON
		require.NoError(t, json.Unmarshal([]byte(p.errOut.String()), &e))
		assert.Equal(t, "taken", e.Reason)
	})
	t.Run("the lock of the name is another", func(t *testing.T) {
		cmd := command(t, c, runArgs("--wait", "0", "jobs", "--", "sh", "-c", `echo "<$REDLOCK_SLOT>"`)...)
		cmd.Env = append(cmd.Env, "REDLOCK_SLOT=7")
		p := startCommand(t, cmd)
		assert.Equal(t, 0, p.wait(), "%s", p.errOut)
		assert.Equal(t, "<>\n", p.out.String())
	})
	next := start(t, c, runArgs("--permits", "3", "--fence", "jobs", "--", "sh", "-c", `echo "$REDLOCK_SLOT $REDLOCK_FENCE"`)...)
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

// A command that has a permit waits for no second one, whether one is free or not. Who only has its
// environment may.
func TestRunPermitWithinPermit(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	for _, wait := range []string{"forever", "0"} {
		cmd := command(t, c, append(runArgs("--permits", "4", "jobs", "--", "sh", "-c",
			`echo "$REDLOCK_HOLDERS"; REDLOCK_TEST_AS_TOOL=1 exec "$0" run --quiet --permits 4 --wait `+wait+` jobs -- echo ran`), "")...)
		cmd.Args[len(cmd.Args)-1] = cmd.Path
		cmd.Env = append(cmd.Env, "REDLOCK_NODE_TIMEOUT=5s", "REDLOCK_CONNECT_TIMEOUT=20s")
		p := startCommand(t, cmd)
		assert.Equal(t, exitTaken, p.wait(), "%s", p.errOut)
		assert.Contains(t, p.errOut.String(), "which has a permit of the same semaphore: jobs#")
		assert.NotContains(t, p.out.String(), "ran")
		after := command(t, c, runArgs("--permits", "4", "jobs", "--", "echo", "ran")...)
		after.Env = append(after.Env, "REDLOCK_HOLDERS="+strings.TrimSpace(p.out.String()))
		assert.Equal(t, 0, startCommand(t, after).wait())
	}
}

func TestStatusOfPermits(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	hold(t, c, "jobs#1", redlock.WithOwner("vm/1"), redlock.WithFencing())
	status := func(more ...string) (int, string) {
		code, out, errOut := execTool(t, c, append(append([]string{"status"}, slow...), more...)...)
		require.Empty(t, errOut)
		return code, out
	}
	code, out := status("--permits", "3", "jobs")
	assert.Equal(t, exitNo, code)
	assert.Regexp(t, `^jobs  1 of 3 permits held
  slot 0  free
  slot 1  held by "vm/1" \(\w+\) for \d+m\S+, on 3 of 3 nodes \(2 needed\), fence \d+
  slot 2  free
$`, out)
	_, out = status("--permits", "11", "jobs")
	assert.Contains(t, out, "\n  slot 9   free\n  slot 10  free\n")
	code, out = status("--json", "--permits", "2", "jobs")
	assert.Equal(t, exitNo, code)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 2)
	free, held := decode[viewJSON](t, lines[0]), decode[viewJSON](t, lines[1])
	assert.Equal(t, []any{"jobs#0", "jobs", 0, "free"}, []any{free.Resource, free.Semaphore, *free.Slot, free.State})
	assert.Equal(t, []any{"jobs#1", "jobs", 1, "held", "vm/1"}, []any{held.Resource, held.Semaphore, *held.Slot, held.State, held.Owner})
	_, out = status("--json", "jobs#1")
	assert.NotContains(t, out, "semaphore", "anybody may name a lock so")
	code, out = status("jobs", "other")
	assert.Equal(t, exitNo, code)
	assert.Regexp(t, `^jobs  free
(  \S+  free\n){3}  jobs#1 is held: for the permits of a semaphore, add --permits K
other  free
(  \S+  free\n){3}$`, out)
	hold(t, c, "many#200")
	_, out = status("many")
	assert.Contains(t, out, "  many#200 is held: for the permits", "whatever the slot")
	_, out = status("--json", "jobs")
	assert.Len(t, strings.Split(strings.TrimSpace(out), "\n"), 1, "JSON is for programs")

	hold(t, c, "jobs#0")
	code, _ = status("--permits", "2", "jobs")
	assert.Equal(t, exitOK, code)
	require.NoError(t, c.Nodes[2].Stop())
	code, out = status("--connect-timeout", "1s", "--permits", "2", "jobs")
	assert.Equal(t, exitOK, code)
	assert.Regexp(t, `^jobs  2 of 2 permits held\n(.+\n){2}  \S+:\d+  .*connect`, out)
	require.NoError(t, c.Nodes[1].Stop())
	code, out = status("--connect-timeout", "1s", "--permits", "2", "jobs")
	assert.Equal(t, exitNoQuorum, code)
	assert.Contains(t, out, "jobs  0 of 2 permits held, or more: too few nodes answer\n")
}

// The lock of a permit is kept for --at-least: as many commands are begun per time as there are permits.
func TestRunPermitsAtLeast(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	codes := map[int]int{}
	for range 3 {
		p := start(t, c, runArgs("--permits", "2", "--wait", "0", "--at-least", time.Minute.String(), "jobs", "--", "true")...)
		codes[p.wait()]++
	}
	assert.Equal(t, map[int]int{0: 2, exitTaken: 1}, codes)
}

// A script takes one of the permits, and releases the one whose token it has.
func TestAcquirePermits(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	tokens, slots := map[int]string{}, map[int]bool{}
	for range 3 {
		code, out, errOut := execTool(t, c, acquireArgs("--json", "--permits", "3", "--ttl", "10m", "--owner", "vm/1", "jobs")...)
		require.Equal(t, exitOK, code, errOut)
		got := decode[struct {
			Acquired []string
			Slot     *int
			Token    string
		}](t, out)
		require.Equal(t, []string{fmt.Sprintf("jobs#%d", *got.Slot)}, got.Acquired)
		slots[*got.Slot], tokens[*got.Slot] = true, got.Token
	}
	require.Equal(t, map[int]bool{0: true, 1: true, 2: true}, slots)
	for wait, want := range map[string]string{
		"0":     `^redlock: all 3 permits of jobs are taken: jobs#\d is held by vm/1 for another `,
		"500ms": `redlock: gave up waiting for one of the 3 permits of jobs: jobs#\d is held by vm/1`,
	} {
		code, out, errOut := execTool(t, c, acquireArgs("--permits", "3", "--wait", wait, "jobs")...)
		assert.Equal(t, exitTaken, code)
		assert.Empty(t, out)
		assert.Regexp(t, want, errOut)
	}

	t.Setenv("REDLOCK_TOKEN", tokens[1])
	code, out, errOut := execTool(t, c, releaseArgs("--permits", "3", "jobs")...)
	assert.Equal(t, exitOK, code, errOut)
	assert.Equal(t, "released jobs#1\n", out)
	eventually(t, func() bool { return holders(t, c, "jobs#1") == 0 }, "the release on all nodes")
	code, _, errOut = execTool(t, c, releaseArgs("--permits", "3", "jobs")...)
	assert.Equal(t, exitLost, code, errOut)
	assert.Equal(t, 3, holders(t, c, "jobs#0"), "another's")
	code, _, errOut = execTool(t, c, releaseArgs("--permits", "3", "a__redlock__:b")...)
	assert.Equal(t, exitUsage, code, errOut)

	file := filepath.Join(t.TempDir(), "token")
	code, out, errOut = execTool(t, c, acquireArgs("--permits", "3", "--token-file", file, "jobs")...)
	require.Equal(t, exitOK, code, errOut)
	assert.Contains(t, out, "acquired jobs#1 for ")
	code, _, errOut = execTool(t, c, releaseArgs("--permits", "3", "--token-file", file, "jobs")...)
	assert.Equal(t, exitOK, code, errOut)

	require.NoError(t, c.Nodes[0].Stop())
	require.NoError(t, c.Nodes[1].Stop())
	code, _, errOut = execTool(t, c, releaseArgs("--connect-timeout", "1s", "--permits", "3", "--token-file", file, "jobs")...)
	assert.Equal(t, exitNoQuorum, code, errOut)
}

func TestWatchPermits(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p := start(t, c, append([]string{"watch", "--interval", "100ms", "--permits", "2"}, append(slow, "jobs", "other")...)...)
	p.waitFor(" other#1 free\n")
	hold(t, c, "jobs#1", redlock.WithOwner("me"))
	p.waitFor(`jobs#1 held by "me"`)
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	p.wait()
	assert.Equal(t, 5, strings.Count(p.out.String(), "\n"), "only what has changed: %s", p.out)

	j := start(t, c, append([]string{"watch", "--json", "--permits", "2"}, append(slow, "jobs")...)...)
	j.waitFor("\n{")
	require.NoError(t, j.cmd.Process.Signal(os.Interrupt))
	j.wait()
	for i, line := range strings.Split(strings.TrimSpace(j.out.String()), "\n")[:2] {
		v := decode[viewJSON](t, line)
		assert.Equal(t, []any{"jobs", i, fmt.Sprintf("jobs#%d", i)}, []any{v.Semaphore, *v.Slot, v.Resource})
	}
}
