package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/tables"
)

// What a network does that is not broken: it loses a packet now and then, and proxies and
// firewalls end connections.

const (
	lagShare = 0.01
	lag      = 200 * time.Millisecond // the least time after which Linux sends a lost packet again

	resetAfterMin = 300 * time.Millisecond
	resetAfterMax = 700 * time.Millisecond
)

// triesTable returns a table for what tries are reported as.
func triesTable(title string) *tables.Table {
	return tables.New(title, "nodes", "callers", "client", "attempts", "succeeded", "p50 ms", "p99 ms", "failed unlocks")
}

// late measures attempts while one chunk of bytes in a hundred is late.
func late(s settings, out *section) error {
	t := triesTable(fmt.Sprintf("One chunk in %.0f is %v late, on every connection; %v for each", 1/lagShare, lag, s.faultTime))
	for _, nodes := range []int{3, 5} {
		for _, callers := range []int{4, 64} {
			if err := onFaulty(s, nodes, callers, t, lagAll); err != nil {
				return err
			}
		}
	}
	return out.table(t)
}

// resets measures attempts while each node's connections are reset again and again.
func resets(s settings, out *section) error {
	t := triesTable(fmt.Sprintf("The connections of each node are reset every %v to %v; %v for each", resetAfterMin, resetAfterMax, s.faultTime))
	for _, nodes := range []int{3, 5} {
		if err := onFaulty(s, nodes, 8, t, resetAll); err != nil {
			return err
		}
	}
	return out.table(t)
}

// lagAll makes bytes late until it is stopped.
func lagAll(c *testcluster.Cluster) (stop func()) {
	for _, n := range c.Nodes {
		n.Proxy().Lag(lagShare, lag)
	}
	return func() {
		for _, n := range c.Nodes {
			n.Proxy().Lag(0, 0)
		}
	}
}

// resetAll resets the connections of all nodes until it is stopped.
func resetAll(c *testcluster.Cluster) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, n := range c.Nodes {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(resetAfterMin + rand.N(resetAfterMax-resetAfterMin)):
					n.Proxy().Reset()
				}
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// onFaulty measures redlock and redsync, one after the other, on servers behind proxies
// with a fault. The first connections are made without it.
func onFaulty(s settings, nodes, callers int, t *tables.Table, fault func(*testcluster.Cluster) (stop func())) (err error) {
	cluster, err := testcluster.StartServers(nodes, testcluster.WithProxy())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	clients, err := newClients(cluster.Addrs(), s.ttl, callers, "redlock", "redsync-redigo")
	if err != nil {
		return err
	}
	defer closeClients(clients)
	for _, c := range clients {
		attempts(c, callers, 100*time.Millisecond)
		stop := fault(cluster)
		seen := attempts(c, callers, s.faultTime)
		stop()
		t.Add(tryCells(nodes, callers, c.Name, seen)...)
	}
	return nil
}

// attempts has callers lock and unlock for so long.
func attempts(c client, callers int, length time.Duration) phase {
	from := time.Now()
	group := startCrew(c, callers, fmt.Sprintf("faulty:%s:%d:", c.Name, from.UnixNano()), true, func() {})
	time.Sleep(length)
	seen := group.end()
	return newPhase(seen, from, time.Now())
}

// tryCells are the cells of attempts.
func tryCells(nodes, callers int, client string, p phase) []string {
	all := len(p.locked) + p.failed
	return []string{
		strconv.Itoa(nodes), strconv.Itoa(callers), client, strconv.Itoa(all), fmt.Sprintf("%.4f", float64(len(p.locked))/float64(max(all, 1))),
		millis(percentile(p.locked, 50)), millis(percentile(p.locked, 99)), strconv.Itoa(p.left),
	}
}
