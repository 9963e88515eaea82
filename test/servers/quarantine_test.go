package servers

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// shortMaxTTL is for tests that wait until a quarantine is over, longMaxTTL for those in
// which it must not be, however slow the machine.
const (
	shortMaxTTL = 2 * time.Second
	longMaxTTL  = time.Minute
)

// Two of three nodes lose their data while a lock is held: by kill -9, a flush or an old snapshot. With quarantine nobody
// else gets the lock before it has ended, whatever is between client and server.
func TestQuarantineKeepsOutASecondHolder(t *testing.T) {
	for name, tc := range map[string]struct {
		node func(t *testing.T, n *testcluster.Node) redlock.Node
		lose func(n *testcluster.Node) error
	}{
		"direct, with a prefix": {direct, killEmpty},
		"reconnecting proxy":    {proxied, killEmpty},
		"flushed":               {direct, (*testcluster.Node).Flush},
		"restart, multiplexed":  {multiplexed, func(n *testcluster.Node) error { return n.Restart(false) }},
		"snapshot":              {direct, killOld},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testcluster.RunServers(t, 3, testcluster.WithProxy(), testcluster.WithSnapshots())
			opts := []redlock.Option{redlock.WithNodeTimeout(patient), redlock.WithPolling(), redlock.WithQuarantine(shortMaxTTL)}
			if strings.Contains(name, "prefix") {
				opts = append(opts, redlock.WithPrefix("p:"))
			}
			nodes := nodesBy(c, func(n *testcluster.Node) redlock.Node { return tc.node(t, n) })
			holder, other := newPatient(t, nodes, opts...), newPatient(t, nodes, opts...)
			require.NoError(t, holder.Admit(t.Context(), names(c)...))
			warm, err := other.Lock(t.Context(), []string{"warm"}, shortMaxTTL) // Its scripts are loaded.
			require.NoError(t, err)
			_ = warm.Unlock(t.Context()) // It may have lapsed.
			for _, n := range c.Nodes {
				admin(t, n, "SAVE") // The marker, and no lock.
			}
			var held *redlock.Lock
			await(t, patience, "all nodes have the lock", func() bool {
				if held == nil || held.Extend(t.Context(), shortMaxTTL) != nil { // If it has lapsed, the machine is slow.
					held = waitLock(t, holder, []string{"x"}, shortMaxTTL, redlock.WithRetryCount(-1))
				}
				return len(keys(t, c.Nodes[0]))*len(keys(t, c.Nodes[1]))*len(keys(t, c.Nodes[2])) == 1
			})
			require.NoError(t, tc.lose(c.Nodes[0]))
			require.NoError(t, tc.lose(c.Nodes[1]))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			second, err := other.Lock(ctx, []string{"x"}, time.Second, redlock.WithRetryCount(-1), redlock.WithRetryDelay(5*time.Millisecond))
			require.NoError(t, err)
			assert.Greater(t, second.Until().Add(-testkit.Validity(time.Second)), held.Until())
		})
	}
}

func killEmpty(n *testcluster.Node) error { return errors.Join(n.Stop(), n.Restart(false)) }

// killOld leaves what the last snapshot has.
func killOld(n *testcluster.Node) error { return errors.Join(n.Stop(), n.Restart(true)) }

func proxied(_ *testing.T, n *testcluster.Node) redlock.Node {
	return redlock.Node{Name: n.Name(), Pool: redlock.NewNode(n.Addr()).Pool}
}

// direct goes past the proxy.
func direct(_ *testing.T, n *testcluster.Node) redlock.Node {
	return redlock.Node{Name: n.Name(), Pool: redlock.NewNode(n.DirectAddr()).Pool}
}

// multiplexed goes through another one, which keeps its clients' connections whatever becomes of the server: no client
// notices a restart.
func multiplexed(t *testing.T, n *testcluster.Node) redlock.Node {
	t.Helper()
	return behindMultiplexer(t, n.Name(), n.DirectAddr)
}

// replicate has replica become one of master, and waits until it has the marker. It returns a
// connection to the replica.
func replicate(t *testing.T, master, replica *testcluster.Node) redis.Conn {
	t.Helper()
	host, port, err := net.SplitHostPort(master.DirectAddr())
	require.NoError(t, err)
	admin(t, master, "CONFIG", "SET", "repl-diskless-sync-delay", "0") // Else it waits 5 s for further replicas.
	conn := adminConn(t, replica)
	_, err = conn.Do("REPLICAOF", host, port)
	require.NoError(t, err)
	await(t, patience, "the replica has the marker", func() bool {
		_, ok, failed := replica.Get(testkit.MarkerKey)
		return failed == nil && ok
	})
	return conn
}

// A replica that takes over the address has its master's marker, and another run.
func TestQuarantineHasAPromotedReplicaAbstain(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 2)
	master, replica := c.Nodes[0], c.Nodes[1]
	var mu sync.Mutex
	at := master
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		return at.Conn(ctx)
	}}
	r := newPatient(t, []redlock.Node{{Name: "node", Pool: pool}}, redlock.WithQuarantine(shortMaxTTL))
	require.NoError(t, r.Admit(t.Context(), "node"))
	conn := replicate(t, master, replica)
	_, err := conn.Do("REPLICAOF", "NO", "ONE") // From here on it misses what the master gets.
	require.NoError(t, err)
	held := tryLock(t, r, []string{"x"}, shortMaxTTL)
	mu.Lock()
	at = replica
	mu.Unlock()
	require.NoError(t, master.Stop())
	second := waitLock(t, r, []string{"x"}, time.Second, redlock.WithRetryCount(-1), redlock.WithRetryDelay(5*time.Millisecond))
	assert.Greater(t, second.Until().Add(-testkit.Validity(time.Second)), held.Until())
}

// A client of another configuration must not have the next run believe that it is the
// last one.
func TestQuarantineSeesARestartThoughAClientWasRefused(t *testing.T) {
	c := testcluster.RunServers(t, 1, testcluster.WithSnapshots())
	n := c.Nodes[0]
	node := behindMultiplexer(t, "node", n.DirectAddr)
	open := func(nodes ...redlock.Node) *redlock.Redlock {
		return newPatient(t, nodes, redlock.WithPolling(), redlock.WithQuarantine(longMaxTTL))
	}
	holder, second := open(node), open(node)
	alien := open(node, behindMultiplexer(t, "again", n.DirectAddr), behindMultiplexer(t, "once more", n.DirectAddr))
	require.NoError(t, holder.Admit(t.Context(), "node"))
	cycle(t, second, "warm", time.Second)
	require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, alien, []string{"x"}, time.Second), "set up for clients with 1 node;")
	admin(t, n, "SAVE")
	tryLock(t, holder, []string{"x"}, longMaxTTL)
	require.NoError(t, killOld(n))
	require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, alien, []string{"x"}, time.Second), "set up for clients with 1 node;")
	require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, second, []string{"x"}, time.Second), "quarantined")
}

// Nor must a replica that refuses writes, before it is promoted.
func TestQuarantineHasAReplicaThatIsAskedTooEarlyAbstain(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 2)
	master, replica := c.Nodes[0], c.Nodes[1]
	var at atomic.Value
	at.Store(master.DirectAddr())
	node := behindMultiplexer(t, "node", func() string { return at.Load().(string) })
	holder := newPatient(t, []redlock.Node{node}, redlock.WithPolling(), redlock.WithQuarantine(longMaxTTL))
	other := newPatient(t, []redlock.Node{node}, redlock.WithPolling(), redlock.WithQuarantine(longMaxTTL))
	require.NoError(t, holder.Admit(t.Context(), "node"))
	cycle(t, other, "warm", time.Second)
	conn := replicate(t, master, replica)
	require.NoError(t, master.Stop())
	at.Store(replica.DirectAddr())
	require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, other, []string{"y"}, longMaxTTL), "READONLY")
	_, err := conn.Do("REPLICAOF", "NO", "ONE")
	require.NoError(t, err)
	await(t, patience, "it abstains", func() bool {
		err = refusal(t, redlock.ErrNoQuorum, other, []string{"x"}, longMaxTTL)
		return strings.Contains(err.Error(), "quarantined")
	})
}

// An Admit that was given up, but is carried out late, is not for the next run.
func TestQuarantineLateAdmitIsNotForTheNextRun(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	node := behindMultiplexer(t, "node", n.DirectAddr)
	r := newPatient(t, []redlock.Node{node}, redlock.WithPolling(), redlock.WithQuarantine(longMaxTTL))
	require.NoError(t, r.Admit(t.Context(), "node"))
	require.NoError(t, n.Stop())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.Admit(ctx, "node"), context.DeadlineExceeded)
	require.NoError(t, n.Restart(false)) // The next request is behind it on the connection.
	require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, r, []string{"x"}, time.Second), "quarantined")

	conn := adminConn(t, n)
	stale, err := redis.Int(conn.Do("EVAL", quarantine.AdmitScript.Source, 1, testkit.MarkerKey, strings.Repeat("ab", 20), "1", 2000))
	require.NoError(t, err)
	require.Zero(t, stale)
}

// What quarantine cannot do on a node is no reason not to extend and release there.
func TestQuarantineDoesNotKeepFromExtending(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, n *testcluster.Node){
		"out of memory": func(t *testing.T, n *testcluster.Node) {
			t.Helper()
			admin(t, n, "CONFIG", "SET", "maxmemory", "1")
		},
		"marker of another type": func(t *testing.T, n *testcluster.Node) {
			t.Helper()
			// In one step, as the client connects meanwhile, and writes a marker that is missing.
			admin(t, n, "EVAL", `redis.call('DEL', KEYS[1]) return redis.call('RPUSH', KEYS[1], 'x')`, 1, testkit.MarkerKey)
		},
		"no INFO": func(t *testing.T, n *testcluster.Node) {
			t.Helper()
			admin(t, n, "ACL", "SETUSER", "default", "-info")
		},
	} {
		c := testcluster.RunServers(t, 1, testcluster.WithProxy(), testcluster.WithSnapshots())
		n := c.Nodes[0]
		r := newRedlock(t, c, redlock.WithNodeTimeout(patient), redlock.WithQuarantine(time.Minute))
		require.NoError(t, r.Admit(t.Context(), names(c)...))
		held := tryLock(t, r, []string{"held"}, time.Minute)
		admin(t, n, "SAVE")
		require.NoError(t, killOld(n))
		harm(t, n)
		await(t, patience, "the node is back", func() bool { return held.Extend(t.Context(), time.Minute) == nil })
		if name == "no INFO" {
			require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, r, []string{"x"}, time.Second), "the right to INFO")
		}
		require.NoError(t, held.Unlock(t.Context()), name)
		if name == "marker of another type" {
			require.NoError(t, r.Admit(t.Context(), names(c)...))
		}
	}
}

func behindMultiplexer(t *testing.T, name string, addr func() string) redlock.Node {
	t.Helper()
	p := testcluster.NewProxy(func(context.Context) (net.Conn, error) { return testcluster.DialHidden(addr), nil })
	t.Cleanup(p.Close)
	at, err := p.Listen()
	require.NoError(t, err)
	return redlock.Node{Name: name, Pool: redlock.NewNode(at).Pool}
}
