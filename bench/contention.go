package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A fleet is a group of equal processes that contend for the same resources.
type fleet struct {
	name       string
	processes  int
	goroutines int
	resources  []string
	far        bool // every message takes farDelay each way
	polling    bool
}

// A contest is some fleets that contend at the same time.
type contest struct {
	name   string
	hold   time.Duration
	fleets []fleet
}

// farDelay is how far a far process is from the nodes, one way: its round trip is twice that.
const farDelay = 20 * time.Millisecond

// contests returns the matrix.
func contests() (all []contest) {
	one := []string{"A"}
	for _, hold := range []time.Duration{0, 200 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
		for _, c := range []struct{ processes, goroutines int }{{4, 4}, {2, 8}, {1, 16}, {32, 1}} {
			name := fmt.Sprintf("%d x %d", c.processes, c.goroutines)
			all = append(all, contest{name, hold, []fleet{{"", c.processes, c.goroutines, one, false, false}}})
		}
	}
	const hold = time.Millisecond
	return append(all,
		contest{"near and far", hold, []fleet{{"near", 1, 1, one, false, false}, {"far", 1, 1, one, true, false}}},
		contest{"near and far, four callers each", hold, []fleet{{"near", 1, 4, one, false, false}, {"far", 1, 4, one, true, false}}},
		contest{"overlapping sets", hold, []fleet{
			{"A", 1, 4, one, false, false}, {"A+B", 1, 1, []string{"A", "B"}, false, false}, {"B", 1, 4, []string{"B"}, false, false},
		}},
		contest{"beside polling clients", hold, []fleet{{"waiting", 2, 4, one, false, false}, {"polling", 2, 4, one, false, true}}},
	)
}

// contention measures how a lock goes from hand to hand, and how evenly, in many settings.
func contention(s settings, out *section) error {
	t := newTable(fmt.Sprintf("Processes lock, hold and unlock again and again for %v. The %v before that is not counted: "+
		"until all processes are in line, the first ones have all the turns. Fairness is Jain's index over the processes' turns", s.contentionTime, s.warmUp),
		"contest", "hold", "of", "hand-overs/s", "turns/s", "fairness", "wait p50 ms", "longest wait ms", "overlaps")
	for _, c := range contests() {
		if !s.contests.MatchString(fmt.Sprint(c.name, ", ", c.hold)) {
			continue
		}
		turns, err := c.run(s)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		c.report(t, turns, s.contentionTime)
	}
	return out.table(t)
}

// A share is a possession of one of a contest's processes.
type share struct {
	possession

	fleet, process int
}

// run runs all processes of the contest, on servers of its own.
func (c contest) run(s settings) (turns []share, err error) {
	cluster, err := testcluster.StartServers(s.nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	proxies := make([]string, len(cluster.Nodes))
	for i, n := range cluster.Nodes {
		proxies[i] = n.ProxyAddr()
		n.Proxy().SetDelay(farDelay, farDelay)
	}
	from := time.Now().Add(time.Second / 2)
	var mu sync.Mutex
	var wg sync.WaitGroup
	process := 0
	for i, f := range c.fleets {
		o := order{
			Role: "contest", Addrs: cluster.Addrs(), Resources: f.resources, TTL: s.ttl, Goroutines: f.goroutines, Polling: f.polling,
			Hold: c.hold, From: from, Counted: from.Add(s.warmUp), To: from.Add(s.warmUp + s.contentionTime),
		}
		if f.far {
			o.Addrs = proxies
		}
		for range f.processes {
			number := process
			process++
			wg.Go(func() {
				var own []possession
				e := obey(o, &own)
				mu.Lock()
				defer mu.Unlock()
				err = errors.Join(err, e)
				for _, p := range own {
					turns = append(turns, share{p, i, number})
				}
			})
		}
	}
	wg.Wait()
	return turns, err
}

// report adds a row for each fleet. The fairness is that between all processes.
func (c contest) report(t *table, turns []share, length time.Duration) {
	slices.SortFunc(turns, func(a, b share) int { return int(a.From - b.From) })
	shares := map[int]float64{}
	processes := 0
	for _, f := range c.fleets {
		processes += f.processes
	}
	overlaps := c.overlaps(turns)
	for _, turn := range turns {
		shares[turn.process]++
	}
	counts := make([]float64, processes)
	for process, n := range shares {
		counts[process] = n
	}
	for i, f := range c.fleets {
		hands, own, waits := 0, 0, []time.Duration(nil)
		last := share{process: -1}
		for _, turn := range turns {
			if turn.fleet == i {
				own++
				waits = append(waits, turn.Waited)
				if turn.process != last.process || turn.Who != last.Who {
					hands++
				}
			}
			last = turn
		}
		slices.Sort(waits)
		t.add(c.name, fmt.Sprint(c.hold), f.name, perSecond(hands, length), perSecond(own, length), fmt.Sprintf("%.3f", jain(counts)),
			millis(percentile(waits, 50)), millis(percentile(waits, 100)), fmt.Sprint(overlaps))
	}
}

// overlaps returns how often a turn began before another one on a common resource had ended.
func (c contest) overlaps(turns []share) (n int) {
	held := map[string]int64{}
	for _, turn := range turns {
		for _, res := range c.fleets[turn.fleet].resources {
			if turn.From < held[res] {
				n++
			}
			held[res] = max(held[res], turn.To)
		}
	}
	return n
}

func perSecond(n int, length time.Duration) string {
	return fmt.Sprintf("%.0f", float64(n)/length.Seconds())
}

// takePart is what a child process does: its goroutines lock, hold and unlock in a loop.
func takePart(o order) (possessions []possession, err error) {
	r, err := libraries.OpenRedlock(o.Addrs, redlock.WithRetryCount(-1))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close(context.Background())) }()
	var opts []redlock.Option
	if o.Polling {
		opts = append(opts, redlock.WithPolling())
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	time.Sleep(time.Until(o.From)) // All begin together.
	for i := range o.Goroutines {
		wg.Go(func() {
			var own []possession
			for time.Now().Before(o.To) {
				asked := time.Now()
				l, err := r.Lock(context.Background(), o.Resources, o.TTL, opts...)
				if err != nil {
					continue
				}
				from := time.Now()
				if o.Hold > 0 {
					time.Sleep(o.Hold)
				}
				to := time.Now()
				_ = l.Unlock(context.Background())
				if asked.After(o.Counted) {
					own = append(own, possession{Who: i, Waited: from.Sub(asked), From: from.UnixNano(), To: to.UnixNano()})
				}
			}
			mu.Lock()
			defer mu.Unlock()
			possessions = append(possessions, own...)
		})
	}
	wg.Wait()
	return possessions, nil
}
