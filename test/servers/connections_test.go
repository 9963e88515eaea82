package servers

import (
	"context"
	"fmt"
	"runtime"
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
	secure := append(user, redis.DialTLSConfig(cert.Client()))
	pool := func(network, addr string, opts ...redis.DialOption) redlock.Pool {
		p := &redis.Pool{MaxIdle: 3, DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, network, addr, opts...)
		}}
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	for name, way := range map[string]func(n *testcluster.Node) redlock.Pool{
		"address, TLS": func(n *testcluster.Node) redlock.Pool {
			return redlock.NewNode("rediss://"+n.TLSAddr(), secure...).Pool
		},
		"address, socket": func(n *testcluster.Node) redlock.Pool { return redlock.NewNode("unix://"+n.Socket(), user...).Pool },
		"pool, TLS": func(n *testcluster.Node) redlock.Pool {
			return pool("tcp", n.TLSAddr(), append(secure, redis.DialUseTLS(true))...)
		},
		"pool, socket": func(n *testcluster.Node) redlock.Pool { return pool("unix", n.Socket(), user...) },
		"pool":         func(n *testcluster.Node) redlock.Pool { return pool("tcp", n.Addr(), user...) },
	} {
		t.Run(name, func(t *testing.T) {
			nodes := nodesBy(c, func(n *testcluster.Node) redlock.Node { return redlock.Node{Name: n.Name(), Pool: way(n)} })
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

// A proxy speaks TLS in front of servers, which need not be able to.
func TestTLSInFrontOfNodes(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	cert := certificate(t)
	var addrs []string
	for _, n := range c.Nodes {
		addr, err := n.Proxy().ListenTLS(cert.Server())
		require.NoError(t, err)
		addrs = append(addrs, addr)
	}
	over := func(scheme string, opts ...redis.DialOption) *redlock.Redlock {
		var all []redlock.Node
		for _, a := range addrs {
			all = append(all, redlock.NewNode(scheme+a, opts...))
		}
		return newPatient(t, all)
	}
	requireServes(t, c, over("rediss://", redis.DialTLSConfig(cert.Client())))

	// Who does not trust the certificate must not get through.
	r := over("rediss://")
	await(t, patience, "the certificate is blamed", func() bool { // At first the handshake may take too long.
		err := refusal(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Minute)
		return strings.Contains(err.Error(), "certificate")
	})
	err := refusal(t, redlock.ErrNoQuorum, over("redis://"), []string{"a"}, time.Minute) // In plain text.
	require.Regexp(t, `the port speaks TLS|it may expect TLS`, err.Error())
}

// requireServes checks every operation, and that a connection that the servers
// have closed is replaced.
func requireServes(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
	t.Helper()
	for round := range 2 {
		awaitAll(t, c, r, patience)
		for range 5 {
			l := waitLock(t, r, []string{"a", "b"}, time.Minute)
			refused(t, redlock.ErrTaken, r, []string{"b"}, time.Minute)
			require.NoError(t, l.Extend(t.Context(), 2*time.Minute))
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
	n := testcluster.RunServers(t, 1).Nodes[0]
	p := n.Pool()
	before := runtime.NumGoroutine()
	r := newOver(t, []redlock.Node{{Name: n.Name(), Pool: p}}, redlock.WithNodeTimeout(time.Second))
	require.LessOrEqual(t, runtime.NumGoroutine(), before, "New does nothing yet")
	for range 20 {
		cycle(t, r, "a", time.Minute)
	}
	require.Equal(t, []int{1, 0}, []int{p.ActiveCount(), p.IdleCount()})
	require.NoError(t, r.Close(context.Background()))
	require.Equal(t, []int{1, 1}, []int{p.ActiveCount(), p.IdleCount()})
	conn := p.Get()
	echo, err := redis.String(conn.Do("ECHO", "mine"))
	require.NoError(t, err)
	require.Equal(t, "mine", echo, "no reply was left on it")
	require.NoError(t, conn.Close())
	await(t, patience, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
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

	require.NoError(t, n.Hang())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	_, err := r.TryLock(ctx, []string{"a"}, ttl)
	cancel()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, n.Resume())
	awaitNoKeys(t, c)
	callAlone(t, r, readers)

	admin(t, n, "CLIENT", "KILL", "TYPE", "normal")
	cycle(t, r, "a", ttl) // Whether the reader rests or not.
	callAlone(t, r, readers)
	assert.Zero(t, r.Stats().Nodes[0].Unknown)

	require.NoError(t, n.Stop())
	refused(t, redlock.ErrNoQuorum, r, []string{"a"}, ttl, redlock.WithNodeTimeout(50*time.Millisecond))
	require.NoError(t, n.Restart(false))
	awaitAll(t, c, r, patience)
	callAlone(t, r, readers)
	awaitNoKeys(t, c)
}
