package main

import (
	"bytes"
	"crypto/tls"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/stored"
	"github.com/seed6c881748/redlock/test/testkit"
)

// listed reads a list in JSON.
func listed(t *testing.T, out string) map[string]viewJSON {
	t.Helper()
	seen := map[string]viewJSON{}
	for line := range strings.Lines(out) {
		v := decode[viewJSON](t, line)
		assert.NotContains(t, seen, v.Resource, "it is listed twice")
		seen[v.Resource] = v
	}
	return seen
}

func TestList(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	r := locker(t, c, redlock.WithPrefix("locks:[a]*"))
	for i := range 40 {
		name := "job/" + strings.Repeat("n", i)
		_, err := r.TryLock(t.Context(), []string{name}, time.Minute, redlock.WithFencing(), redlock.WithOwner("me"))
		require.NoError(t, err)
	}
	eventually(t, func() bool { return holders(t, c, "locks:[a]*job/n") == 3 }, "the lock on all nodes")
	for _, n := range c.Nodes {
		require.NoError(t, n.Set("locks:[a]*other", "no token", 0))
		require.NoError(t, n.Set("locks:[b]*other", tokens.New(), 0))
	}
	require.NoError(t, c.Nodes[2].Set("locks:[a]*left", tokens.New(), time.Minute))
	list := []string{"list", "--json", "--prefix", "locks:[a]*"}
	out, _ := exits(t, c, exitOK, list...)
	seen := listed(t, out)
	assert.Len(t, seen, 41)
	for name, v := range seen {
		if name == "left" {
			assert.Equal(t, "partial", v.State)
			continue
		}
		assert.True(t, v.Held, name)
		assert.Equal(t, "me", v.Owner)
		assert.Positive(t, v.Fence)
		assert.Equal(t, 0, v.Waiting)
	}
	out, _ = exits(t, c, exitOK, "list", "--prefix", "locks:[a]*")
	assert.Regexp(t, `(?m)^RESOURCE +STATE +TTL +ON +FENCE +WAITING +OWNER$`, out)
	assert.Regexp(t, `(?m)^job/n +held +\S+ +3/3 +\d+ +0 +me$`, out)
	for pattern, want := range map[string]int{"job/n": 1, "job/n*": 39, "job/??": 1, "[jl]*": 41, "ob/*": 0, "locks:*": 0} {
		out, _ = exits(t, c, exitOK, append(list, pattern)...)
		assert.Len(t, listed(t, out), want, pattern)
	}

	require.NoError(t, c.Nodes[0].Stop())
	out, errOut := exits(t, c, exitOK, list...)
	assert.Len(t, listed(t, out), 41)
	assert.Contains(t, errOut, c.Nodes[0].Addr())
	require.NoError(t, c.Nodes[1].Stop())
	exits(t, c, exitNoQuorum, list...)
}

// What a node is asked to do at once is bounded, however much there is on it.
func TestListIsGentle(t *testing.T) {
	c := testcluster.RunEmbedded(t, 3)
	const locks = 500
	for i := range locks {
		key := "k" + strings.Repeat("n", i%50) + tokens.New()
		require.NoError(t, c.Nodes[0].Set(key, tokens.New(), 0))
	}
	most := map[string]int{}
	require.NoError(t, c.Nodes[0].OnCommand(func(cmd string, args []string) {
		most[cmd] = max(most[cmd], len(args))
		if cmd == "SCAN" {
			assert.Contains(t, strings.Join(args, " "), "COUNT "+strconv.Itoa(scanCount))
		}
	}))
	out, _ := exits(t, c, exitOK, "list", "--json")
	assert.Equal(t, locks, strings.Count(out, "\n"))
	assert.LessOrEqual(t, most["EVAL"], scanCount+3)
	for cmd := range most {
		assert.Contains(t, []string{"SCAN", "EVAL", "PING"}, cmd)
	}
}

// The check reads patterns as servers do: one that it lets pass matches what is in its class, and one that it
// refuses for its range does not match that.
func TestServersReadPatternsAsTheCheckDoes(t *testing.T) {
	for _, pattern := range []string{
		"*", "a", "a]", "[a]", "[^a]", "[^]", "[a-z]", "[a-]]", "[-a]", `[\]]`, `[\\]`, `\[`, `a\\`, "?[a][b]*", "{a,b}", "[[]", "ä[ö]",
	} {
		require.NoError(t, checkGlob(pattern), "%q", pattern)
	}
	c := testcluster.RunServers(t, 1)
	for _, name := range []string{"xa", "x-", "x]", `x\`, "x["} {
		require.NoError(t, c.Nodes[0].Set(name, tokens.New(), 0))
	}
	for pattern, want := range map[string]string{
		"x[a-]]": "x],xa", "x[-a]": "x-,xa", `x[\]]`: "x]", `x[\\]`: `x\`, "x[[]": "x[", "x[^]": `x-,x[,x\,x],xa`, "x[_-b]": "xa", "x[b-_]": "xa",
	} {
		out, _ := exits(t, c, exitOK, "list", "--json", pattern)
		assert.Equal(t, want, strings.Join(slices.Sorted(maps.Keys(listed(t, out))), ","), "%q", pattern)
	}
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
	out, _ := exits(t, c, exitOK, "list", "--json", "--prefix", "p:")
	seen := listed(t, out)
	assert.Len(t, seen, len(names), "%q", seen)
	for _, v := range seen {
		assert.Zero(t, v.Fence)
		assert.Equal(t, -1, v.Waiting)
	}
	out, _ = exits(t, c, exitOK, "list", "--prefix", "p:")
	assert.Equal(t, len(names)+1, strings.Count(out, "\n"))
	assertHarmless(t, out)
	out, _ = exits(t, c, exitNoQuorum, "status", "--prefix", "p:", "list")
	assert.Contains(t, out, "WRONGTYPE")
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
	out, _ := exits(t, c, exitNoQuorum, "status", "x")
	assert.Contains(t, out, "  ERR unknown command 'EVAL'\n")
}

// A node that answers, but never in time, is not there.
func TestStatusOfANodeThatIsTooLate(t *testing.T) {
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	require.NoError(t, c.Nodes[1].Slow(10*time.Second, 10*time.Second))
	args := []string{"status", "--connect-timeout", "2s", "--node-timeout", "2s", "x"}
	out, _ := exits(t, c, exitNo, args...)
	assert.Contains(t, out, c.Nodes[1].Addr()+": it answers too late")
	assert.Regexp(t, c.Nodes[1].Addr()+`  no (answer|connection) within 2s\n`, out, "whichever timer is the first")
	out, _ = exits(t, c, exitNo, append(args, "--json")...)
	assert.Contains(t, decode[viewJSON](t, out).Nodes[1].Next, "too late", out)
}

func TestOtherSetsAreTold(t *testing.T) {
	five := testcluster.RunEmbedded(t, 5)
	for _, n := range five.Nodes {
		require.NoError(t, n.ShowUptime())
	}
	a, d, e := five.Nodes[0], five.Nodes[3], five.Nodes[4]
	c := &testcluster.Cluster{Nodes: five.Nodes[:3]}
	_, errOut := exits(t, c, exitNo, "status", "x")
	require.Empty(t, errOut)

	testkit.NoteSet(t, a, "web", a, d, e)
	before, _, err := a.Get(testkit.NotesKey)
	require.NoError(t, err)
	for _, args := range [][]string{{"status", "x"}, {"status", "--permits", "2", "x"}, {"list"}} {
		code, out, errOut := execTool(t, c, args...)
		assert.Contains(t, errOut, "redlock: web, a client of "+a.Addr()+" with 3 nodes, has ", args)
		assert.Contains(t, errOut, "both can get a lock at once", args)
		assert.LessOrEqual(t, code, exitNo, out)
		_, _, errOut = execTool(t, c, append(args, "--set-name", "other")...)
		assert.NotContains(t, errOut, "a client of", args)
	}
	after, _, err := a.Get(testkit.NotesKey)
	require.NoError(t, err)
	assert.Equal(t, before, after, "the tool leaves no note")
	out, _ := exits(t, c, exitUnfit, "check")
	assert.Contains(t, out, "unfit sets: web, a client of ")
}

// certify writes a certificate for a name, which signs itself, and its key.
func certify(t *testing.T, name string) (c *testcluster.Certificate, cert, key string) {
	t.Helper()
	c, err := testcluster.NewCertificate(name)
	require.NoError(t, err)
	cert, key, err = c.Write(t.TempDir())
	require.NoError(t, err)
	return c, cert, key
}

func TestTLS(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	authority, ca, _ := certify(t, "redis.example")
	trusted, clientCert, clientKey := certify(t, "client.example")
	config := authority.Server()
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, trusted.Trusted
	addr, err := c.Nodes[0].Proxy().ListenTLS(config)
	require.NoError(t, err)
	client := []string{"--tls-cert", clientCert, "--tls-key", clientKey}
	tests := []struct {
		name  string
		nodes string
		args  []string
		code  int
	}{
		{"all of it", addr, append(client, "--tls", "--tls-ca", ca, "--tls-server-name", "redis.example"), exitNo},
		{"by the address", "rediss://" + addr, append(client, "--tls-ca", ca, "--tls-server-name", "redis.example"), exitNo},
		{"unchecked", addr, append(client, "--tls", "--tls-insecure"), exitNo},
		{"unchecked by the address", "rediss://" + addr, append(client, "--tls-insecure"), exitNo},
		{"not trusted", addr, append(client, "--tls", "--tls-server-name", "redis.example"), exitNoQuorum},
		{"another name", addr, append(client, "--tls", "--tls-ca", ca), exitNoQuorum},
		{"no certificate", addr, []string{"--tls", "--tls-insecure"}, exitNoQuorum},
		{"in plain text", addr, nil, exitNoQuorum},
		{"a certificate's file without TLS", addr, []string{"--tls-ca", ca}, exitUsage},
		{"unchecked without TLS", "redis://" + addr, []string{"--tls-insecure"}, exitUsage},
		{"a name without TLS", addr, []string{"--tls-server-name", "redis.example"}, exitUsage},
		{"a certificate without TLS", addr, client, exitUsage},
		{"by the address, for Valkey", "valkeys://" + addr, append(client, "--tls-ca", ca, "--tls-server-name", "redis.example"), exitNo},
		{"one of two without TLS", "rediss://" + addr + "," + c.Addrs()[0], []string{"--tls-insecure"}, exitUsage},
		{"no key", addr, []string{"--tls", "--tls-cert", clientCert}, exitUsage},
		{"no certificate in the file", addr, []string{"--tls", "--tls-ca", clientKey}, exitUsage},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			exits(t, nil, tt.code, append([]string{"status", "--nodes", tt.nodes, "x"}, tt.args...)...)
		})
	}
	for name, value := range map[string]string{
		"REDLOCK_TLS_CA": ca, "REDLOCK_TLS_INSECURE": "true", "REDLOCK_TLS_SERVER_NAME": "redis.example",
	} {
		t.Run("of the environment, without TLS: "+name, func(t *testing.T) {
			t.Setenv(name, value)
			_, errOut := exits(t, c, exitUsage, "status", "x")
			assert.Contains(t, errOut, name)
			assert.Contains(t, errOut, "give --tls, or addresses with rediss://")
		})
	}
}

// The units of examples/deploy run the tool, with client.env, on nodes with redis.conf and users.acl.
func TestDeployedUnits(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("../../examples/deploy/" + name)
		require.NoError(t, err)
		return string(text)
	}
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	certificate, err := testcluster.NewCertificate()
	require.NoError(t, err)
	ca, _, err := certificate.Write(t.TempDir())
	require.NoError(t, err)
	// A server ends if this folder is not there, although the command line names another one.
	config := write("redis.conf", strings.Replace(read("redis.conf"), "\ndir ", "\n#dir ", 1))
	c := testcluster.RunServers(t, 3, testcluster.WithConfig(config), testcluster.WithTLS(certificate),
		testcluster.WithArgs("--aclfile", write("users.acl", read("users.acl"))))
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.TLSAddr())
	}
	here := map[string]string{
		"REDLOCK_NODES": strings.Join(addrs, ","), "REDLOCK_TLS_CA": ca,
		"REDLOCK_PASSWORD_FILE": write("password", "CHANGE-THIS-LOCKER\n"),
	}
	for line := range strings.Lines(read("client.env")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && line[0] != '#' {
			if other, is := here[name]; is {
				value = other
			}
			t.Setenv(name, value)
		}
	}
	execStart := func(unit string) []string {
		found := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/redlock (.*)$`).FindStringSubmatch(read(unit))
		require.NotNil(t, found)
		line := strings.ReplaceAll(found[1], "${CREDENTIALS_DIRECTORY}/checker", write("checker", "CHANGE-THIS-CHECKER\n"))
		return strings.Fields(strings.ReplaceAll(line, "/usr/local/bin/report", "true"))
	}
	exits(t, nil, exitNo, execStart("redlock-check.service")...) // The nodes are in quarantine.
	exits(t, nil, exitOK, append([]string{"admit"}, addrs...)...)
	exits(t, nil, exitOK, execStart("redlock-check.service")...)
	exits(t, nil, exitOK, execStart("redlock-report.service")...)
	exits(t, nil, exitTaken, "run", "--wait", "0", "report", "--", "true")
	assert.Contains(t, read("redlock-report.service"), "\nSuccessExitStatus=75\n")
}
