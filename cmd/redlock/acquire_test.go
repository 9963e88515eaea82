package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
)

func acquireArgs(args ...string) []string {
	return append(append([]string{"acquire"}, slow...), args...)
}

func releaseArgs(args ...string) []string {
	return append(append([]string{"release"}, slow...), args...)
}

func TestAcquireAndRelease(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	code, out, errOut := execTool(t, c, acquireArgs("--ttl", "1m", "--owner", "script/1", "a", "b")...)
	require.Equal(t, exitOK, code, errOut)
	token := strings.TrimSuffix(out, "\n")
	require.NoError(t, tokens.Check(token), "the token, and nothing else")
	eventually(t, func() bool { return holders(t, c, "a") >= 2 && holders(t, c, "b") >= 2 }, "the lock stays")

	code, out, errOut = execTool(t, c, acquireArgs("--wait", "0", "b")...)
	assert.Equal(t, exitTaken, code)
	assert.Empty(t, out)
	assert.Contains(t, errOut, "b is held by script/1")
	code, _, errOut = execTool(t, c, acquireArgs("--wait", "0", "--quiet", "b")...)
	assert.Equal(t, exitTaken, code)
	assert.Empty(t, errOut)

	t.Setenv("REDLOCK_TOKEN", token)
	code, out, errOut = execTool(t, c, releaseArgs("a", "b")...)
	assert.Equal(t, exitOK, code, errOut)
	assert.Equal(t, "released a b\n", out)
	code, _, _ = execTool(t, c, releaseArgs("a", "b")...)
	assert.Equal(t, exitLost, code)
}

func TestAcquireToAFile(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(file, []byte("an older one, which is longer than a token with its label is\n"), 0o644))
	code, out, errOut := execTool(t, c, acquireArgs("--token-file", file, "x")...)
	require.Equal(t, exitOK, code, errOut)
	assert.Regexp(t, `^acquired x for \d+(\.\d)?s\n$`, out)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, tokens.Check(strings.TrimSuffix(string(text), "\n")))
	info, err := os.Stat(file)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}

	code, _, _ = execTool(t, c, acquireArgs("--token-file", file, "--wait", "0", "x")...)
	assert.Equal(t, exitTaken, code)
	same, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, text, same, "the token of the lock that there is")
	code, _, errOut = execTool(t, c, releaseArgs("--token-file", file, "x")...)
	assert.Equal(t, exitOK, code, errOut)

	code, out, errOut = execTool(t, c, acquireArgs("--json", "--fence", "--token-file", file, "x")...)
	require.Equal(t, exitOK, code, errOut)
	answer := decode[struct {
		Acquired []string
		Token    string
		Until    time.Time
		Fence    int64
	}](t, out)
	assert.Equal(t, []string{"x"}, answer.Acquired)
	assert.Empty(t, answer.Token, "it is in the file")
	assert.False(t, answer.Until.IsZero())
	assert.Positive(t, answer.Fence)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1, "nothing but the token")
}

// A lock whose token nobody has is released again, or was not taken.
func TestAcquireCannotWriteTheToken(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	for _, file := range []string{filepath.Join(t.TempDir(), "no", "token"), t.TempDir()} {
		code, out, errOut := execTool(t, c, acquireArgs("--token-file", file, "x")...)
		assert.Equal(t, exitUsage, code, errOut)
		assert.Empty(t, out)
		assert.Zero(t, holders(t, c, "x"))
	}
	for _, args := range [][]string{acquireArgs("x"), acquireArgs("--json", "x"), acquireArgs("--token-file", filepath.Join(t.TempDir(), "token"), "x")} {
		var errOut bytes.Buffer
		s := execute(t.Context(), args, strings.NewReader(""), full{}, &errOut)
		assert.Equal(t, exitInternal, s.code)
		assert.Contains(t, errOut.String(), "no space")
		eventually(t, func() bool { return holders(t, c, "x") == 0 }, "the release")
	}
}

// A signal ends the wait, and leaves nothing behind.
func TestAcquireInterrupted(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	lock := hold(t, c, "x")
	dir := t.TempDir()
	p := start(t, c, acquireArgs("--token-file", filepath.Join(dir, "token"), "x")...)
	eventually(t, func() bool { return waiting(t, c, "x") > 0 }, "a place in the line")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, -1, p.wait(), "it ends by the signal")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
	require.NoError(t, lock.Unlock(t.Context()))
}
