package main

import (
	"context"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/tables"
)

// hotTurn is the length of a turn.
const hotTurn = 10 * time.Millisecond

// A hotspot is a resource that many callers of a few clients want all the time.
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

// hot measures what a lock costs that many callers of a process want: released to the nodes each
// time, and passed on.
func hot(s settings, out *section) error {
	t := tables.New(fmt.Sprintf("Clients x goroutines lock, work and unlock again and again for %v, "+
		"without and with WithTurn(%v) in turn; medians of %d rounds. "+
		"Requests are those to all nodes for each lock. Fairness is Jain's index", s.contestTime, hotTurn, s.rounds),
		"contest", "work", "way to the nodes", "locks/s", "with turns", "factor", "requests", "with turns",
		"fairness with turns", "longest wait ms", "with turns")
	for _, h := range few(s, hotspots) {
		var rates, requests, fairness, longest [2][]float64 // without and with turns, by round
		for range s.rounds {
			for i, turn := range []time.Duration{0, hotTurn} {
				err := onServers(s.nodes, func(cluster *testcluster.Cluster) error {
					turns, commands, err := h.run(s, cluster, turn)
					counts, number, most := make([]float64, h.clients*h.goroutines), 0.0, time.Duration(0)
					for _, turn := range turns {
						if most = max(most, turn.waited); turn.to > 0 {
							counts[turn.who]++
							number++
						}
					}
					rates[i] = append(rates[i], number/s.contestTime.Seconds())
					requests[i] = append(requests[i], float64(commands)/max(number, 1))
					fairness[i] = append(fairness[i], jain(counts))
					longest[i] = append(longest[i], micros(most)/1000)
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

// run returns the turns, and how many requests the nodes had.
func (h hotspot) run(
	s settings, cluster *testcluster.Cluster, turn time.Duration,
) (turns []possession, commands int64, err error) {
	m, err := newMeter(cluster.Nodes)
	if err != nil {
		return nil, 0, err
	}
	defer m.close()
	opts := []redlock.Option{redlock.WithRetryCount(-1)}
	if turn > 0 {
		opts = append(opts, redlock.WithTurn(turn))
	}
	locks, end, err := openRedlocks(h.clients, behind(cluster.Nodes, h.way), opts...)
	if err != nil {
		return nil, 0, err
	}
	defer end()
	began, err := m.begin()
	if err != nil {
		return nil, 0, err
	}
	turns = h.play(s.contestTime, func(ctx context.Context, i int) (int, release, error) {
		l, failed := locks[i/h.goroutines].Lock(ctx, []string{resource}, s.ttl)
		if failed != nil {
			return 0, nil, failed
		}
		return 0, l.Unlock, nil
	})
	did, err := m.since(began)
	return turns, did.commands, err
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

// openRedlocks returns so many, and what closes them.
func openRedlocks(number int, addrs []string, opts ...redlock.Option) (all []*redlock.Redlock, end func(), err error) {
	end = func() {
		for _, r := range all {
			_ = r.Close(context.Background())
		}
	}
	for range number {
		r, err := libraries.OpenRedlock(addrs, opts...)
		if err != nil {
			end()
			return nil, nil, err
		}
		all = append(all, r)
	}
	return all, end, nil
}
