package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"

	"github.com/seed6c881748/redlock/redlock/stored"
)

// What a server does not know it repeats with its arguments: a script that nobody wants to read.
func TestUnknownCommandIsToldWithoutItsScript(t *testing.T) {
	c := testcluster.RunEmbedded(t, 1)
	require.NoError(t, c.Nodes[0].OnCommand(func(cmd string, _ []string) {
		refusal := ""
		if cmd == "EVAL" {
			refusal = "ERR unknown command 'EVAL', with args beginning with: 'local v' "
		}
		assert.NoError(t, c.Nodes[0].SetError(refusal))
	}))
	code, out, _ := execTool(t, c, append([]string{"status", "x"}, slow...)...)
	assert.Equal(t, exitNoQuorum, code)
	assert.Contains(t, out, "  ERR unknown command 'EVAL'\n")
}

// Whoever can write to a node can store anything there. A list neither fails because of it, nor reads
// more of it than a token has, nor lets it disturb the terminal.
func TestListHostileValues(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	names := []string{"glob*?[a]", "\x1b[2J", "bin\xff\x00", "line\nfeed", "sp ace", "\u009b31m"}
	for _, node := range c.Nodes {
		conn, err := node.Conn(t.Context())
		require.NoError(t, err)
		do := func(name string, args ...any) {
			_, err := conn.Do(name, args...)
			require.NoError(t, err)
		}
		token := tokens.New()
		do("SET", "p:long", token+" owner="+strings.Repeat("x", 1<<20))
		do("SET", "p:escape", token+" owner=\x1b[31mred")
		do("RPUSH", "p:list", token)
		do("SADD", "p:set", token)
		do("HSET", "p:hash", token, token)
		do("XADD", "p:stream", "*", "a", "b")
		do("SET", "p:raw", "\x80\x81"+token)
		for _, name := range names {
			do("SET", "p:"+name, "0123456789abcdef0123456789abcdef", "PX", time.Minute.Milliseconds())
			do("SADD", stored.Keys{Prefix: "p:"}.Line(name), token) // Not what a line is.
			do("SET", stored.Keys{Prefix: "p:"}.Counter(name), strings.Repeat("9", 1<<20))
		}
		do("CONFIG", "RESETSTAT")
		require.NoError(t, conn.Close())
	}
	code, out, errOut := execTool(t, c, append([]string{"list", "--json", "--prefix", "p:"}, slow...)...)
	require.Equal(t, exitOK, code, errOut)
	var seen []string
	for line := range strings.Lines(out) {
		v := decode[viewJSON](t, line)
		assert.Zero(t, v.Fence)
		assert.Equal(t, -1, v.Waiting)
		seen = append(seen, v.Resource)
	}
	assert.Len(t, seen, len(names), "%q", seen)

	code, out, errOut = execTool(t, c, append([]string{"list", "--prefix", "p:"}, slow...)...)
	require.Equal(t, exitOK, code, errOut)
	assert.Equal(t, len(names)+1, strings.Count(out, "\n"))
	assertHarmless(t, out)
}

func assertHarmless(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		assert.True(t, r == '\n' || unicode.IsPrint(r), "%q in %q", r, text)
	}
}

// The texts of a node's errors reach the terminal without what could disturb it.
func TestErrorsOfAHostileNode(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				for b := make([]byte, 4096); ; {
					n, err := conn.Read(b)
					if err != nil {
						return
					}
					commands := bytes.Count(b[:n], []byte("*"))
					_, _ = conn.Write(bytes.Repeat([]byte("-ERR \x1b[2Jgone \xff\u009b31m\r\n"), commands))
				}
			}()
		}
	}()
	t.Setenv("REDLOCK_NODES", l.Addr().String())
	t.Setenv("REDLOCK_NODE_TIMEOUT", "5s")
	for _, args := range [][]string{
		{"status", "x"},
		{"list"},
		{"check"},
		{"break", "--yes", "x"},
		{"run", "--wait", "0", "x", "--", "true"},
		{"admit", "--quarantine", "1m", l.Addr().String()},
	} {
		_, out, errOut := execTool(t, nil, args...)
		assertHarmless(t, out)
		assertHarmless(t, errOut)
		assert.Contains(t, out+errOut, `gone \xff`, "%q", args)
	}
}

// A script may have a resource's name from elsewhere.
func TestAcquireAndReleaseSayHostileNames(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	file := filepath.Join(t.TempDir(), "token")
	const name = "x\x1b[2J\u202e\n"
	for _, args := range [][]string{acquireArgs("--token-file", file, name, "y"), releaseArgs("--token-file", file, name, "y")} {
		code, out, errOut := execTool(t, c, args...)
		require.Equal(t, exitOK, code, errOut)
		assert.Contains(t, out, args[0]+"d \"x\\x1b[2J\\u202e\\n\" y")
		assert.Equal(t, 1, strings.Count(out, "\n"))
	}
}

// A file that is given as a token's may be a device without an end.
func TestReleaseReadsNoMoreThanAToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	code, _, errOut := execTool(t, nil, "release", "--nodes", "127.0.0.1:1", "--token-file", file, "x")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errOut, "--token-file "+file+": malformed token of 4096 bytes: want 32 hexadecimal digits")
	t.Setenv("REDLOCK_TOKEN", "a secret")
	_, _, errOut = execTool(t, nil, "release", "--nodes", "127.0.0.1:1", "x")
	assert.Contains(t, errOut, "redlock: REDLOCK_TOKEN: malformed token of 8 bytes: ")
	assert.NotContains(t, errOut, "a secret")
	code, _, errOut = execTool(t, nil, "release", "--nodes", "127.0.0.1:1", "--token-file", "-", "x")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errOut, "standard input: empty token; it is what redlock acquire writes")
}

func TestMessagesAreHarmless(t *testing.T) {
	assert.Equal(t, "a\\x1b[2J\\u009b\\xff\n\ufffd ü\\t", messageOf(errors.New("redlock: a\x1b[2J\u009b\xff\n\ufffd ü\t")))
}

// Wherever a mistake is in a command line: who asks for JSON gets it.
func TestUsageAsJSON(t *testing.T) {
	for _, args := range [][]string{
		{"--bogus", "--json", "status", "x"},
		{"status", "--ttl", "--json"},
		{"run", "--ttl", "soon", "--json", "x", "--", "true"},
		{"run", "--json=true", "x"},
		{"bogus", "--json"},
	} {
		code, _, errOut := execTool(t, nil, args...)
		assert.Equal(t, exitUsage, code, "%q", args)
		assert.True(t, json.Valid([]byte(errOut)), "%q: %s", args, errOut)
	}
	_, _, errOut := execTool(t, nil, "run", "x", "--bogus", "--", "tool", "--json")
	assert.False(t, json.Valid([]byte(errOut)), "the command's own flag")
}
