package main

import (
	"context"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/test/tables"
)

// A workerPool is what the semaphore is measured with: clients whose callers want its permits all the time.
type workerPool struct {
	k    int
	hold time.Duration
	way  time.Duration // what each message takes; 0: servers on the same machine
	down int           // nodes
}

// workerPools are the settings. Four clients have 25 callers each.
var workerPools = []workerPool{
	{5, time.Millisecond, 0, 0},
	{5, 50 * time.Millisecond, 0, 0},
	{5, time.Millisecond, 0, 1},
	{5, 50 * time.Millisecond, 0, 1},
	{50, 50 * time.Millisecond, time.Millisecond, 0},
}

const (
	poolClients = 4
	poolCallers = 25 // of each client
)

// permits measures how well the slots of a semaphore are used, and how evenly among its callers.
func permits(s settings, out *section) error {
	t := tables.New(fmt.Sprintf("%d clients with %d callers each acquire, hold and release permits again and again "+
		"for %v, after %v that are not counted. "+
		"In use is the share of the k slots' time in which they are held. Fairness is Jain's index",
		poolClients, poolCallers, s.contestTime, s.warmUp),
		"k", "hold", "round trip", "nodes down", "acquisitions/s", "in use", "fairness of callers", "of clients",
		"longest wait ms", "most at once", "overlaps")
	for _, w := range few(s, workerPools) {
		err := onServers(s.nodes, func(cluster *testcluster.Cluster) error {
			turns, err := w.run(s, cluster)
			t.Add(w.cells(turns, s)...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return out.table(t)
}

// run has all callers acquire permits.
func (w workerPool) run(s settings, cluster *testcluster.Cluster) ([]possession, error) {
	for _, n := range cluster.Nodes[:w.down] {
		if err := n.Stop(); err != nil {
			return nil, err
		}
	}
	locks, end, err := openRedlocks(poolClients, behind(cluster.Nodes, w.way))
	if err != nil {
		return nil, err
	}
	defer end()
	var sems []*semaphore.Semaphore
	for _, r := range locks {
		sem, err := semaphore.New(r, resource, w.k, s.ttl)
		if err != nil {
			return nil, err
		}
		sems = append(sems, sem)
	}
	c := contest{poolClients, poolCallers, w.hold}
	return c.play(s.warmUp+s.contestTime, func(ctx context.Context, i int) (int, release, error) {
		p, err := sems[i/poolCallers].Acquire(ctx)
		if err != nil {
			return 0, nil, err
		}
		return p.Slot, p.Unlock, nil
	}), nil
}

// cells sums the turns up. Of those that overlap the time that counts, that part counts as use.
func (w workerPool) cells(turns []possession, s settings) []string {
	begin, end := s.warmUp, s.warmUp+s.contestTime
	callers, clients := make([]float64, poolClients*poolCallers), make([]float64, poolClients)
	acquired, overlaps, most := 0, 0, 0
	held, longest, ends := time.Duration(0), time.Duration(0), make([]time.Duration, w.k)
	for _, turn := range turns {
		if turn.to == 0 {
			continue
		}
		if turn.from < ends[turn.slot] {
			overlaps++
		}
		ends[turn.slot] = turn.to
		now := 0
		for _, to := range ends {
			if to > turn.from {
				now++
			}
		}
		most = max(most, now)
		held += max(0, min(turn.to, end)-max(turn.from, begin))
		if turn.from >= begin && turn.from < end {
			acquired++
			callers[turn.who]++
			clients[turn.who/poolCallers]++
			longest = max(longest, turn.waited)
		}
	}
	return []string{
		fmt.Sprint(w.k), w.hold.String(), (2 * w.way).String(), fmt.Sprint(w.down),
		fmt.Sprintf("%.0f", float64(acquired)/s.contestTime.Seconds()),
		fmt.Sprintf("%.1f %%", 100*float64(held)/float64(time.Duration(w.k)*s.contestTime)),
		fmt.Sprintf("%.3f", jain(callers)), fmt.Sprintf("%.3f", jain(clients)), millis(longest),
		fmt.Sprint(most), fmt.Sprint(overlaps),
	}
}
