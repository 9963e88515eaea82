package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/bench/plot"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/tables"
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
	name     string
	hold     time.Duration
	fleets   []fleet
	compared bool // with redsync
}

// farDelay is how far a far process is from the nodes, one way: its round trip is twice that.
const farDelay = 20 * time.Millisecond

// contendClients are the libraries that are compared.
var contendClients = []string{"redlock", "redsync"}

func contests() (all []contest) {
	one := []string{"A"}
	for _, hold := range []time.Duration{0, 200 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
		for _, c := range []struct{ processes, goroutines int }{{4, 4}, {2, 8}, {1, 16}, {32, 1}} {
			name := fmt.Sprintf("%d x %d", c.processes, c.goroutines)
			compared := hold != 200*time.Microsecond && c.processes != 2
			all = append(all, contest{name, hold, []fleet{{"", c.processes, c.goroutines, one, false, false}}, compared})
		}
	}
	const hold = time.Millisecond
	return append(all,
		contest{"near and far", hold, []fleet{{"near", 1, 1, one, false, false}, {"far", 1, 1, one, true, false}}, false},
		contest{"near and far, four callers each", hold, []fleet{{"near", 1, 4, one, false, false}, {"far", 1, 4, one, true, false}}, false},
		contest{"overlapping sets", hold, []fleet{
			{"A", 1, 4, one, false, false}, {"A+B", 1, 1, []string{"A", "B"}, false, false}, {"B", 1, 4, []string{"B"}, false, false},
		}, false},
		contest{"beside polling clients", hold, []fleet{{"waiting", 2, 4, one, false, false}, {"polling", 2, 4, one, false, true}}, false},
	)
}

// contention measures how fast and how evenly a lock goes from hand to hand.
func contention(s settings, out *section) error {
	t := tables.New(fmt.Sprintf("Processes x goroutines lock, hold and unlock again and again for %v. The %v before that is not counted: "+
		"until all are in line, the first ones have all the turns. A turn is one possession; a hand-over is a turn after somebody else's. "+
		"Fairness is Jain's index over the goroutines' turns: 1 is equal shares", s.contentionTime, s.warmUp),
		"contest", "hold", "of", "hand-overs/s", "turns/s", "fairness", "wait p50 ms", "wait p99 ms", "longest wait ms", "overlaps")
	var rates, shares []plot.Row
	for _, c := range contests() {
		if !s.contests.MatchString(fmt.Sprint(c.name, ", ", c.hold)) {
			continue
		}
		clients := contendClients
		if !c.compared {
			clients = clients[:1]
		}
		rate, share := map[string]float64{}, map[string]float64{}
		for _, client := range clients {
			turns, err := c.run(s, client)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, client, err)
			}
			for i, f := range c.fleets {
				b := judge(c.fleets, i, turns, s.contentionTime)
				of := f.name
				if of == "" {
					of = client
				}
				t.Add(append([]string{c.name, c.hold.String(), of}, b.cells()...)...)
				rate[client], share[client] = b.hands, b.fairness
			}
		}
		if c.compared {
			row := fmt.Sprintf("%d × %d, %d ms", c.fleets[0].processes, c.fleets[0].goroutines, c.hold.Milliseconds())
			rates, shares = append(rates, plot.Row{Name: row, Values: rate}), append(shares, plot.Row{Name: row, Values: share})
		}
	}
	return errors.Join(out.table(t), drawContention(out, rates, shares))
}

// run runs all processes of the contest, on servers of its own.
func (c contest) run(s settings, client string) (turns []possession, err error) {
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
	from := time.Now().Add(time.Second) // All processes have started by then.
	var orders []order
	for _, f := range c.fleets {
		o := order{
			Role: "contend", Client: client, Addrs: cluster.Addrs(), Resources: f.resources, TTL: s.ttl, Goroutines: f.goroutines, Polling: f.polling,
			Hold: c.hold, From: from, Counted: from.Add(s.warmUp), To: from.Add(s.warmUp + s.contentionTime),
		}
		if f.far {
			o.Addrs = proxies
		}
		for range f.processes {
			orders = append(orders, o)
		}
	}
	return obey(orders)
}
