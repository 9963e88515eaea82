package servers

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Whatever the way to the servers is, a pool of the user's and an address serve alike: TLS, with clients that have a
// certificate, plain text and a Unix socket.
func TestConnectionsOfEveryKind(t *testing.T) {
	t.Parallel()
	cert := certificate(t)
	c := testcluster.RunServers(t, 3, testcluster.WithUnixSocket(), testcluster.WithTLS(cert), testcluster.WithArgs("--tls-auth-clients", "yes"))
	for _, n := range c.Nodes {
		setUser(t, n, "locker", append(leastPrivilege, "~*")...)
	}
	user := []redis.DialOption{redis.DialUsername("locker"), redis.DialPassword(secret)}
	secure := []redis.DialOption{redis.DialUseTLS(true), redis.DialTLSConfig(cert.Client())}
	pool := func(network, addr string, opts ...redis.DialOption) redlock.Pool {
		p := &redis.Pool{MaxIdle: 3, DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, network, addr, opts...)
		}}
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	for name, way := range map[string]func(i int) redlock.Pool{
		"address, TLS": func(i int) redlock.Pool {
			return redlock.NewNode("rediss://"+c.Nodes[i].TLSAddr(), redis.DialTLSConfig(cert.Client())).Pool
		},
		"address, TLS, user": func(i int) redlock.Pool {
			return redlock.NewNode("rediss://"+c.Nodes[i].TLSAddr(), slices.Concat(user, []redis.DialOption{redis.DialTLSConfig(cert.Client())})...).Pool
		},
		"address, socket, user": func(i int) redlock.Pool { return redlock.NewNode("unix://"+c.Nodes[i].Socket(), user...).Pool },
		"pool, TLS":             func(i int) redlock.Pool { return pool("tcp", c.Nodes[i].TLSAddr(), secure...) },
		"pool, TLS, user":       func(i int) redlock.Pool { return pool("tcp", c.Nodes[i].TLSAddr(), slices.Concat(secure, user)...) },
		"pool, socket":          func(i int) redlock.Pool { return pool("unix", c.Nodes[i].Socket()) },
		"pool, socket, user":    func(i int) redlock.Pool { return pool("unix", c.Nodes[i].Socket(), user...) },
		"pool, user":            func(i int) redlock.Pool { return pool("tcp", c.Nodes[i].Addr(), user...) },
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []redlock.Node
			for i, n := range c.Nodes {
				nodes = append(nodes, redlock.Node{Name: n.Name() + strconv.Itoa(i), Pool: way(i)})
			}
			requireServes(t, c, newPatient(t, nodes))
		})
	}
}

func certificate(t *testing.T) *testcluster.Certificate {
	t.Helper()
	c, err := testcluster.NewCertificate()
	require.NoError(t, err)
	return c
}

// terminateTLS speaks TLS in front of a server, which need not be able to, and
// returns where.
func terminateTLS(t *testing.T, n *testcluster.Node, cert *testcluster.Certificate) string {
	t.Helper()
	addr, err := n.Proxy().ListenTLS(cert.Server())
	require.NoError(t, err)
	return addr
}

func TestTLSInFrontOfNodes(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	cert := certificate(t)
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, terminateTLS(t, n, cert))
	}
	nodes := func(opts ...redis.DialOption) (all []redlock.Node) {
		for _, a := range addrs {
			all = append(all, redlock.NewNode("rediss://"+a, opts...))
		}
		return all
	}
	r := newPatient(t, nodes(redis.DialTLSConfig(cert.Client())))
	requireServes(t, c, r)
	for i, s := range r.Stats().Nodes {
		require.Equal(t, addrs[i], s.Node)
	}
	requireServes(t, c, newPatient(t, nodes(redis.DialTLSSkipVerify(true))))

	// Who does not trust the certificate must not get through.
	r = newPatient(t, nodes())
	await(t, patience, "the certificate is blamed", func() bool { // At first the handshake may take too long.
		err := refusal(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Minute)
		return strings.Contains(err.Error(), "certificate")
	})
}

// TLS in front of a server, spoken to in plain text.
func TestTLSThatAPortWantsIsNamed(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	r := newPatient(t, []redlock.Node{redlock.NewNode(terminateTLS(t, c.Nodes[0], certificate(t)))})
	err := refusal(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Minute)
	require.Regexp(t, `the port speaks TLS|it may expect TLS`, err.Error())
}

// requireServes checks every operation, and that a connection that the servers
// have closed is replaced.
func requireServes(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
	t.Helper()
	for round := range 2 {
		awaitAll(t, c, r, patience)
		for range 20 {
			l := waitLock(t, r, []string{"a", "b"}, time.Minute)
			refused(t, redlock.ErrTaken, r, []string{"b"}, time.Minute)
			require.NoError(t, l.Extend(t.Context(), 2*time.Minute))
			in, err := r.Inspect(t.Context(), "a")
			require.NoError(t, err)
			require.True(t, in.Held)
			require.NoError(t, l.Unlock(t.Context()))
		}
		if round == 0 {
			for _, n := range c.Nodes {
				admin(t, n, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			}
		}
	}
	awaitNoKeys(t, c)
}

// A pool's read timeout is about replies that somebody waits for. On a
// connection on which nobody does it must not count.
func TestPoolConnectionThatIsIdleOutlivesTheReadTimeout(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	r := newPatient(t, nodesBy(c, func(n *testcluster.Node) redlock.Node {
		p := &redis.Pool{Dial: dialler(n, redis.DialReadTimeout(50*time.Millisecond))}
		t.Cleanup(func() { _ = p.Close() })
		return redlock.Node{Name: n.Name(), Pool: p}
	}))
	awaitAll(t, c, r, patience)
	before := connects(r)
	for range 2 {
		rest(t.Context(), time.Second)
		cycle(t, r, "a", time.Minute)
	}
	require.Equal(t, before, connects(r), "no connection was made since")
}

// What real servers answer: the wrong database is found; a user who may not MOVE, so that
// it is not known, is let in. An address is in the database that it names, or else the dial options.
func TestDatabaseOfAPool(t *testing.T) {
	c := testcluster.RunServers(t, 1, testcluster.WithUnixSocket())
	n := c.Nodes[0]
	p := n.Pool()
	selecting(t, p, 1)
	r := newPatient(t, []redlock.Node{{Name: "a", Pool: p}})
	require.ErrorContains(t, refusal(t, redlock.ErrNoQuorum, r, []string{"x"}, time.Minute), "the pool's connection is in database 1, not 0")
	awaitAll(t, c, r, patience)

	dialled := newPatient(t, []redlock.Node{{Name: "a", Pool: n.Pool(redis.DialDatabase(3))}})
	cycle(t, dialled, "x", time.Minute)

	admin(t, n, "ACL", "SETUSER", "locker", "on", ">pw", "+@all", "-move", "~*", "&*")
	user := newPatient(t, []redlock.Node{{Name: "a", Pool: n.Pool(redis.DialUsername("locker"), redis.DialPassword("pw"))}})
	cycle(t, user, "x", time.Minute)
	assert.Empty(t, keys(t, n))

	for _, addressed := range []redlock.Node{
		redlock.NewNode("redis://" + n.Addr() + "?db=5"), redlock.NewNode("unix://" + n.Socket() + "?db=5"), redlock.NewNode(n.Addr(), redis.DialDatabase(5)),
	} {
		l := tryLock(t, newPatient(t, []redlock.Node{addressed}), []string{"x"}, time.Minute)
		stored, err := redis.String(adminConn(t, n, redis.DialDatabase(5)).Do("GET", "x"))
		require.NoError(t, err, addressed.Name)
		require.Equal(t, l.Token(), stored)
		require.NoError(t, l.Unlock(t.Context()))
	}
}

// It is not parallel: it counts goroutines.
func TestPoolGetsItsConnectionsBackFromClose(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	var nodes []redlock.Node
	var pools []*redis.Pool
	for _, n := range c.Nodes {
		p := n.Pool()
		pools, nodes = append(pools, p), append(nodes, redlock.Node{Name: n.Name(), Pool: p})
	}
	before := runtime.NumGoroutine()
	r := newOver(t, nodes, redlock.WithNodeTimeout(time.Second))
	require.LessOrEqual(t, runtime.NumGoroutine(), before, "New does nothing yet")
	awaitAll(t, c, r, patience)
	for range 20 {
		cycle(t, r, "a", time.Minute)
	}
	for _, p := range pools {
		require.Equal(t, 1, p.ActiveCount())
		require.Zero(t, p.IdleCount())
	}
	require.NoError(t, r.Close(context.Background()))
	for i, p := range pools {
		require.Equal(t, 1, p.ActiveCount())
		require.Equal(t, 1, p.IdleCount())
		conn := p.Get()
		require.Equal(t, 1, p.ActiveCount(), "it is the same connection")
		pong, pingErr := redis.String(conn.Do("PING"))
		require.NoError(t, pingErr)
		require.Equal(t, "PONG", pong)
		echo, echoErr := redis.String(conn.Do("ECHO", c.Nodes[i].Name()))
		require.NoError(t, echoErr)
		require.Equal(t, c.Nodes[i].Name(), echo, "no reply was left on it")
		require.NoError(t, conn.Close())
	}
	await(t, patience, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
	refused(t, redlock.ErrClosed, r, []string{"a"}, time.Minute)
	awaitNoKeys(t, c)
}

// The server has no place for a second connection.
func TestConnectionAgeAndMaxClients(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 1)
	r := newRedlock(t, c, redlock.WithConnectionAge(100*time.Millisecond), redlock.WithNodeTimeout(patient))
	cycle(t, r, "a", ttl)
	admin(t, c.Nodes[0], "CONFIG", "SET", "maxclients", 1)
	before := connects(r)
	await(t, time.Minute, "an attempt", func() bool { return connects(r) > before })
	cycle(t, r, "a", ttl)
	assert.True(t, r.Stats().Nodes[0].Up)
}

// callAlone has a caller that is alone call until it reads by itself. It comes to that soon, but a busy machine may let
// it pause.
func callAlone(t *testing.T, r *redlock.Redlock, readers *testkit.Readers) {
	t.Helper()
	for range 100 {
		readers.Take()
		cycle(t, r, "alone", ttl)
		if callers, others := readers.Take(); callers > 0 && others == 0 {
			return
		}
	}
	require.Fail(t, "others read all the time")
}

// A caller that is alone on a server writes and reads by itself: if others come, if it gives up, if the server hangs or ends
// the connection, also between two calls, and if it restarts.
func TestAloneOnAServer(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	nodes, readers := testkit.ReadBy(c)
	r := newOver(t, nodes, redlock.WithNodeTimeout(10*time.Second))
	callAlone(t, r, readers)

	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			for j := range rounds(2000, 200) {
				cycle(t, r, fmt.Sprint(i), ttl)
				if j%20 == 0 {
					rest(t.Context(), time.Duration(i)*time.Millisecond) // The others are alone, now and then.
				}
			}
		})
	}
	all.Wait()
	callAlone(t, r, readers)
	assert.EqualValues(t, 1, connects(r))

	for range 3 {
		require.NoError(t, n.Hang())
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := r.TryLock(ctx, []string{"a"}, ttl)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Less(t, time.Since(began), 10*time.Second)
		require.NoError(t, n.Resume())
		awaitNoKeys(t, c)
		callAlone(t, r, readers)
	}

	for range 3 {
		admin(t, n, "CLIENT", "KILL", "TYPE", "normal")
		cycle(t, r, "a", ttl) // Whether the reader rests or not.
		callAlone(t, r, readers)
	}
	assert.Zero(t, r.Stats().Nodes[0].Unknown)

	require.NoError(t, n.Stop())
	_, err := r.TryLock(t.Context(), []string{"a"}, ttl, redlock.WithNodeTimeout(50*time.Millisecond))
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.NoError(t, n.Restart(false))
	awaitAll(t, c, r, patience)
	callAlone(t, r, readers)
	awaitNoKeys(t, c)
}
