package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
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
		seen.report(t, nodes, callers, c.Name)
	}
	return nil
}

// tries are what was seen of attempts to lock.
type tries struct {
	took          []time.Duration // of those that succeeded, sorted
	failed        int
	failedUnlocks atomic.Int64
}

// attempts has callers lock and unlock for so long. Each attempt has a key of its own:
// what a failed unlock has left is in nobody's way.
func attempts(c client, callers int, length time.Duration) *tries {
	var seen tries
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(length)
	for i := range callers {
		wg.Go(func() {
			w, ctx := c.NewWorker(), context.Background()
			var took []time.Duration
			failed := 0
			for time.Now().Before(end) {
				key := fmt.Sprintf("faulty:%s:%d:%d:%d", c.Name, i, end.UnixNano(), len(took)+failed)
				start := time.Now()
				if err := w.Try(ctx, key); err != nil {
					failed++
					continue
				}
				took = append(took, time.Since(start))
				if w.Unlock(ctx) != nil {
					seen.failedUnlocks.Add(1)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			seen.took = append(seen.took, took...)
			seen.failed += failed
		})
	}
	wg.Wait()
	slices.Sort(seen.took)
	return &seen
}

func (t *tries) report(to *tables.Table, nodes, callers int, client string) {
	all := len(t.took) + t.failed
	to.Add(strconv.Itoa(nodes), strconv.Itoa(callers), client, strconv.Itoa(all),
		fmt.Sprintf("%.4f", float64(len(t.took))/float64(max(all, 1))), millis(percentile(t.took, 50)), millis(percentile(t.took, 99)), strconv.FormatInt(t.failedUnlocks.Load(), 10))
}
