package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/test/tables"
)

// A workerPool is what the semaphore is measured with: processes whose callers want its permits all the time.
type workerPool struct {
	k    int
	hold time.Duration
	way  time.Duration // what each message takes; 0: servers on the same machine
	down int           // nodes
}

// workerPools are the settings. Four processes have 25 callers each.
var workerPools = []workerPool{
	{5, time.Millisecond, 0, 0},
	{5, 50 * time.Millisecond, 0, 0},
	{5, time.Millisecond, 0, 1},
	{5, 50 * time.Millisecond, 0, 1},
	{50, 50 * time.Millisecond, time.Millisecond, 0},
}

const (
	poolProcesses = 4
	poolCallers   = 25 // of each process
)

// permits measures how well the slots of a semaphore are used, and how evenly among its callers.
func permits(s settings, out *section) error {
	t := tables.New(fmt.Sprintf("%d processes with %d callers each acquire, hold and release permits again and again "+
		"for %v, after %v that are not counted. "+
		"In use is the share of the k slots' time in which they are held. Fairness is Jain's index",
		poolProcesses, poolCallers, s.contestTime, s.warmUp),
		"k", "hold", "round trip", "nodes down", "acquisitions/s", "in use", "fairness of callers", "of processes",
		"longest wait ms", "most at once", "overlaps")
	for _, w := range few(s, workerPools) {
		err := onServers(s.nodes, func(cluster *testcluster.Cluster) error {
			turns, from, err := w.run(s, cluster)
			t.Add(w.cells(turns, from, s)...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return out.table(t)
}

// run runs the processes. What they do counts from an instant on.
func (w workerPool) run(s settings, cluster *testcluster.Cluster) (turns []possession, counted time.Time, err error) {
	for _, n := range cluster.Nodes[:w.down] {
		if err = n.Stop(); err != nil {
			return nil, counted, err
		}
	}
	from := time.Now().Add(time.Second / 2)
	counted = from.Add(s.warmUp)
	o := order{
		Role: "permits", Addrs: behind(cluster.Nodes, w.way), Permits: w.k, TTL: s.ttl, Goroutines: poolCallers,
		Hold: w.hold, From: from, To: counted.Add(s.contestTime),
	}
	told, err := obey[[]possession](o, poolProcesses)
	return o.together(told), counted, err
}

// cells sums the turns up. Of those that overlap the time that counts, that part counts as use.
func (w workerPool) cells(turns []possession, counted time.Time, s settings) []string {
	slices.SortFunc(turns, func(a, b possession) int { return int(a.From - b.From) })
	begin, end := counted.UnixNano(), counted.Add(s.contestTime).UnixNano()
	callers, processes := make([]float64, poolProcesses*poolCallers), make([]float64, poolProcesses)
	held, acquired, overlaps, most := int64(0), 0, 0, 0
	longest, ends := time.Duration(0), make([]int64, w.k)
	for _, turn := range turns {
		if turn.From < ends[turn.Slot] {
			overlaps++
		}
		ends[turn.Slot] = turn.To
		now := 0
		for _, to := range ends {
			if to > turn.From {
				now++
			}
		}
		most = max(most, now)
		held += max(0, min(turn.To, end)-max(turn.From, begin))
		if turn.From >= begin && turn.From < end {
			acquired++
			callers[turn.Who]++
			processes[turn.Who/poolCallers]++
			longest = max(longest, turn.Waited)
		}
	}
	return []string{
		fmt.Sprint(w.k), w.hold.String(), (2 * w.way).String(), fmt.Sprint(w.down),
		fmt.Sprintf("%.0f", float64(acquired)/s.contestTime.Seconds()),
		fmt.Sprintf("%.1f %%", 100*float64(held)/float64(int64(w.k)*s.contestTime.Nanoseconds())),
		fmt.Sprintf("%.3f", jain(callers)), fmt.Sprintf("%.3f", jain(processes)), millis(longest),
		fmt.Sprint(most), fmt.Sprint(overlaps),
	}
}

// usePermits is what a child process does.
func usePermits(o order) (turns []possession, err error) {
	r, err := libraries.OpenRedlock(o.Addrs)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close(context.Background())) }()
	sem, err := semaphore.New(r, resource, o.Permits, o.TTL)
	if err != nil {
		return nil, err
	}
	return o.repeat(func(int) (slot int, unlock func(context.Context) error, err error) {
		p, err := sem.Acquire(context.Background())
		if err != nil {
			return 0, nil, err
		}
		return p.Slot, p.Unlock, nil
	}), nil
}
