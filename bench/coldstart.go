package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
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
	cert, err := benchCertificate()
	if err != nil {
		return err
	}
	t := tables.New(fmt.Sprintf("The first lock of a process, with a password: %d of each", s.trials),
		"round trip", "TLS", "client", "succeeded", "longest ms")
	for _, trip := range []time.Duration{0, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond} {
		for _, withTLS := range []bool{false, true} {
			if err := coldStarts(s, cluster, trip, withTLS, cert, t); err != nil {
				return err
			}
		}
	}
	return out.table(t)
}

// coldStarts measures one setting.
func coldStarts(s settings, c *testcluster.Cluster, trip time.Duration, withTLS bool, cert tls.Certificate, t *tables.Table) error {
	addrs, end, err := farAway(c, trip, withTLS, cert)
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
// new connection by a whole one, and TLS behind them. end ends all of it.
func farAway(c *testcluster.Cluster, trip time.Duration, withTLS bool, cert tls.Certificate) (addrs []string, end func(), err error) {
	var ends []func()
	end = func() {
		for _, f := range ends {
			f()
		}
	}
	for _, n := range c.Nodes {
		inside := n.DirectAddr()
		if withTLS {
			ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
			if err != nil {
				return nil, end, err
			}
			ends = append(ends, func() { _ = ln.Close() })
			go relay(ln, inside)
			inside = ln.Addr().String()
		}
		p := testcluster.NewProxy(func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", inside)
		})
		ends = append(ends, p.Close)
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

// relay joins each connection that is accepted to one to addr, until ln is closed.
func relay(ln net.Listener, addr string) {
	for {
		outside, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = outside.Close() }()
			inside, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(inside, outside)
				_ = inside.Close()
			}()
			_, _ = io.Copy(outside, inside)
		}()
	}
}

// benchCertificate returns a self-signed one, which nobody verifies.
func benchCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
