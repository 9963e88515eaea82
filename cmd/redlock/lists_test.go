package main

import (
	"bufio"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"regexp"
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
	const prefix = "locks:[a]*"
	r := locker(t, c, redlock.WithPrefix(prefix))
	for i := range 40 {
		name := "job/" + strings.Repeat("n", i)
		testkit.TryLock(t, r, []string{name}, time.Minute, redlock.WithFencing(), redlock.WithOwner("me"))
	}
	onAllNodes(t, c, prefix+"job/n")
	for _, n := range c.Nodes {
		require.NoError(t, n.Set(prefix+"other", "no token", 0))
		require.NoError(t, n.Set("locks:[b]*other", tokens.New(), 0))
	}
	require.NoError(t, c.Nodes[2].Set(prefix+"left", tokens.New(), time.Minute))
	list := []string{"list", "--json", "--prefix", prefix}
	out, _ := exits(t, c, exitOK, list...)
	seen := listed(t, out)
	assert.Len(t, seen, 41)
	for name, v := range seen {
		assert.Equal(t, []any{name != "left", 0}, []any{v.Held && v.Fence > 0 && v.Owner == "me", v.Waiting}, name)
	}
	assert.Equal(t, "partial", seen["left"].State)
	out, _ = exits(t, c, exitOK, "list", "--prefix", prefix)
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
		do("HSET", "p:hash", token, token)
		do("SET", "p:raw", "\x80\x81"+token)
		for _, name := range names {
			do("SET", "p:"+name, "0123456789abcdef0123456789abcdef", "PX", time.Minute.Milliseconds())
			do("SADD", stored.Keys{Prefix: "p:"}.Line(name), token) // Not what a line is.
			do("SET", stored.Keys{Prefix: "p:"}.Counter(name), strings.Repeat("9", 1<<20))
		}
		require.NoError(t, conn.Close())
	}
	out, _ := exits(t, c, exitOK, "list", "--json", "--prefix", "p:")
	seen := listed(t, out)
	assert.Len(t, seen, len(names), "%q", seen)
	for _, v := range seen {
		assert.Equal(t, []any{int64(0), -1}, []any{v.Fence, v.Waiting})
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
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go func() {
				in := bufio.NewScanner(conn)
				for in.Scan() {
					if strings.HasPrefix(in.Text(), "*") { // A command begins.
						_, _ = conn.Write([]byte("-ERR \x1b[2Jgone \xff\u009b31m\r\n"))
					}
				}
			}()
		}
	}()
	t.Setenv("REDLOCK_NODES", l.Addr().String())
	for _, line := range []string{
		"status x", "list", "check", "break --yes x", "run --wait 0 x -- true", "admit --quarantine 1m " + l.Addr().String(),
	} {
		_, out, errOut := execTool(t, nil, strings.Fields(line)...)
		assertHarmless(t, out+errOut)
		assert.Contains(t, out+errOut, `gone \xff`, line)
	}
}

// A node that answers, but never in time, is not there.
func TestStatusOfANodeThatIsTooLate(t *testing.T) {
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	require.NoError(t, c.Nodes[1].Slow(10*time.Second, 10*time.Second))
	out, _ := exits(t, c, exitNo, "status", "--connect-timeout", "2s", "--node-timeout", "2s", "x")
	assert.Contains(t, out, c.Nodes[1].Addr()+": it answers too late")
	assert.Regexp(t, c.Nodes[1].Addr()+`  no (answer|connection) within 2s\n`, out, "whichever timer is the first")
}

func TestOtherSetsAreTold(t *testing.T) {
	five := testcluster.RunEmbedded(t, 5)
	for _, n := range five.Nodes {
		require.NoError(t, n.ShowUptime())
	}
	a := five.Nodes[0]
	c := &testcluster.Cluster{Nodes: five.Nodes[:3]}
	testkit.NoteSet(t, a, "web", a, five.Nodes[3], five.Nodes[4])
	before, _, err := a.Get(testkit.NotesKey)
	require.NoError(t, err)
	for _, args := range [][]string{{"status", "x"}, {"list"}} {
		_, _, errOut := execTool(t, c, args...)
		assert.Contains(t, errOut, "redlock: web, a client of "+a.Addr()+" with 3 nodes, has ", args)
		_, _, errOut = execTool(t, c, append(args, "--set-name", "other")...)
		assert.NotContains(t, errOut, "a client of", args)
	}
	after, _, err := a.Get(testkit.NotesKey)
	require.NoError(t, err)
	assert.Equal(t, before, after, "the tool leaves no note")
}

func TestTLS(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	certify := func(name string) (*testcluster.Certificate, string, string) {
		certificate, err := testcluster.NewCertificate(name)
		require.NoError(t, err)
		cert, key, err := certificate.Write(t.TempDir())
		require.NoError(t, err)
		return certificate, cert, key
	}
	authority, ca, _ := certify("redis.example")
	trusted, clientCert, clientKey := certify("client.example")
	config := authority.Server()
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, trusted.Trusted
	addr, err := c.Nodes[0].Proxy().ListenTLS(config)
	require.NoError(t, err)
	client := " --tls-cert " + clientCert + " --tls-key " + clientKey
	for line, code := range map[string]int{
		addr + client + " --tls --tls-ca " + ca + " --tls-server-name redis.example":          exitNo,
		"rediss://" + addr + client + " --tls-ca " + ca + " --tls-server-name redis.example":  exitNo,
		"valkeys://" + addr + client + " --tls-ca " + ca + " --tls-server-name redis.example": exitNo,
		addr + client + " --tls --tls-insecure":                                               exitNo,
		"rediss://" + addr + client + " --tls-insecure":                                       exitNo,
		addr + client + " --tls --tls-server-name redis.example":                              exitNoQuorum,
		addr + client + " --tls --tls-ca " + ca:                                               exitNoQuorum,
		addr + " --tls --tls-insecure":                                                        exitNoQuorum,
		addr:                                                                                  exitNoQuorum,
		addr + " --tls-ca " + ca:                                                              exitUsage,
		"redis://" + addr + " --tls-insecure":                                                 exitUsage,
		addr + " --tls-server-name redis.example":                                             exitUsage,
		addr + client: exitUsage,
		"rediss://" + addr + "," + c.Addrs()[0] + " --tls-insecure": exitUsage,
		addr + " --tls --tls-cert " + clientCert:                    exitUsage,
		addr + " --tls --tls-ca " + clientKey:                       exitUsage,
	} {
		exits(t, nil, code, strings.Fields("status x --nodes "+line)...)
	}
	t.Setenv("REDLOCK_TLS_CA", ca)
	_, errOut := exits(t, c, exitUsage, "status", "x")
	assert.Contains(t, errOut, "REDLOCK_TLS_CA")
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
