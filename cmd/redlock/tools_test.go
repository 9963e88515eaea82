package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(text), &v), "%s", text)
	return v
}

func TestStatus(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	lock := hold(t, c, "x", time.Minute, redlock.WithOwner("web1/42"), redlock.WithFencing())
	args := append([]string{"status", "--json"}, slow...)

	code, out, _ := execTool(t, c, append(args, "x")...)
	assert.Equal(t, exitOK, code)
	v := decode[viewJSON](t, out)
	assert.Equal(t, "held", v.State)
	assert.Equal(t, "web1/42", v.Owner)
	assert.Equal(t, tokens.Digest(lock.Token()), v.Holder)
	assert.Equal(t, lock.Fence(), v.Fence)
	assert.Equal(t, []int{3, 2}, []int{v.On, v.Need})
	assert.InDelta(t, 30_000, *v.TTLMS, 30_000)
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
		code, out, _ := execTool(t, c, append(args, "x")...)
		assert.Equal(t, exitOK, code, out)
	})
	t.Run("nodes down", func(t *testing.T) {
		require.NoError(t, c.Nodes[0].Stop())
		code, out, _ := execTool(t, c, append(args, "x")...)
		assert.Equal(t, exitOK, code)
		assert.NotEmpty(t, decode[viewJSON](t, out).Nodes[0].Error)
		require.NoError(t, c.Nodes[1].Stop())
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

	require.NoError(t, c.Nodes[0].Stop())
	code, out, errOut = execTool(t, c, list...)
	assert.Equal(t, exitOK, code, "a minority is down")
	assert.Len(t, read(out), 41)
	assert.Contains(t, errOut, c.Nodes[0].Addr())
	require.NoError(t, c.Nodes[1].Stop())
	code, _, _ = execTool(t, c, list...)
	assert.Equal(t, exitNoQuorum, code)
}

func TestRelease(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	lock := hold(t, c, "x", time.Minute)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(lock.Token()+"\n"), 0o600))
	args := append([]string{"release", "--token-file", file}, slow...)
	code, out, errOut := execTool(t, c, append(args, "x")...)
	assert.Equal(t, exitOK, code, errOut)
	assert.Equal(t, "released x\n", out)
	eventually(t, func() bool { return holders(t, c, "x") == 0 }, "the release")
	code, _, errOut = execTool(t, c, append(args, "x")...)
	assert.Equal(t, exitLost, code, errOut)
	assert.NotContains(t, errOut, lock.Token())

	code, _, errOut = execTool(t, c, "release", "x")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errOut, "no token")
	t.Setenv("REDLOCK_TOKEN", "S3cret")
	code, _, errOut = execTool(t, c, "release", "x")
	assert.Equal(t, exitUsage, code)
	assert.NotContains(t, errOut, "S3cret")
}

func TestBreak(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	hold(t, c, "x", time.Minute, redlock.WithOwner("gone"))
	args := append([]string{"break"}, slow...)
	code, out, _ := execTool(t, c, append(args, "x")...)
	assert.Equal(t, exitNo, code, "there is nobody who confirms it")
	assert.Contains(t, out, `held by "gone"`)
	assert.Contains(t, out, "nothing was deleted")
	assert.Equal(t, 3, holders(t, c, "x"))

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

func TestWatch(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	p := start(t, c, append([]string{"watch", "--interval", "100ms"}, append(slow, "x")...)...)
	p.waitFor(" x free\n")
	lock := hold(t, c, "x", time.Minute, redlock.WithOwner("me"))
	p.waitFor(`x held by "me"`)
	require.NoError(t, lock.Unlock(t.Context()))
	eventually(t, func() bool { return strings.Count(p.out.String(), " x free\n") == 2 }, "the release")
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	p.wait()
	assert.NotContains(t, p.out.String(), "\x1b", "colour, or a picture, without a terminal")
}

func TestCredentials(t *testing.T) {
	const secret = "S3cret-word"
	c := testcluster.RunServers(t, 1, testcluster.WithArgs("--user", "app on >"+secret+" ~* &* +@all"))
	addr := c.Nodes[0].Addr()
	dir := t.TempDir()
	password, nodes := filepath.Join(dir, "password"), filepath.Join(dir, "nodes")
	require.NoError(t, os.WriteFile(password, []byte(secret+"\n"), 0o600))
	require.NoError(t, os.WriteFile(nodes, []byte("# ours\nredis://app:"+secret+"@"+addr+" # first\n"), 0o600))
	status := func(env map[string]string, args ...string) (int, string) {
		t.Setenv("REDLOCK_NODES", "")
		for _, name := range []string{"NODES", "PASSWORD", "USER", "PASSWORD_FILE", "NODES_FILE"} {
			t.Setenv("REDLOCK_"+name, env["REDLOCK_"+name])
		}
		code, out, errOut := execTool(t, nil, append([]string{"status", "x"}, append(slow, args...)...)...)
		assert.NotContains(t, out+errOut, secret)
		return code, out + errOut
	}
	code, out := status(nil, "--nodes", "redis://app:"+secret+"@"+addr)
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, out, "has credentials")
	code, _ = status(nil, "--nodes", "app:"+secret+"@"+addr)
	assert.Equal(t, exitUsage, code)
	for name, ok := range map[string]func() (int, string){
		"environment": func() (int, string) {
			return status(map[string]string{"REDLOCK_NODES": "redis://app:" + secret + "@" + addr})
		},
		"nodes file": func() (int, string) { return status(nil, "--nodes-file", nodes) },
		"password file": func() (int, string) {
			return status(nil, "--nodes", addr, "--user", "app", "--password-file", password)
		},
		"password": func() (int, string) {
			return status(map[string]string{"REDLOCK_NODES": addr, "REDLOCK_USER": "app", "REDLOCK_PASSWORD": secret})
		},
	} {
		code, out := ok()
		assert.Equal(t, exitNo, code, "%s: %s", name, out)
		assert.Contains(t, out, "x  free", name)
	}
	code, out = status(map[string]string{"REDLOCK_PASSWORD": "wrong-" + secret}, "--nodes", addr, "--user", "app")
	assert.Equal(t, exitNoQuorum, code, out)
	code, out = status(map[string]string{"REDLOCK_NODES": "redis://app:" + secret + addr}) // Without its @.
	assert.Equal(t, exitUsage, code, out)
	code, out = status(nil, "--pasword-file="+secret, "--nodes", addr)
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, out, "did you mean --password-file?")
}

func TestHelp(t *testing.T) {
	t.Setenv("REDLOCK_NODES", "")
	for _, name := range []string{"", "run", "status", "list", "watch", "check", "admit", "release", "break"} {
		args := append(strings.Fields(name), "--help")
		code, out, _ := execTool(t, nil, args...)
		assert.Equal(t, exitOK, code)
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "GLOBAL OPTIONS", "ENVIRONMENT", "EXIT STATUS"} {
			assert.Contains(t, out, section+"\n", name)
		}
		if name != "" {
			_, same, _ := execTool(t, nil, "help", name)
			assert.Equal(t, out, same)
		}
		assert.NotContains(t, out, "\x1b")
		assert.NotContains(t, out, "``")
		for line := range strings.Lines(out) {
			assert.LessOrEqual(t, len([]rune(line)), 125, "%s", line)
		}
	}
	code, out, _ := execTool(t, nil, "--help", "--color", "always")
	assert.Equal(t, exitOK, code)
	assert.Contains(t, out, "\x1b[1mNAME")
	code, out, _ = execTool(t, nil)
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, out, "SYNOPSIS")
}

func TestUnknownWords(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"stauts", "x"}, `unknown command: "stauts"; did you mean status?`},
		{[]string{"help", "rn"}, `unknown command: "rn"; did you mean run?`},
		{[]string{"status", "--node", "x"}, "unknown flag: --node; did you mean --nodes?"},
		{[]string{"list", "--prefxi=a"}, "unknown flag: --prefxi; did you mean --prefix?"},
		{[]string{"list", "--qqqqqqqqq"}, "unknown flag: --qqqqqqqqq\n"},
		{[]string{"list", "x"}, `unexpected argument "x"`},
		{[]string{"status"}, "no resource is named"},
		{[]string{"status", "x"}, "no nodes"},
		{[]string{"status", "--nodes", "a:1,a:1", "x"}, "a:1 is given twice"},
		{[]string{"status", "--nodes", "a:port", "x"}, "a:port"},
		{[]string{"status", "--nodes", "a:1", "__redlock__:x"}, "reserved"},
		{[]string{"status", "--color", "red", "x"}, `--color "red"`},
		{[]string{"break", "--json", "x"}, "--json needs --yes"},
		{[]string{"break", "x", "y"}, "exactly one"},
		{[]string{"watch", "--interval", "1ms", "x"}, "--interval 1ms"},
	}
	t.Setenv("REDLOCK_NODES", "")
	for _, tt := range tests {
		code, _, errOut := execTool(t, nil, tt.args...)
		assert.Equal(t, exitUsage, code, "%q", tt.args)
		assert.Contains(t, errOut, tt.want, "%q", tt.args)
	}
	t.Setenv("REDLOCK_NODE_TIMEOUT", "soon")
	code, _, errOut := execTool(t, nil, "status", "x")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errOut, "REDLOCK_NODE_TIMEOUT")
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		code, out, errOut := execTool(t, nil, "completion", shell)
		assert.Equal(t, exitOK, code, errOut)
		assert.Contains(t, out, "redlock", shell)
		if path, err := exec.LookPath(shell); err == nil {
			file := filepath.Join(t.TempDir(), shell)
			require.NoError(t, os.WriteFile(file, []byte(out), 0o600))
			text, err := exec.Command(path, "-n", file).CombinedOutput()
			assert.NoError(t, err, "%s: %s", shell, text)
		}
	}
	_, out, _ := execTool(t, nil, "__complete", "st")
	assert.Regexp(t, regexp.MustCompile(`(?m)^status\t`), out)
	_, out, _ = execTool(t, nil, "__complete", "run", "--wa")
	assert.Contains(t, out, "--wait")
	_, out, _ = execTool(t, nil, "__complete", "run", "--wait", "")
	assert.Contains(t, out, "forever")
	_, out, _ = execTool(t, nil, "__complete", "admit", "--nodes", "a:1,b:2", "")
	assert.Contains(t, out, "a:1\nb:2\n")
}
