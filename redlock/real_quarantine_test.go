package redlock

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// shortMaxTTL is for tests that wait until a quarantine is over, longMaxTTL for those in
// which it must not be, however slow the machine.
const (
	shortMaxTTL = 2 * time.Second
	longMaxTTL  = time.Minute
)

// Two of three nodes lose their data while a lock is held: by kill -9 or a flush. With
// quarantine nobody else gets the lock before it has ended, whatever is between client
// and server; without it somebody does.
func TestRealQuarantineKeepsOutASecondHolder(t *testing.T) {
	for name, tc := range map[string]struct {
		between func(t *testing.T, c *testcluster.Cluster) []Node
		lose    func(n *testcluster.Node) error
		without bool
	}{
		"direct":                 {nodesOfServers, killEmpty, false},
		"reconnecting proxy":     {proxied, killEmpty, false},
		"multiplexing proxy":     {multiplexed, killEmpty, false},
		"flushed":                {nodesOfServers, (*testcluster.Node).Flush, false},
		"without quarantine":     {nodesOfServers, killEmpty, true},
		"without, multiplexed":   {multiplexed, killEmpty, true},
		"without, only a flush":  {nodesOfServers, (*testcluster.Node).Flush, true},
		"flushed, multiplexed":   {multiplexed, (*testcluster.Node).Flush, false},
		"restart, multiplexed":   {multiplexed, func(n *testcluster.Node) error { return n.Restart(false) }, false},
		"restart, with a prefix": {nodesOfServers, killEmpty, false},
		"snapshot":               {nodesOfServers, killOld, false},
		"snapshot, multiplexed":  {multiplexed, killOld, false},
		"without, snapshot":      {multiplexed, killOld, true},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && strings.Contains(name, ", multiplexed") {
				t.Skip("each loss and each proxy once: not all pairs of them")
			}
			t.Parallel()
			c := testcluster.RunServers(t, 3, testcluster.WithProxy(), testcluster.WithSnapshots())
			opts := []Option{WithNodeTimeout(time.Second), WithPolling()}
			if !tc.without {
				opts = append(opts, WithQuarantine(shortMaxTTL))
			}
			if strings.Contains(name, "prefix") {
				opts = append(opts, WithPrefix("p:"))
			}
			nodes := tc.between(t, c)
			holder, other := newRealRedlock(t, nodes, opts...), newRealRedlock(t, nodes, opts...)
			if !tc.without {
				require.NoError(t, holder.Admit(t.Context(), names(c)...))
			}
			warm, err := other.TryLock(t.Context(), []string{"warm"}, time.Second) // Its scripts are loaded.
			require.NoError(t, err)
			require.NoError(t, warm.Unlock(t.Context()))
			for _, n := range c.Nodes {
				_, err = adminConn(t, n).Do("SAVE") // The marker, and no lock.
				require.NoError(t, err)
			}
			life := shortMaxTTL
			if tc.without {
				life = longMaxTTL // The violation comes at once, or as soon as the machine is able to.
			}
			held, err := holder.TryLock(t.Context(), []string{"x"}, life)
			require.NoError(t, err)
			await(t, 10*time.Second, "all nodes have the lock", func() bool {
				require.NoError(t, held.Extend(t.Context(), life))
				return len(keys(t, c.Nodes[0]))*len(keys(t, c.Nodes[1]))*len(keys(t, c.Nodes[2])) == 1
			})
			require.NoError(t, tc.lose(c.Nodes[0]))
			require.NoError(t, tc.lose(c.Nodes[1]))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			second, err := other.Lock(ctx, []string{"x"}, time.Second, WithRetryCount(-1), WithRetryDelay(5*time.Millisecond))
			require.NoError(t, err)
			if tc.without {
				assert.Less(t, StartOf(second), held.Until(), "the violation")
			} else {
				assert.Greater(t, StartOf(second), held.Until())
			}
		})
	}
}

func killEmpty(n *testcluster.Node) error {
	return errors.Join(n.Stop(), n.Restart(false))
}

// killOld leaves what the last snapshot has.
func killOld(n *testcluster.Node) error {
	return errors.Join(n.Stop(), n.Restart(true))
}

func proxied(_ *testing.T, c *testcluster.Cluster) []Node { return nodesOf(c) }

// nodesOfServers goes past the proxies.
func nodesOfServers(t *testing.T, c *testcluster.Cluster) []Node {
	t.Helper()
	nodes := make([]Node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = Node{Name: n.Name(), Pool: NewNode(n.DirectAddr()).Pool}
	}
	return nodes
}

// A restart that keeps the marker, but an old state of the data, is a restart. The holder's
// Redlock is closed before that: it would meet the new run before the marker is read here.
func TestRealAnRDBRestartIsARestart(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 1, testcluster.WithSnapshots())
	holder := newRealRedlock(t, nodesOf(c), WithQuarantine(shortMaxTTL))
	require.NoError(t, holder.Admit(t.Context(), names(c)...))
	_, err := adminConn(t, c.Nodes[0]).Do("SAVE")
	require.NoError(t, err)
	held, err := holder.TryLock(t.Context(), []string{"x"}, shortMaxTTL)
	require.NoError(t, err)
	require.NoError(t, holder.Close(t.Context())) // It keeps what is held.
	require.NoError(t, killOld(c.Nodes[0]))
	require.True(t, markerOf(t, c.Nodes[0]).Votes, "the snapshot has the marker")
	require.Empty(t, keys(t, c.Nodes[0]), "and not the lock")
	other := newRealRedlock(t, nodesOf(c), WithQuarantine(shortMaxTTL))
	second, err := other.Lock(t.Context(), []string{"x"}, time.Second, WithRetryCount(-1), WithRetryDelay(5*time.Millisecond))
	require.NoError(t, err)
	assert.Greater(t, StartOf(second), held.Until())
}

// A replica that takes over the address has its master's marker, and another run.
func TestRealAPromotedReplicaAbstains(t *testing.T) {
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
	r := newRealRedlock(t, []Node{{"node", pool}}, WithQuarantine(shortMaxTTL))
	require.NoError(t, r.Admit(t.Context(), "node"))
	host, port, err := net.SplitHostPort(master.DirectAddr())
	require.NoError(t, err)
	admin(t, master, "CONFIG", "SET", "repl-diskless-sync-delay", "0") // Else it waits 5 s for further replicas.
	conn := adminConn(t, replica)
	_, err = conn.Do("REPLICAOF", host, port)
	require.NoError(t, err)
	await(t, 30*time.Second, "the replica has the marker", func() bool {
		_, ok, failed := replica.Get(MarkerKey)
		return failed == nil && ok
	})
	_, err = conn.Do("REPLICAOF", "NO", "ONE") // From here on it misses what the master gets.
	require.NoError(t, err)
	held, err := r.TryLock(t.Context(), []string{"x"}, shortMaxTTL)
	require.NoError(t, err)
	mu.Lock()
	at = replica
	mu.Unlock()
	require.NoError(t, master.Stop())
	second, err := r.Lock(t.Context(), []string{"x"}, time.Second, WithRetryCount(-1), WithRetryDelay(5*time.Millisecond))
	require.NoError(t, err)
	assert.Greater(t, StartOf(second), held.Until())
}

// A user without the right to INFO gets no lock, and is told why.
func TestRealQuarantineTakesTheRightToInfo(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	_, err := adminConn(t, c.Nodes[0]).Do("ACL", "SETUSER", "locker", "on", ">pw", "+@all", "-info", "~*")
	require.NoError(t, err)
	r := newRealRedlock(t, []Node{NewNode("redis://locker:pw@" + c.Nodes[0].Addr())}, WithQuarantine(shortMaxTTL))
	_, err = r.TryLock(t.Context(), []string{"x"}, time.Second)
	require.ErrorIs(t, err, ErrNoQuorum)
	require.ErrorContains(t, err, "the right to INFO")
	require.Error(t, r.Admit(t.Context(), NodesIn(r)[0].Name))
}

// multiplexed puts a proxy before each server that keeps its clients' connections
// whatever becomes of the server: no client notices a restart.
func multiplexed(t *testing.T, c *testcluster.Cluster) []Node {
	t.Helper()
	nodes := make([]Node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = behindMultiplexer(t, n.Name(), n.DirectAddr)
	}
	return nodes
}

func behindMultiplexer(t *testing.T, name string, addr func() string) Node {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			go multiplex(client, addr)
		}
	}()
	return Node{Name: name, Pool: NewNode(ln.Addr().String()).Pool}
}

// multiplex passes commands on one by one, each on a connection that works at the time.
func multiplex(client net.Conn, addr func() string) {
	defer func() { _ = client.Close() }()
	var server redis.Conn
	at := ""
	defer func() {
		if server != nil {
			_ = server.Close()
		}
	}()
	in := bufio.NewReader(client)
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		var reply any
		for range 500 {
			if now := addr(); server == nil || now != at {
				if server != nil {
					_ = server.Close()
				}
				at = now
				server, err = redis.Dial("tcp", at, redis.DialConnectTimeout(time.Second))
			}
			if err == nil {
				reply, err = server.Do(args[0].(string), args[1:]...)
			}
			if err == nil || conn.IsReply(err) {
				break
			}
			if server != nil {
				_ = server.Close()
				server = nil
			}
			time.Sleep(10 * time.Millisecond)
		}
		if conn.IsReply(err) {
			reply = err
		}
		if _, err := io.WriteString(client, resp(reply)); err != nil {
			return
		}
	}
}

func readCommand(in *bufio.Reader) ([]any, error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	if err != nil {
		return nil, err
	}
	args := make([]any, n)
	for i := range args {
		length, err := number()
		if err != nil {
			return nil, err
		}
		text := make([]byte, length+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:length])
	}
	return args, nil
}

// resp writes a reply of redigo's as the server had sent it.
func resp(reply any) string {
	switch r := reply.(type) {
	case nil:
		return "$-1\r\n"
	case int64:
		return ":" + strconv.FormatInt(r, 10) + "\r\n"
	case string:
		return "+" + r + "\r\n"
	case []byte:
		return "$" + strconv.Itoa(len(r)) + "\r\n" + string(r) + "\r\n"
	case error:
		return "-" + r.Error() + "\r\n"
	case []any:
		text := "*" + strconv.Itoa(len(r)) + "\r\n"
		for _, v := range r {
			text += resp(v)
		}
		return text
	}
	return "-ERR unexpected reply\r\n"
}

// A client of another configuration must not have the next run believe that it is the
// last one.
func TestRealARefusedClientDoesNotHideARestart(t *testing.T) {
	c := testcluster.RunServers(t, 1, testcluster.WithSnapshots())
	n := c.Nodes[0]
	node := behindMultiplexer(t, "node", n.DirectAddr)
	open := func(nodes ...Node) *Redlock {
		return newRealRedlock(t, nodes, WithPolling(), WithQuarantine(longMaxTTL))
	}
	holder, second := open(node), open(node)
	alien := open(node, behindMultiplexer(t, "again", n.DirectAddr))
	require.NoError(t, holder.Admit(t.Context(), "node"))
	warm, err := second.TryLock(t.Context(), []string{"warm"}, time.Second)
	require.NoError(t, err)
	require.NoError(t, warm.Unlock(t.Context()))
	_, err = alien.TryLock(t.Context(), []string{"x"}, time.Second)
	require.ErrorContains(t, err, "set up for clients with 1 nodes")
	_, err = adminConn(t, n).Do("SAVE")
	require.NoError(t, err)
	_, err = holder.TryLock(t.Context(), []string{"x"}, longMaxTTL)
	require.NoError(t, err)
	require.NoError(t, killOld(n))
	_, err = alien.TryLock(t.Context(), []string{"x"}, time.Second)
	require.ErrorContains(t, err, "set up for clients with 1 nodes")
	_, err = second.TryLock(t.Context(), []string{"x"}, time.Second)
	require.ErrorContains(t, err, "quarantined")
}

// Nor must a replica that refuses writes, before it is promoted.
func TestRealAReplicaThatIsAskedTooEarlyAbstains(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 2)
	master, replica := c.Nodes[0], c.Nodes[1]
	var at atomic.Value
	at.Store(master.DirectAddr())
	node := behindMultiplexer(t, "node", func() string { return at.Load().(string) })
	holder := newRealRedlock(t, []Node{node}, WithPolling(), WithQuarantine(longMaxTTL))
	other := newRealRedlock(t, []Node{node}, WithPolling(), WithQuarantine(longMaxTTL))
	require.NoError(t, holder.Admit(t.Context(), "node"))
	warm, err := other.TryLock(t.Context(), []string{"warm"}, time.Second)
	require.NoError(t, err)
	require.NoError(t, warm.Unlock(t.Context()))
	host, port, err := net.SplitHostPort(master.DirectAddr())
	require.NoError(t, err)
	admin(t, master, "CONFIG", "SET", "repl-diskless-sync-delay", "0") // Else it waits 5 s for further replicas.
	conn := adminConn(t, replica)
	_, err = conn.Do("REPLICAOF", host, port)
	require.NoError(t, err)
	await(t, 30*time.Second, "the replica has the marker", func() bool {
		_, ok, failed := replica.Get(MarkerKey)
		return failed == nil && ok
	})
	require.NoError(t, master.Stop())
	at.Store(replica.DirectAddr())
	_, err = other.TryLock(t.Context(), []string{"y"}, time.Second)
	require.ErrorContains(t, err, "READONLY")
	_, err = conn.Do("REPLICAOF", "NO", "ONE")
	require.NoError(t, err)
	await(t, 10*time.Second, "it is connected to again", func() bool {
		_, err = other.TryLock(t.Context(), []string{"x"}, time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		return !strings.Contains(err.Error(), "READONLY")
	})
	require.ErrorContains(t, err, "quarantined")
}

// An Admit that was given up, but is carried out late, is not for the next run.
func TestRealALateAdmitIsNotForTheNextRun(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	node := behindMultiplexer(t, "node", n.DirectAddr)
	r := newRealRedlock(t, []Node{node}, WithPolling(), WithQuarantine(longMaxTTL))
	require.NoError(t, r.Admit(t.Context(), "node"))
	require.NoError(t, n.Stop())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.Admit(ctx, "node"), context.DeadlineExceeded)
	require.NoError(t, n.Restart(false))
	_, err := r.TryLock(t.Context(), []string{"x"}, time.Second) // Behind it on the connection.
	require.ErrorContains(t, err, "quarantined")

	conn := adminConn(t, n)
	stale, err := redis.Int(conn.Do("EVAL", quarantine.AdmitScript.Source, 1, MarkerKey, strings.Repeat("ab", 20), "1", 2000))
	require.NoError(t, err)
	require.Zero(t, stale)
}

// What quarantine cannot do on a node is no reason not to extend and release there.
func TestRealQuarantineDoesNotKeepFromExtending(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, n *testcluster.Node){
		"out of memory": func(t *testing.T, n *testcluster.Node) {
			t.Helper()
			admin(t, n, "CONFIG", "SET", "maxmemory", "1")
		},
		"marker of another type": func(t *testing.T, n *testcluster.Node) {
			t.Helper()
			// In one step, as the client connects meanwhile, and writes a marker that is missing.
			admin(t, n, "EVAL", `redis.call('DEL', KEYS[1]) return redis.call('RPUSH', KEYS[1], 'x')`, 1, MarkerKey)
		},
		"no INFO": func(t *testing.T, n *testcluster.Node) {
			t.Helper()
			admin(t, n, "ACL", "SETUSER", "default", "-info")
		},
	} {
		c := testcluster.RunServers(t, 1, testcluster.WithProxy(), testcluster.WithSnapshots())
		n := c.Nodes[0]
		r := newRedlock(t, c, WithNodeTimeout(patient), WithQuarantine(time.Minute))
		require.NoError(t, r.Admit(t.Context(), names(c)...))
		held, err := r.TryLock(t.Context(), []string{"held"}, time.Minute)
		require.NoError(t, err)
		_, err = adminConn(t, n).Do("SAVE")
		require.NoError(t, err)
		require.NoError(t, killOld(n))
		harm(t, n)
		await(t, 20*time.Second, "the node is back", func() bool { return held.Extend(t.Context(), time.Minute) == nil })
		require.NoError(t, held.Unlock(t.Context()), name)
		if name == "marker of another type" {
			require.NoError(t, r.Admit(t.Context(), names(c)...))
		}
	}
}

// The texts of a run are learnt by an EVAL that looks, so that one that comes to another
// run has corrected the marker; and what a server has forgotten is not taught again.
func TestRealATextOfAnEarlierRun(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	r := newRealRedlock(t, nodesOf(c), WithQuarantine(longMaxTTL))
	require.NoError(t, r.Admit(t.Context(), names(c)...))
	l, err := r.TryLock(t.Context(), []string{"warm"}, time.Second)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
	require.NotNil(t, NodesIn(r)[0].Speaks().(*quarantine.ConnDialect).Fast(LockScript))
	conn := adminConn(t, n)
	known := func(s *node.Script) bool {
		found, failed := redis.Ints(conn.Do("SCRIPT", "EXISTS", s.Hash))
		require.NoError(t, failed)
		return found[0] == 1
	}
	require.True(t, known(NodesIn(r)[0].Speaks().(*quarantine.ConnDialect).Fast(LockScript)))
	require.NoError(t, n.FlushScripts())
	l, err = r.TryLock(t.Context(), []string{"x"}, time.Second)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
	assert.False(t, known(NodesIn(r)[0].Speaks().(*quarantine.ConnDialect).Fast(LockScript)))
	assert.True(t, known(GrantingScripts.Slow(LockScript)))

	earlier := strings.Repeat("ab", 20)
	nodes, maxTTL := "1", longMaxTTL.Milliseconds()
	require.NoError(t, n.Set(MarkerKey, earlier+" votes "+nodes+" 2000 0", time.Hour))
	stray := GrantingScripts.Fast(earlier, MarkerKey, nodes)[LockScript]
	other := GrantingScripts.Fast(earlier, "p:"+MarkerKey, nodes)[LockScript]
	require.NotEqual(t, stray.Hash, other.Hash, "or it would hide the restart from clients with another prefix")
	ask := func(verb string, program any, look string) any {
		reply, failed := conn.Do(verb, program, 3, "x", "stone", MarkerKey, "token", 1000, 1, look, nodes, maxTTL)
		require.NoError(t, failed)
		return reply
	}
	for _, look := range []string{"1", "0"} {
		answer, ok := ask("EVAL", stray.Source, look).([]any)
		require.True(t, ok)
		assert.Equal(t, "Q", string(answer[0].([]byte)))
	}
	require.Empty(t, keys(t, n))
	state, _, err := n.Get(MarkerKey)
	require.NoError(t, err)
	assert.NotContains(t, state, earlier)
}

// A node that hears of a larger maxTTL abstains at once, also if it has forgotten it since
// the client with it connected; and each client has its way with the texts of the run.
func TestRealALargerMaxTTLIsHeardOfInEveryRequest(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	small := newRealRedlock(t, nodesOf(c), WithPolling(), WithQuarantine(longMaxTTL))
	large := newRealRedlock(t, nodesOf(c), WithPolling(), WithQuarantine(time.Hour))
	require.NoError(t, small.Admit(t.Context(), names(c)...))
	try := func(r *Redlock) error {
		l, err := r.TryLock(t.Context(), []string{"x"}, time.Second)
		if err == nil {
			err = l.Unlock(t.Context())
		}
		return err
	}
	for range 3 { // The first time, large connects.
		require.NoError(t, try(large))
		require.NotNil(t, NodesIn(large)[0].Speaks().(*quarantine.ConnDialect).Fast(LockScript))
		require.Equal(t, time.Hour, markerOf(t, n).MaxTTL)
		require.NoError(t, try(small))
		require.NoError(t, small.Admit(t.Context(), names(c)...))
		require.Equal(t, longMaxTTL, markerOf(t, n).MaxTTL)
	}
	require.NoError(t, n.Flush())
	require.ErrorContains(t, try(small), "quarantined")
	require.ErrorContains(t, try(large), "quarantined for another 1h0m")
	require.ErrorContains(t, try(small), "quarantined for another 1h0m")
	require.ErrorIs(t, small.Stats().Nodes[0].Abstains, ErrQuarantined)
	report, err := small.Check(t.Context())
	require.NoError(t, err)
	require.Equal(t, VerdictWarning, found(t, report, n.Name(), "quarantine").Verdict)
	require.NoError(t, large.Admit(t.Context(), names(c)...))
	require.NoError(t, try(small))
	report, err = small.Check(t.Context())
	require.NoError(t, err)
	require.Contains(t, found(t, report, n.Name(), "quarantine").Text, "abstains for 1h0m0s after a restart")
}

// A server that refuses writes does not even cache a text that names a run.
func TestRealARefusedLookLeavesNoText(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	conn := adminConn(t, n)
	text := GrantingScripts.Fast(strings.Repeat("ab", 20), "marker", "1")[LockScript]
	known := func() int {
		found, err := redis.Ints(conn.Do("SCRIPT", "EXISTS", text.Hash))
		require.NoError(t, err)
		return found[0]
	}
	for setting, values := range map[string][2]string{"maxmemory": {"1", "0"}, "min-replicas-to-write": {"1", "0"}} {
		admin(t, n, "CONFIG", "SET", setting, values[0])
		_, err := conn.Do("EVAL", text.Source, 1, "marker", "1", "1", shortMaxTTL.Milliseconds())
		require.Error(t, err, setting)
		assert.Zero(t, known(), setting)
		admin(t, n, "CONFIG", "SET", setting, values[1])
	}
	_, err := conn.Do("REPLICAOF", "127.0.0.1", "1")
	require.NoError(t, err)
	_, err = conn.Do("EVAL", text.Source, 1, "marker", "1", "1", shortMaxTTL.Milliseconds())
	require.ErrorContains(t, err, "READONLY")
	assert.Zero(t, known())
	_, err = conn.Do("REPLICAOF", "NO", "ONE")
	require.NoError(t, err)
	_, err = conn.Do("EVAL", text.Source, 1, "marker", "1", "1", shortMaxTTL.Milliseconds())
	require.NoError(t, err)
	assert.Equal(t, 1, known())
}
