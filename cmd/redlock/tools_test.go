package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/stored"
)

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(text), &v), "%s", text)
	return v
}

func TestStatus(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	lock := hold(t, c, "x", redlock.WithOwner("web1/42"), redlock.WithFencing())
	args := append([]string{"status", "--json"}, slow...)

	code, out, _ := execTool(t, c, append(args, "x")...)
	assert.Equal(t, exitOK, code)
	v := decode[viewJSON](t, out)
	assert.Equal(t, "held", v.State)
	assert.Equal(t, "web1/42", v.Owner)
	assert.Equal(t, tokens.Digest(lock.Token()), v.Holder)
	assert.Equal(t, lock.Fence(), v.Fence)
	assert.Equal(t, []int{3, 2}, []int{v.On, v.Need})
	assert.InDelta(t, 300_000, *v.TTLMS, 300_000)
	assert.Len(t, v.Nodes, 3)
	assert.NotContains(t, out, lock.Token()[:32], "the token is a secret")

	code, out, _ = execTool(t, c, append([]string{"status"}, append(slow, "x", "free one")...)...)
	assert.Equal(t, exitNo, code, "one of them is free")
	assert.Regexp(t, `(?m)^x  held by "web1/42" \([0-9a-f]{12}\) for \d+\S*, on 3 of 3 nodes \(2 needed\), fence \d+$`, out)
	assert.Contains(t, out, "free one  free\n")

	t.Run("who waits", func(t *testing.T) {
		w := start(t, c, runArgs("x", "--", "true")...)
		eventually(t, func() bool { return waiting(t, c, "x") == 3 }, "a place in all lines")
		_, out, _ := execTool(t, c, append(args, "x")...)
		v := decode[viewJSON](t, out)
		assert.Equal(t, 1, v.Waiting)
		require.Len(t, v.Waiters, 1)
		assert.Equal(t, 3, v.Waiters[0].Nodes)
		assert.Regexp(t, `^[0-9a-f]{16}$`, v.Waiters[0].Name)
		_ = w.cmd.Process.Kill()
	})
	t.Run("on less than a quorum", func(t *testing.T) {
		require.NoError(t, c.Nodes[0].Set("y", tokens.New(), time.Minute))
		code, out, _ := execTool(t, c, append(args, "y")...)
		assert.Equal(t, exitNo, code)
		assert.Equal(t, "partial", decode[viewJSON](t, out).State)
	})
	t.Run("key of another type", func(t *testing.T) {
		conn, err := c.Nodes[0].Conn(t.Context())
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = conn.Do("RPUSH", "typed", "v")
		require.NoError(t, err)
		code, out, _ := execTool(t, c, append(args, "typed")...)
		assert.Equal(t, exitNo, code, out)
		assert.Contains(t, decode[viewJSON](t, out).Nodes[0].Error, "WRONGTYPE")
	})
	t.Run("nodes down", func(t *testing.T) {
		_, out, _ := execTool(t, c, append([]string{"status"}, append(slow, "x")...)...)
		assert.NotContains(t, out, "what to do")
		require.NoError(t, c.Nodes[0].Stop())
		code, out, _ := execTool(t, c, append(args, "x")...)
		assert.Equal(t, exitOK, code)
		assert.NotEmpty(t, decode[viewJSON](t, out).Nodes[0].Error)
		assert.Contains(t, decode[viewJSON](t, out).Nodes[0].Next, "nothing listens there")
		_, out, _ = execTool(t, c, append([]string{"status"}, append(slow, "x", "y")...)...)
		assert.Equal(t, 1, strings.Count(out, "nothing listens there"), out)
		assert.Equal(t, 1, strings.Count(out, "  2 of 3 nodes answer, 2 needed: restore a node"), out)
		require.NoError(t, c.Nodes[1].Stop())
		_, out, _ = execTool(t, c, append([]string{"status"}, append(slow, "x")...)...)
		assert.Contains(t, out, "\nwhat to do\n  "+c.Nodes[0].Addr()+": nothing listens there")
		assert.Contains(t, out, "  1 of 3 nodes answer, 2 needed: no lock can be got")
		code, out, _ = execTool(t, c, append(args, "x")...)
		assert.Equal(t, exitNoQuorum, code)
		assert.Equal(t, "unknown", decode[viewJSON](t, out).State)
	})
}

func TestList(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	want := map[string]bool{}
	r := locker(t, c, redlock.WithPrefix("locks:[a]*"))
	for i := range 40 {
		name := "job/" + strings.Repeat("n", i)
		want[name] = true
		_, err := r.TryLock(t.Context(), []string{name}, time.Minute, redlock.WithFencing(), redlock.WithOwner("me"))
		require.NoError(t, err)
	}
	eventually(t, func() bool { return holders(t, c, "locks:[a]*job/n") == 3 }, "the lock on all nodes")
	for _, n := range c.Nodes {
		require.NoError(t, n.Set("locks:[a]*other", "no token", 0))
		require.NoError(t, n.Set("locks:[b]*other", tokens.New(), 0))
	}
	require.NoError(t, c.Nodes[2].Set("locks:[a]*left", tokens.New(), time.Minute))
	list := append([]string{"list", "--json", "--prefix", "locks:[a]*"}, slow...)
	read := func(out string) map[string]viewJSON {
		seen := map[string]viewJSON{}
		for line := range strings.Lines(out) {
			v := decode[viewJSON](t, line)
			assert.NotContains(t, seen, v.Resource, "it is listed twice")
			seen[v.Resource] = v
		}
		return seen
	}
	code, out, errOut := execTool(t, c, list...)
	require.Equal(t, exitOK, code, errOut)
	seen := read(out)
	assert.Len(t, seen, 41)
	assert.Equal(t, "partial", seen["left"].State)
	for name := range want {
		v := seen[name]
		assert.True(t, v.Held, name)
		assert.Equal(t, "me", v.Owner)
		assert.Positive(t, v.Fence)
		assert.Equal(t, 0, v.Waiting)
	}
	_, out, _ = execTool(t, c, append([]string{"list", "--prefix", "locks:[a]*"}, slow...)...)
	assert.Regexp(t, `(?m)^RESOURCE +STATE +TTL +ON +FENCE +WAITING +OWNER$`, out)
	assert.Regexp(t, `(?m)^job/n +held +\S+ +3/3 +\d+ +0 +me$`, out)

	for pattern, want := range map[string]int{"job/n": 1, "job/n*": 39, "job/??": 1, "[jl]*": 41, "ob/*": 0, "locks:*": 0} {
		code, out, errOut = execTool(t, c, append(list, pattern)...)
		assert.Equal(t, exitOK, code, errOut)
		assert.Len(t, read(out), want, pattern)
	}

	require.NoError(t, c.Nodes[0].Stop())
	code, out, errOut = execTool(t, c, list...)
	assert.Equal(t, exitOK, code, "a minority is down")
	assert.Len(t, read(out), 41)
	assert.Contains(t, errOut, c.Nodes[0].Addr())
	require.NoError(t, c.Nodes[1].Stop())
	code, _, _ = execTool(t, c, list...)
	assert.Equal(t, exitNoQuorum, code)
}

func TestBreak(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	hold(t, c, "x", redlock.WithOwner("gone"))
	args := append([]string{"break"}, slow...)
	code, out, _ := execTool(t, c, append(args, "x")...)
	assert.Equal(t, exitNo, code, "there is nobody who confirms it")
	assert.Contains(t, out, `held by "gone"`)
	assert.Contains(t, out, "nothing was deleted")
	assert.Equal(t, 3, holders(t, c, "x"))
	code, out, _ = execTool(t, c, append(args, "--yes", "free")...)
	assert.Equal(t, exitNo, code)
	assert.Contains(t, out, "\nthere is nothing to delete\n")

	p := start(t, c, runArgs("x", "--", "echo", "ran")...)
	eventually(t, func() bool { return waiting(t, c, "x") > 0 }, "a place in the line")
	code, out, errOut := execTool(t, c, append(args, "--yes", "x")...)
	assert.Equal(t, exitOK, code, errOut)
	assert.Contains(t, out, "the lock is broken")
	assert.Equal(t, 0, p.wait(), "%s", p.errOut)

	code, _, _ = execTool(t, c, append(args, "--yes", "free")...)
	assert.Equal(t, exitNo, code)

	t.Run("other tokens", func(t *testing.T) {
		for i, n := range c.Nodes {
			require.NoError(t, n.Set("foreign", []string{"Zm9yZWlnbg==", "Zm9yZWlnbg==", "another"}[i], time.Minute))
		}
		code, out, errOut := execTool(t, c, append(args, "--yes", "--json", "foreign")...)
		assert.Equal(t, exitOK, code, errOut)
		assert.Contains(t, out, `"broken":true`)
		assert.Equal(t, 0, holders(t, c, "foreign"))
	})
}

func TestCheckAndAdmit(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	code, out, errOut := execTool(t, c, append([]string{"check", "--json"}, slow...)...)
	assert.Contains(t, []int{exitOK, exitNo}, code, errOut)
	report := decode[struct {
		Verdict  string
		Nodes    []struct{ Node, Version string }
		Findings []struct{ Check, Verdict string }
	}](t, out)
	assert.Len(t, report.Nodes, 3)
	assert.NotEmpty(t, report.Findings)
	_, out, _ = execTool(t, c, append([]string{"check"}, slow...)...)
	assert.Contains(t, out, "verdict: "+report.Verdict)

	run := append([]string{"run"}, append(slow, "--quarantine", "1h", "--wait", "0", "x", "--", "true")...)
	p := start(t, c, run...)
	assert.Equal(t, exitNoQuorum, p.wait(), "new nodes are in quarantine")
	code, _, errOut = execTool(t, c, append([]string{"admit"}, append(slow, c.Nodes[0].Addr())...)...)
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errOut, "--quarantine")
	admit := append([]string{"admit", "--quarantine", "1h"}, slow...)
	code, _, errOut = execTool(t, c, append(admit, c.Nodes[0].Addr()+"0")...)
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errOut, "did you mean "+c.Nodes[0].Addr())
	code, _, errOut = execTool(t, c, append(admit, c.Addrs()...)...)
	assert.Equal(t, exitOK, code, errOut)
	assert.Equal(t, 0, start(t, c, run...).wait())
}

// A slip of the operator's must not take a healthy node out: it would refuse its votes to all clients.
func TestAdmitRefusesAnotherConfiguration(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	addrs := c.Addrs()
	admit := func(nodes, quarantine string, more ...string) (int, string) {
		t.Setenv("REDLOCK_NODES", nodes)
		code, out, errOut := execTool(t, nil, append(append([]string{"admit", "--quarantine", quarantine}, slow...), more...)...)
		return code, out + errOut
	}
	all := strings.Join(addrs, ",")
	marker := func(i int) quarantine.Marker {
		text, _, err := c.Nodes[i].Get(stored.Keys{}.Marker())
		require.NoError(t, err)
		return quarantine.ParseMarker(text)
	}

	code, out := admit(addrs[0], "1h", addrs[0])
	assert.Equal(t, exitNo, code, "a new node, and no other is given")
	assert.Contains(t, out, "no other node is given")
	assert.Zero(t, marker(0), "not even a connection has set it up")
	code, out = admit(all, "1h", addrs...)
	require.Equal(t, exitOK, code, out)
	before := marker(0)
	for name, tt := range map[string]struct{ nodes, quarantine, want string }{
		"one node":         {addrs[0], "1h", "is set up for clients with 3 nodes and a longest ttl of 1h0m0s, not for clients with 1 node and"},
		"two nodes":        {addrs[0] + "," + addrs[1], "1h", "not for clients with 2 nodes"}, // Nobody has come with two.
		"a smaller maxTTL": {all, "30m", "not for clients with 3 nodes and a longest ttl of 30m0s"},
		"a larger maxTTL":  {all, "2h", "2h0m0s"},
	} {
		code, out = admit(tt.nodes, tt.quarantine, addrs[0])
		assert.Equal(t, exitNo, code, name)
		assert.Contains(t, out, tt.want, name)
		assert.Contains(t, out, "--force", name)
		assert.Equal(t, before, marker(0), name)
	}

	// A node that has lost its data: what the others say counts.
	require.NoError(t, c.Nodes[0].Flush())
	code, out = admit(all, "30m", addrs[0])
	assert.Equal(t, exitNo, code)
	assert.Contains(t, out, "the others are set up for clients with 3 nodes and a longest ttl of 1h0m0s")
	code, out = admit(all, "1h", addrs[0])
	assert.Equal(t, exitOK, code, out)

	code, out = admit(all, "30m", append([]string{"--force"}, addrs...)...)
	assert.Equal(t, exitOK, code, out)
	assert.Equal(t, 30*time.Minute, marker(2).MaxTTL)
	require.NoError(t, c.Nodes[1].Stop())
	code, out = admit(all, "30m", addrs...)
	assert.Equal(t, exitNoQuorum, code, out)
	assert.Contains(t, out, addrs[1]+" does not say")
}

// A node comes: it is admitted by the new number, and then all of them are, which leaves nothing of the old one.
func TestAdmitMovesOnByOneNode(t *testing.T) {
	c := testcluster.RunServers(t, 4)
	with := func(n int, args ...string) (int, string) {
		t.Setenv("REDLOCK_NODES", strings.Join(c.Addrs()[:n], ","))
		code, out, errOut := execTool(t, nil, append(args[:1:1], append(append([]string{"--quarantine", "1h"}, slow...), args[1:]...)...)...)
		return code, out + errOut
	}
	admit := func(n int, names ...string) (int, string) { return with(n, append([]string{"admit"}, names...)...) }
	setting := func(i int) []int {
		text, _, err := c.Nodes[i].Get(stored.Keys{}.Marker())
		require.NoError(t, err)
		m := quarantine.ParseMarker(text)
		return []int{m.Nodes, m.Other}
	}
	run := func(n int) (int, string) {
		args := []string{"run", "--nodes", strings.Join(c.Addrs()[:n], ","), "--quarantine", "1h", "--wait", "0", "--ttl", "10s"}
		p := start(t, c, append(append(args, slow...), "x", "--", "true")...)
		return p.wait(), p.errOut.String()
	}
	must := func(code int, out string) { t.Helper(); require.Equal(t, exitOK, code, out) }
	must(admit(3, c.Addrs()[:3]...))
	must(admit(4, c.Addrs()[3]))
	code, out := admit(4, c.Addrs()[:3]...)
	require.Equal(t, exitNo, code, "no client has come with four")
	require.Contains(t, out, "is set up for clients with 3 nodes and")
	must(run(4))
	must(run(3))
	for i := range 3 {
		require.Equal(t, []int{3, 4}, setting(i))
	}
	code, out = run(2)
	require.Equal(t, exitNoQuorum, code, out)
	require.Contains(t, out, "set up for clients with 3 or 4 nodes")
	_, out = with(4, "check")
	require.Contains(t, out, "it votes, for clients with 3 or 4 nodes, and refuses all with another number")
	must(admit(4, c.Addrs()...))
	for i := range 4 {
		require.Equal(t, []int{4, 0}, setting(i))
	}
}

func TestCheckSaysWhetherNodesAreEnough(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	check := append([]string{"check"}, slow...)
	_, out, _ := execTool(t, c, check...)
	assert.NotContains(t, out, "needed")
	for i, want := range []string{"2 of 3 nodes answer in time, 2 needed", "1 of 3 nodes answer in time, 2 needed: no lock can be got"} {
		require.NoError(t, c.Nodes[i].Stop())
		code, out, _ := execTool(t, c, check...)
		assert.Equal(t, exitUnfit, code)
		assert.True(t, strings.HasSuffix(out, "\n"+want+"\n"), "%s", out)
	}
}

// A node that answers after the timeout answers too late. Which timer is the first is chance.
func TestStatusOfANodeThatIsTooSlow(t *testing.T) {
	c := testcluster.RunEmbedded(t, 3)
	require.NoError(t, c.Nodes[0].Hang())
	for range 5 {
		code, out, _ := execTool(t, c, "status", "--node-timeout", "50ms", "--connect-timeout", "50ms", "x")
		if code == exitNoQuorum {
			continue // A busy machine.
		}
		assert.Contains(t, out, "no answer within 50ms")
		assert.NotContains(t, out, "i/o timeout")
	}
	assert.True(t, isTimeout(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}))
	assert.True(t, isTimeout(fmt.Errorf("x: %w", context.DeadlineExceeded)))
	assert.False(t, isTimeout(net.ErrClosed))
}

func TestWatch(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p := start(t, c, append([]string{"watch", "--interval", "100ms"}, append(slow, "x")...)...)
	p.waitFor(" x free\n")
	lock := hold(t, c, "x", redlock.WithOwner("me"))
	p.waitFor(`x held by "me"`)
	require.NoError(t, lock.Unlock(t.Context()))
	eventually(t, func() bool { return strings.Count(p.out.String(), " x free\n") == 2 }, "the release")
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	p.wait()
	assert.NotContains(t, p.out.String(), "\x1b", "colour, or a picture, without a terminal")
}

// All subcommands know what a quorum of an even number of nodes is.
func TestQuorumOfAnEvenNumberOfNodes(t *testing.T) {
	for n, need := range map[int]int{2: 2, 4: 3} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			c := testcluster.RunServers(t, n)
			tool := func(args ...string) (code int, out string) {
				code, out, _ = execTool(t, c, slices.Concat(args[:1], slow, args[1:])...)
				return code, out
			}
			hold(t, c, "x")
			require.NoError(t, c.First(need-1).Set("half", tokens.New(), time.Hour))
			code, out := tool("status", "x")
			assert.Equal(t, exitOK, code)
			assert.Contains(t, out, fmt.Sprintf(", on %d of %d nodes (%d needed)", n, n, need))
			code, out = tool("status", "half")
			assert.Equal(t, exitNo, code)
			assert.Contains(t, out, "half  not held: no token is on a quorum, ")
			code, out = tool("list")
			assert.Equal(t, exitOK, code)
			assert.Regexp(t, `(?m)^half +partial`, out)
			_, out = tool("check")
			assert.NotContains(t, out, "needed")

			for i := range n - need + 1 { // The last one is too much.
				require.NoError(t, c.Nodes[i].Stop())
				left, want, says := n-1-i, exitOK, "restore a node before you restart another one"
				if left < need {
					want, says = exitNoQuorum, "no lock can be got or extended"
				}
				code, out = tool("status", "x")
				assert.Equal(t, want, code, out)
				assert.Contains(t, out, fmt.Sprintf("%d of %d nodes answer, %d needed: %s", left, n, need, says))
				code, out = tool("check")
				assert.Equal(t, exitUnfit, code)
				assert.Contains(t, out, fmt.Sprintf("%d of %d nodes answer in time, %d needed", left, n, need))
				assert.Equal(t, left < need, strings.Contains(out, "needed: no lock can be got"), out)
				code, out = tool("list")
				assert.Equal(t, exitOK, code, "what a quorum has is on one of those that are left: %s", out)
			}
		})
	}
}
