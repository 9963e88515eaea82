package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/tables"
)

// waiters measures what it costs that many callers wait for held locks.
func waiters(s settings, out *section, cluster *testcluster.Cluster) (err error) {
	const (
		resources  = 100
		retryDelay = 200 * time.Millisecond // the default
	)
	calls := s.waiters
	holder, err := libraries.OpenRedlock(cluster.Addrs())
	if err != nil {
		return err
	}
	for i := range resources {
		if _, err = holder.TryLock(context.Background(), []string{strconv.Itoa(i)}, time.Hour); err != nil {
			return err
		}
	}
	if err = holder.Close(context.Background()); err != nil {
		return err
	}
	r, err := libraries.OpenRedlock(cluster.Addrs())
	if err != nil {
		return err
	}
	servers, err := newMeter(cluster.Nodes)
	if err != nil {
		return err
	}
	defer servers.close()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			_, _ = r.Lock(ctx, []string{strconv.Itoa(i % resources)}, s.ttl, redlock.WithRetryCount(-1))
		})
	}
	time.Sleep(s.settle) // All wait by now.
	before, err := servers.begin()
	cpu, start := cpuTime(), time.Now()
	time.Sleep(s.waitTime)
	elapsed, used := time.Since(start).Seconds(), (cpuTime() - cpu).Seconds()
	sent, e := servers.since(before)
	cancel()
	wg.Wait()
	if err = errors.Join(err, e); err != nil {
		return err
	}
	t := tables.New(fmt.Sprintf("%d calls of Lock that wait for %d held resources, for %v", calls, resources, s.waitTime),
		"client CPU, share of a core", "requests per second, node and resource", "the same per retry delay of "+retryDelay.String())
	rate := float64(sent.scripts) / elapsed / float64(s.nodes) / resources
	t.Add(fmt.Sprintf("%.3f", used/elapsed), fmt.Sprintf("%.2f", rate), fmt.Sprintf("%.2f", rate*retryDelay.Seconds()))
	return errors.Join(out.table(t), r.Close(context.Background()))
}
