package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockcheck"
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

// deploy starts three nodes. edit may change users.acl.
func deploy(t *testing.T, edit func(acl string) string) *deployment {
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
		require.NoError(t, os.WriteFile(file, []byte(edit(string(acl))), 0o600))
		d.nodes = append(d.nodes, testcluster.RunServers(t, 1, testcluster.WithConfig(config),
			testcluster.WithTLS(d.cert), testcluster.WithArgs("--aclfile", file)).Nodes[0])
	}
	return d
}

func asDeployed(acl string) string { return acl }

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

// operate runs a command on a node as the operator.
func (d *deployment) operate(t *testing.T, i int, command string, args ...any) any {
	t.Helper()
	c, err := redis.Dial("tcp", d.nodes[i].TLSAddr(), redis.DialUseTLS(true), redis.DialTLSConfig(d.cert.Client()),
		redis.DialUsername("operator"), redis.DialPassword("CHANGE-THIS-OPERATOR"))
	require.NoError(t, err)
	reply, err := c.Do(command, args...)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	return reply
}

// awaitUp waits until these clients have all nodes.
func awaitUp(t *testing.T, clients ...*redlock.Redlock) {
	t.Helper()
	await(t, 30*time.Second, "all clients have all nodes", func() bool {
		for _, r := range clients {
			for _, n := range r.Stats().Nodes {
				if !n.Up {
					return false
				}
			}
		}
		return true
	})
}

// All kinds of locks of which a script writes more than one command: a server puts these into its append-only file as
// a transaction.
func lockAllKinds(t *testing.T, holder, other *redlock.Redlock) map[string]*redlock.Lock {
	t.Helper()
	const long = 10 * time.Minute
	before := tryLock(t, other, []string{"waited"}, long)
	got := make(chan *redlock.Lock, 1)
	go func() {
		l, err := holder.Lock(t.Context(), []string{"waited"}, long, redlock.WithRetryDelay(time.Hour), redlock.WithRetryJitter(0))
		assert.NoError(t, err)
		got <- l
	}()
	await(t, 30*time.Second, "it waits", func() bool { return holder.Stats().Waiting == 1 && holder.Stats().Nodes[0].Listens })
	require.NoError(t, before.Extend(t.Context(), long))
	release(t, before)
	return map[string]*redlock.Lock{
		"waited": <-got,
		"fenced": tryLock(t, holder, []string{"fenced"}, long, redlock.WithFencing()),
		"second": tryLock(t, holder, []string{"first", "second"}, long),
		"plain":  tryLock(t, holder, []string{"plain"}, long),
	}
}

// Nodes with the files of examples/deploy are restarted one after the other, each with its data, while locks of all
// kinds are held: none of them is lost, and there is no second holder.
func TestDeployedNodesRestartWithTheirLocks(t *testing.T) {
	t.Parallel()
	d := deploy(t, asDeployed)
	prefix := redlock.WithPrefix("locks:")
	holder, other := newPatient(t, d.as("locker"), prefix), newPatient(t, d.as("locker"), prefix)
	held := lockAllKinds(t, holder, other)
	stored := func(i int) any {
		return d.operate(t, i, "EXISTS", "locks:waited", "locks:fenced", "locks:first", "locks:second", "locks:plain")
	}
	await(t, 30*time.Second, "all nodes have all locks", func() bool {
		return stored(0) == int64(5) && stored(1) == int64(5) && stored(2) == int64(5)
	})
	for i, n := range d.nodes {
		require.NoError(t, n.Restart(true))
		awaitUp(t, holder, other)
		assert.Equal(t, int64(5), stored(i), "node %d has kept its keys", i)
	}
	for resource := range held {
		refused(t, redlock.ErrTaken, other, []string{resource}, time.Minute)
	}
	for resource, l := range held {
		require.NoError(t, l.Extend(t.Context(), time.Minute), resource)
		release(t, l)
	}
}

// What the users of the files may do is what check asks for, with all options.
func TestDeployedNodesAreFit(t *testing.T) {
	t.Parallel()
	d := deploy(t, asDeployed)
	prefix := redlock.WithPrefix("locks:")
	report := checked(t, d.as("checker"), prefix, redlock.WithFencing())
	assert.Equal(t, redlockcheck.OK, report.Verdict())
	requireLocks(t, d.as("locker"))
	report = checked(t, d.as("checker"), prefix, redlock.WithFencing(), redlock.WithQuarantine(time.Minute))
	assert.Equal(t, redlockcheck.OK, report.Verdict())
	for _, user := range []string{"", "default"} {
		_, err := newPatient(t, d.with(user, "CHANGE-THIS-LOCKER"), prefix).TryLock(t.Context(), []string{"a"}, time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum, "the default user is off")
	}
}
