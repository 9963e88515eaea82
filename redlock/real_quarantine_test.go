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
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

const shortMaxTTL = 2 * time.Second

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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testcluster.RunServers(t, 3, testcluster.WithProxy())
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
			held, err := holder.TryLock(t.Context(), []string{"x"}, shortMaxTTL)
			require.NoError(t, err)
			await(t, 10*time.Second, "all nodes have the lock", func() bool {
				return len(keys(t, c.Nodes[0]))*len(keys(t, c.Nodes[1]))*len(keys(t, c.Nodes[2])) == 1
			})
			require.NoError(t, tc.lose(c.Nodes[0]))
			require.NoError(t, tc.lose(c.Nodes[1]))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			second, err := other.Lock(ctx, []string{"x"}, time.Second, WithRetryCount(-1), WithRetryDelay(5*time.Millisecond))
			require.NoError(t, err)
			if tc.without {
				assert.Less(t, second.start, held.Until(), "the violation")
			} else {
				assert.Greater(t, second.start, held.Until())
			}
		})
	}
}

func killEmpty(n *testcluster.Node) error {
	return errors.Join(n.Stop(), n.Restart(false))
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

// A restart that keeps the marker, but an old state of the data, is a restart.
func TestRealAnRDBRestartIsARestart(t *testing.T) {
	c := testcluster.RunServers(t, 1, testcluster.WithSnapshots())
	r := newRealRedlock(t, nodesOf(c), WithQuarantine(shortMaxTTL))
	require.NoError(t, r.Admit(t.Context(), names(c)...))
	_, err := adminConn(t, c.Nodes[0]).Do("SAVE")
	require.NoError(t, err)
	held, err := r.TryLock(t.Context(), []string{"x"}, shortMaxTTL)
	require.NoError(t, err)
	require.NoError(t, c.Nodes[0].Stop())
	require.NoError(t, c.Nodes[0].Restart(true))
	marker, ok, err := c.Nodes[0].Get(reservedMark + guardMark)
	require.NoError(t, err)
	require.True(t, ok, "the snapshot has the marker")
	require.Contains(t, marker, " 0 ")
	require.Empty(t, keys(t, c.Nodes[0]), "and not the lock")
	second, err := r.Lock(t.Context(), []string{"x"}, time.Second, WithRetryCount(-1), WithRetryDelay(5*time.Millisecond))
	require.NoError(t, err)
	assert.Greater(t, second.start, held.Until())
}

// A replica that takes over the address has its master's marker, and another run.
func TestRealAPromotedReplicaAbstains(t *testing.T) {
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
	conn := adminConn(t, replica)
	_, err = conn.Do("REPLICAOF", host, port)
	require.NoError(t, err)
	await(t, 30*time.Second, "the replica has the marker", func() bool {
		_, ok, failed := replica.Get(reservedMark + guardMark)
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
	assert.Greater(t, second.start, held.Until())
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
	require.Error(t, r.Admit(t.Context(), r.nodes[0].name))
}

// multiplexed puts a proxy before each server that keeps its clients' connections
// whatever becomes of the server: no client notices a restart.
func multiplexed(t *testing.T, c *testcluster.Cluster) []Node {
	t.Helper()
	nodes := make([]Node, len(c.Nodes))
	for i, n := range c.Nodes {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = ln.Close() })
		go func() {
			for {
				client, err := ln.Accept()
				if err != nil {
					return
				}
				go multiplex(client, n.DirectAddr())
			}
		}()
		nodes[i] = Node{Name: n.Name(), Pool: NewNode(ln.Addr().String()).Pool}
	}
	return nodes
}

// multiplex passes commands on one by one, each on a connection that works at the time.
func multiplex(client net.Conn, addr string) {
	defer func() { _ = client.Close() }()
	var server redis.Conn
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
			if server == nil {
				server, err = redis.Dial("tcp", addr, redis.DialConnectTimeout(time.Second))
			}
			if err == nil {
				reply, err = server.Do(args[0].(string), args[1:]...)
			}
			if err == nil || isReply(err) {
				break
			}
			if server != nil {
				_ = server.Close()
			}
			server = nil
			time.Sleep(10 * time.Millisecond)
		}
		if isReply(err) {
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

// A text that names a run may reach the next run of the server: by a client that looked at
// the run before the restart, through a proxy that hides it. It must not make the server
// believe that the run goes on, even where it has kept the marker.
func TestRealAStrayTextFindsTheRestart(t *testing.T) {
	c := testcluster.RunServers(t, 1, testcluster.WithSnapshots())
	n := c.Nodes[0]
	r := newRealRedlock(t, nodesOf(c), WithQuarantine(shortMaxTTL))
	require.NoError(t, r.Admit(t.Context(), names(c)...))
	_, err := adminConn(t, n).Do("SAVE")
	require.NoError(t, err)
	g := r.nodes[0].running
	require.Equal(t, "0", g.check(false))
	require.NoError(t, n.Stop())
	require.NoError(t, n.Restart(true))
	conn := adminConn(t, n)
	ask := func(verb string, program any, check string) (any, error) {
		return conn.Do(verb, program, 3, "x", "stone", g.marker, "token", 1000, 1, check, g.fingerprint, g.span)
	}
	script := g.scripts[lockScript]
	_, err = ask("EVALSHA", script.shaArg, "0")
	require.ErrorContains(t, err, "NOSCRIPT", "the server has forgotten it")
	for _, check := range []string{"load", "0", "0"} { // As another client does, and then this one.
		verb, program := "EVALSHA", script.shaArg
		if check == "load" {
			verb, program = "EVAL", script.sourceArg
		}
		abstained, failed := redis.Values(ask(verb, program, check))
		require.NoError(t, failed)
		assert.Equal(t, "Q", string(abstained[0].([]byte)))
	}
	require.Empty(t, keys(t, n))

	// Which is why it must not be loaded without a look.
	require.NoError(t, r.Close(t.Context())) // Or its handshake takes a look.
	require.NoError(t, n.Flush())
	require.NoError(t, n.FlushScripts())
	old := r.nodes[0].guard.marker.(string)
	require.NoError(t, n.Set(old, strings.Repeat("a", 40)+" 0 "+g.fingerprint.(string), time.Hour))
	stray := guardedScripts(strings.Repeat("a", 40))[lockScript]
	_, err = conn.Do("SCRIPT", "LOAD", stray.sourceArg)
	require.NoError(t, err)
	reply, err := ask("EVALSHA", stray.shaArg, "0")
	require.NoError(t, err)
	assert.EqualValues(t, 1, reply)
}
