package servers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockcheck"
	"github.com/seed6c881748/redlock/test/testkit"
)

// These tests start servers with the files of examples/deploy, as they are. Only ports, folders and certificates are
// others, by the command line; but a server that reads of a folder which is not there ends, whatever follows.
const deployFolder = "../../examples/deploy"

// A deployment is a few nodes, each with users.acl in a folder of its own, where it may be saved.
type deployment struct {
	nodes []*testcluster.Node
	cert  *testcluster.Certificate
	ca    string // the file
}

// deploy starts three nodes.
func deploy(t *testing.T) *deployment {
	t.Helper()
	acl, err := os.ReadFile(filepath.Join(deployFolder, "users.acl"))
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(deployFolder, "redis.conf"))
	require.NoError(t, err)
	before, after, found := strings.Cut(string(text), "\ndir /var/lib/redis-lock\n")
	require.True(t, found)
	config := filepath.Join(t.TempDir(), "redis.conf")
	require.NoError(t, os.WriteFile(config, []byte(before+"\n"+after), 0o600))
	d := &deployment{cert: certificate(t)}
	d.ca, _, err = d.cert.Write(t.TempDir())
	require.NoError(t, err)
	for range 3 {
		file := filepath.Join(t.TempDir(), "users.acl")
		require.NoError(t, os.WriteFile(file, acl, 0o600))
		d.nodes = append(d.nodes, testcluster.RunServers(t, 1, testcluster.WithConfig(config),
			testcluster.WithTLS(d.cert), testcluster.WithArgs("--aclfile", file)).Nodes[0])
	}
	return d
}

// as returns the nodes for a user with the password that users.acl gives.
func (d *deployment) as(user string) []redlock.Node {
	return d.with(user, "CHANGE-THIS-"+strings.ToUpper(user))
}

func (d *deployment) with(user, password string) []redlock.Node {
	all := make([]redlock.Node, len(d.nodes))
	for i, n := range d.nodes {
		all[i] = redlock.NewNode("rediss://"+n.TLSAddr(), redis.DialTLSConfig(d.cert.Client()),
			redis.DialUsername(user), redis.DialPassword(password))
	}
	return all
}

// awaitUp waits until these clients have all nodes.
func awaitUp(t *testing.T, clients ...*redlock.Redlock) {
	t.Helper()
	await(t, patience, "all clients have all nodes", func() bool {
		return !slices.ContainsFunc(clients, func(r *redlock.Redlock) bool { return !testkit.AllUp(r) })
	})
}

// All kinds of locks of which a script writes more than one command: a server puts these into its append-only file as
// a transaction.
func lockAllKinds(t *testing.T, holder, other *redlock.Redlock) map[string]*redlock.Lock {
	t.Helper()
	const long = 10 * time.Minute
	before := tryLock(t, other, []string{"waited"}, long)
	got := waiting(t, holder, "waited", true)
	require.NoError(t, before.Extend(t.Context(), long))
	release(t, before)
	return map[string]*redlock.Lock{
		"waited": <-got,
		"fenced": tryLock(t, holder, []string{"fenced"}, long, redlock.WithFencing()),
		"second": tryLock(t, holder, []string{"first", "second"}, long),
		"plain":  tryLock(t, holder, []string{"plain"}, long),
	}
}

// What the users of the files may do is what check asks for, with all options.
func TestDeployedNodesAreFit(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	prefix := redlock.WithPrefix("locks:")
	report := checked(t, d.as("checker"), prefix, redlock.WithFencing())
	assert.Equal(t, redlockcheck.OK, report.Verdict())
	requireLocks(t, d.as("locker"))
	report = checked(t, d.as("checker"), prefix, redlock.WithFencing(), redlock.WithQuarantine(time.Minute))
	assert.Equal(t, redlockcheck.OK, report.Verdict())
	refused(t, redlock.ErrNoQuorum, newPatient(t, d.with("default", "CHANGE-THIS-LOCKER")), []string{"a"}, time.Minute) // It is off.
}

// printed returns the commands under a heading of docs/runbooks.md.
func printed(t *testing.T, heading string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/runbooks.md")
	require.NoError(t, err)
	_, section, found := strings.Cut("\n"+string(text), "\n"+heading+"\n")
	require.True(t, found, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks []string
	for _, block := range strings.Split(section, "\n```sh\n")[1:] {
		commands, _, _ := strings.Cut(block, "\n```\n")
		blocks = append(blocks, commands)
	}
	require.NotEmpty(t, blocks)
	return blocks
}

// A shell runs what docs/runbooks.md prints.
type shell struct {
	d    *deployment
	dir  string
	vars []string
}

func newShell(t *testing.T, d *deployment, vars ...string) *shell {
	t.Helper()
	if _, err := exec.LookPath("redis-cli"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("redis-cli is not here")
	}
	return &shell{d, t.TempDir(), vars}
}

// run runs a block after the first one of the page, with the test's addresses, and restarts the nodes that it asks for.
func (s *shell) run(t *testing.T, block string) {
	t.Helper()
	setUp := printed(t, "# Runbooks")[0]
	replace := func(old, new string) {
		require.Contains(t, setUp, old)
		setUp = strings.ReplaceAll(setUp, old, new)
	}
	var addrs []string
	for _, n := range s.d.nodes {
		addrs = append(addrs, n.TLSAddr())
	}
	replace("10.0.0.1:6379 10.0.0.2:6379 10.0.0.3:6379", strings.Join(addrs, " "))
	replace("$(cat operator.password)", "CHANGE-THIS-OPERATOR")
	replace("/etc/redis-lock/tls/ca.crt", s.d.ca)
	replace(`ssh "${1%:*}" sudo systemctl restart redis-lock`, `: >"$dir/$1"; while [ -e "$dir/$1" ]; do sleep 0.05; done`)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", setUp+"\n"+block)
	cmd.Dir = deployFolder
	cmd.Env = append(append(os.Environ(), "dir="+s.dir), s.vars...)
	done := make(chan error, 1)
	var out []byte
	go func() {
		var err error
		out, err = cmd.CombinedOutput()
		done <- err
	}()
	for {
		select {
		case err := <-done:
			require.NoError(t, err, "%s", out)
			t.Logf("%s", out)
			return
		case <-time.After(10 * time.Millisecond):
			for i, n := range s.d.nodes {
				path := filepath.Join(s.dir, addrs[i])
				if _, err := os.Stat(path); err == nil {
					require.NoError(t, n.Restart(true))
					require.NoError(t, os.Remove(path))
				}
			}
		}
	}
}

// A process that has not found the node again holds the next restart back, and with that no lock fails. Each node comes
// back with its data, so that locks of all kinds are kept.
func TestRunbookRollingRestart(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	sh := newShell(t, d)
	prefix := redlock.WithPrefix("locks:")
	clients := []*redlock.Redlock{newPatient(t, d.as("locker"), prefix), newPatient(t, d.as("locker"), prefix)}
	held := lockAllKinds(t, clients[0], clients[1])
	awaitUp(t, clients...)
	stop := work(t, func(ctx context.Context) {
		l, err := clients[1].Lock(ctx, []string{"busy"}, time.Minute)
		if ctx.Err() == nil && assert.NoError(t, err, "a majority is there all the time") {
			_ = l.Unlock(context.WithoutCancel(ctx))
		}
	})
	sh.run(t, printed(t, "## Rolling restart")[0])
	stop()
	awaitUp(t, clients...)
	for resource, l := range held {
		refused(t, redlock.ErrTaken, clients[1], []string{resource}, time.Minute)
		require.NoError(t, l.Extend(t.Context(), time.Minute), resource)
	}
}

// clients-back.sh does not pass while a client lacks a node, and none is connected.
func TestRunbookKnowsWhoIsMissing(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	sh := newShell(t, d)
	const once = `if sh clients-back.sh "$options" $NODES; then exit 1; fi`
	sh.run(t, once)
	prefix := redlock.WithPrefix("locks:")
	r := newPatient(t, d.as("locker"), prefix)
	release(t, tryLock(t, r, []string{"a"}, time.Minute))
	awaitUp(t, r)
	sh.run(t, `sh clients-back.sh "$options" $NODES`)
	one := newPatient(t, d.as("locker")[:2], prefix) // As one that has not found the third node.
	release(t, tryLock(t, one, []string{"a"}, time.Minute))
	awaitUp(t, one)
	sh.run(t, once)
}

// The password changes while a client holds locks; each step outlives a restart.
func TestRunbookPassword(t *testing.T) {
	t.Parallel()
	const first, second = "CHANGE-THIS-LOCKER", "another one"
	d := deploy(t)
	sh := newShell(t, d, "old="+first, "new="+second)
	prefix := redlock.WithPrefix("locks:")
	before := newPatient(t, d.with("locker", first), prefix)
	lock := tryLock(t, before, []string{"held"}, 10*time.Minute)
	steps := printed(t, "## Password")
	sh.run(t, steps[0])
	for _, n := range d.nodes {
		require.NoError(t, n.Restart(true))
	}
	awaitUp(t, before)
	after := newPatient(t, d.with("locker", second), prefix)
	refused(t, redlock.ErrTaken, after, []string{"held"}, time.Minute)
	require.NoError(t, lock.Extend(t.Context(), time.Minute))
	release(t, lock)
	require.NoError(t, before.Close(t.Context()))
	awaitUp(t, after)
	sh.run(t, steps[1])
	for _, n := range d.nodes {
		require.NoError(t, n.Restart(true))
	}
	awaitUp(t, after)
	release(t, tryLock(t, after, []string{"held"}, time.Minute))
	err := refusal(t, redlock.ErrNoQuorum, newPatient(t, d.with("locker", first), prefix), []string{"held"}, time.Minute)
	require.ErrorContains(t, err, "WRONGPASS")
}

// A new certificate is read without a restart.
func TestRunbookCertificate(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	sh := newShell(t, d)
	r := newPatient(t, d.as("locker"), redlock.WithPrefix("locks:"))
	lock := tryLock(t, r, []string{"held"}, 10*time.Minute)
	d.cert = certificate(t)
	folder := t.TempDir()
	file, key, err := d.cert.Write(folder)
	require.NoError(t, err)
	block := strings.NewReplacer("/etc/redis-lock/tls/tls.crt", file, "/etc/redis-lock/tls/tls.key", key).Replace(printed(t, "## Certificate")[0])
	sh.run(t, block)
	require.NoError(t, lock.Extend(t.Context(), time.Minute))
	other := newPatient(t, d.as("locker"), redlock.WithPrefix("locks:")) // It trusts the new one alone.
	refused(t, redlock.ErrTaken, other, []string{"held"}, time.Minute)
	release(t, lock)
}
