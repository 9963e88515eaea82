package servers

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
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

// The servers hang up on clients that say nothing for a second. Clients with
// idle times of all kinds, so also ones that end while the server hangs up,
// get their next lock all the same.
func TestConnectionsThatAreIdleAndClosedByServers(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithArgs("--timeout", "1"))
	const total = 12
	var users sync.WaitGroup
	var made atomic.Int64
	for i := range total {
		r := newRedlock(t, c, redlock.WithNodeTimeout(patient))
		idle := 1500*time.Millisecond + time.Duration(i)*100*time.Millisecond
		users.Go(func() {
			for round := range rounds(3, 2) {
				if round > 0 {
					rest(t.Context(), idle)
				}
				l, err := r.Lock(t.Context(), []string{fmt.Sprint("r", i)}, time.Minute, redlock.WithRetryCount(1), redlock.WithRetryDelay(50*time.Millisecond))
				// Some lose their connections in this very moment, but the first retry works.
				if err == nil && l.Unlock(t.Context()) != nil {
					err = l.Unlock(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
			made.Add(connects(r))
		})
	}
	users.Wait()
	assert.Greater(t, made.Load(), int64(len(c.Nodes)*total), "servers have hung up")
	awaitNoKeys(t, c)
}
