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
	"github.com/seed6c881748/redlock/test/tables"
)

// hotTurn is the length of a turn.
const hotTurn = 10 * time.Millisecond

// A hotspot is a resource that many callers of a few processes want all the time.
type hotspot struct {
	contest

	way time.Duration // of each message to the nodes and back
}

var hotspots = []hotspot{
	{contest{1, 16, 0}, 0},
	{contest{1, 16, time.Millisecond}, 0},
	{contest{4, 4, 0}, 0},
	{contest{4, 4, 100 * time.Microsecond}, 0},
	{contest{4, 4, time.Millisecond}, 0},
	{contest{4, 4, time.Millisecond}, 500 * time.Microsecond},
}

// A heat is what the processes have done.
type heat struct {
	Locks    []float64 // by goroutine
	Longest  time.Duration
	locks    float64 // of all
	commands int64   // of the nodes
}

// hot measures what a lock costs that many callers of a process want: released to the nodes each
// time, and passed on.
func hot(s settings, out *section) error {
	t := tables.New(fmt.Sprintf("Processes x goroutines lock, work and unlock again and again for %v, "+
		"without and with WithTurn(%v) in turn; medians of %d rounds. "+
		"Requests are those to all nodes for each lock. Fairness is Jain's index", s.contestTime, hotTurn, s.rounds),
		"contest", "work", "way to the nodes", "locks/s", "with turns", "factor", "requests", "with turns",
		"fairness with turns", "longest wait ms", "with turns")
	for _, h := range few(s, hotspots) {
		var rates, requests, fairness, longest [2][]float64 // without and with turns, by round
		for range s.rounds {
			for i, turn := range []time.Duration{0, hotTurn} {
				err := onServers(s.nodes, func(cluster *testcluster.Cluster) error {
					got, err := h.run(s, cluster, turn)
					rates[i] = append(rates[i], got.locks/s.contestTime.Seconds())
					requests[i] = append(requests[i], float64(got.commands)/max(got.locks, 1))
					fairness[i] = append(fairness[i], jain(got.Locks))
					longest[i] = append(longest[i], micros(got.Longest)/1000)
					return err
				})
				if err != nil {
					return err
				}
			}
		}
		cell := func(values []float64, format string) string { return fmt.Sprintf(format, median(values)) }
		t.Add(h.name(), h.hold.String(), h.way.String(), cell(rates[0], "%.0f"), cell(rates[1], "%.0f"),
			cell(ratios(rates[1], rates[0]), "%.1f"), cell(requests[0], "%.1f"), cell(requests[1], "%.3f"),
			cell(fairness[1], "%.3f"), cell(longest[0], "%.0f"), cell(longest[1], "%.0f"))
	}
	return out.table(t)
}

func (h hotspot) run(s settings, cluster *testcluster.Cluster, turn time.Duration) (all heat, err error) {
	m, err := newMeter(cluster.Nodes)
	if err != nil {
		return all, err
	}
	defer m.close()
	began, err := m.begin()
	if err != nil {
		return all, err
	}
	from := time.Now().Add(time.Second)
	told, err := obey[heat](order{
		Role: "hot", Addrs: behind(cluster.Nodes, h.way), TTL: s.ttl, Goroutines: h.goroutines, Hold: h.hold,
		Turn: turn, From: from, To: from.Add(s.contestTime),
	}, h.processes)
	for _, own := range told {
		all.Locks, all.Longest = append(all.Locks, own.Locks...), max(all.Longest, own.Longest)
	}
	for _, n := range all.Locks {
		all.locks += n
	}
	did, e := m.since(began)
	all.commands = did.commands
	return all, errors.Join(err, e)
}

// behind returns addresses of the nodes to and from which each message takes so long.
func behind(nodes []*testcluster.Node, way time.Duration) []string {
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		if addrs[i] = n.Addr(); way > 0 {
			addrs[i] = n.ProxyAddr()
			n.Proxy().SetDelay(way, way)
		}
	}
	return addrs
}

// heatUp is what a child process does.
func heatUp(o order) (h heat, err error) {
	opts := []redlock.Option{redlock.WithRetryCount(-1)}
	if o.Turn > 0 {
		opts = append(opts, redlock.WithTurn(o.Turn))
	}
	r, err := libraries.OpenRedlock(o.Addrs, opts...)
	if err != nil {
		return h, err
	}
	defer func() { _ = r.Close(context.Background()) }()
	h.Locks = make([]float64, o.Goroutines)
	longest, errs := make([]time.Duration, o.Goroutines), make([]error, o.Goroutines)
	var wg sync.WaitGroup
	time.Sleep(time.Until(o.From))
	for i := range h.Locks {
		wg.Go(func() {
			for errs[i] == nil && time.Now().Before(o.To) {
				asked := time.Now()
				l, err := r.Lock(context.Background(), []string{resource}, o.TTL)
				if errs[i] = err; err != nil {
					return
				}
				h.Locks[i]++
				longest[i] = max(longest[i], time.Since(asked))
				toil(o.Hold)
				errs[i] = l.Unlock(context.Background())
			}
		})
	}
	wg.Wait()
	h.Longest = slices.Max(longest)
	return h, errors.Join(errs...)
}

// toil works for d. A short sleep would take longer than it should.
func toil(d time.Duration) {
	if d >= time.Millisecond {
		time.Sleep(d)
		return
	}
	for began := time.Now(); time.Since(began) < d; {
	}
}
