package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/tables"
)

const (
	benchPassword = "cold"

	// coldAtOnce is how many first locks are taken at the same time: more would measure
	// the processor, which TLS keeps busy.
	coldAtOnce = 5
)

// A firstLock connects and locks as a new process does.
type firstLock func(addrs []string, withTLS bool, ttl time.Duration, key string) error

// coldStart measures the first lock of a process: connecting, TLS, AUTH, handshake, lock.
func coldStart(s settings, out *section, cluster *testcluster.Cluster) (err error) {
	cert, err := testcluster.NewCertificate()
	if err != nil {
		return err
	}
	plain, secure := cluster.Addrs(), make([]string, len(cluster.Nodes))
	for i, n := range cluster.Nodes {
		if secure[i], err = n.Proxy().ListenTLS(cert.Server()); err != nil {
			return err
		}
	}
	t := tables.New(fmt.Sprintf("The first lock of a process, with a password: %d of each", s.trials),
		"round trip", "TLS", "client", "succeeded", "longest ms")
	for _, trip := range []time.Duration{0, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond} {
		if err = errors.Join(coldStarts(s, plain, trip, false, t), coldStarts(s, secure, trip, true, t)); err != nil {
			return err
		}
	}
	return out.table(t)
}

func coldStarts(s settings, nodes []string, trip time.Duration, withTLS bool, t *tables.Table) error {
	addrs, end, err := farAway(nodes, trip)
	defer end()
	if err != nil {
		return err
	}
	for _, client := range []struct {
		name string
		lock firstLock
	}{{"redlock", coldRedlock}, {"redsync", coldRedsync}} {
		good, longest := firstLocks(s.trials, func(i int) error {
			return client.lock(addrs, withTLS, s.ttl, fmt.Sprintf("cold:%s:%v:%t:%d", client.name, trip, withTLS, i))
		})
		t.Add(trip.String(), strconv.FormatBool(withTLS), client.name,
			fmt.Sprintf("%d of %d", good, s.trials), fmt.Sprintf("%.0f", micros(longest)/1000))
	}
	return nil
}

// firstLocks calls lock so often, a few at a time.
func firstLocks(trials int, lock func(i int) error) (good int64, longest time.Duration) {
	var succeeded, next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range coldAtOnce {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= trials; i = int(next.Add(1)) {
				start := time.Now()
				if lock(i) == nil {
					succeeded.Add(1)
				}
				mu.Lock()
				longest = max(longest, time.Since(start))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return succeeded.Load(), longest
}

func coldRedlock(addrs []string, withTLS bool, ttl time.Duration, key string) error {
	scheme := "redis://:"
	if withTLS {
		scheme = "rediss://:"
	}
	nodes := make([]redlock.Node, len(addrs))
	for i, addr := range addrs {
		nodes[i] = redlock.NewNode(scheme+benchPassword+"@"+addr, redis.DialTLSSkipVerify(true))
	}
	r, err := redlock.New(nodes)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close(context.Background()) }()
	_, err = r.TryLock(context.Background(), []string{key}, ttl)
	return err
}

func coldRedsync(addrs []string, withTLS bool, ttl time.Duration, key string) error {
	pools, end := libraries.RedigoPools(addrs, 1, redis.DialPassword(benchPassword), redis.DialUseTLS(withTLS), redis.DialTLSSkipVerify(true))
	defer end()
	return redsync.New(pools...).NewMutex(key, redsync.WithTries(1), redsync.WithExpiry(ttl)).Lock()
}

// farAway puts proxies in front of the nodes that delay bytes by half a round trip and a
// new connection by a whole one. end ends them.
func farAway(nodes []string, trip time.Duration) (addrs []string, end func(), err error) {
	var proxies []*testcluster.Proxy
	end = func() {
		for _, p := range proxies {
			p.Close()
		}
	}
	for _, node := range nodes {
		p := testcluster.NewProxy(func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", node)
		})
		proxies = append(proxies, p)
		p.SetDelay(trip/2, trip/2)
		p.SetConnectDelay(trip)
		addr, err := p.Listen()
		if err != nil {
			return nil, end, err
		}
		addrs = append(addrs, addr)
	}
	return addrs, end, nil
}
