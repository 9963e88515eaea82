package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

const (
	slowBy   = 20 * time.Millisecond // for a message to a slow node, and for its answer
	lagShare = 0.01
	lag      = 200 * time.Millisecond // the least time after which Linux sends a lost packet again
)

// An ailment is what may be the matter with a node.
type ailment struct {
	name   string
	strike func(*testcluster.Node) error
}

var ailments = []ailment{
	{"healthy", func(*testcluster.Node) error { return nil }},
	{"dead", (*testcluster.Node).Stop},
	{"hung", (*testcluster.Node).Hang},
	{"slow", func(n *testcluster.Node) error { n.Proxy().SetDelay(slowBy, slowBy); return nil }},
	{"lossy", func(n *testcluster.Node) error { n.Proxy().Lag(lagShare, lag); return nil }},
}

// minority measures what locks cost while as many nodes are bad as the quorum can do without.
func minority(s settings, out *section) error {
	r := report{setting: "the minority is"}
	r.title = fmt.Sprintf("Lock+unlock, %d goroutines, %d of %d nodes bad since %v: %s. "+
		"Dead ones were killed, hung ones stopped with SIGSTOP. Messages to and from slow ones take %v each way. "+
		"Of those to and from lossy ones, one chunk in %.0f is %v late",
		manyGoroutines, (s.nodes-1)/2, s.nodes, s.settle, s.lengths(), slowBy, 1/lagShare, lag)
	for _, a := range ailments {
		err := onServers(s.nodes, func(cluster *testcluster.Cluster) error { return r.withBad(s, cluster, a) })
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return r.write(out)
}

// withBad measures one ailment. Clients connect before it strikes.
func (r *report) withBad(s settings, cluster *testcluster.Cluster, a ailment) error {
	healthy := s.nodes - (s.nodes-1)/2
	bad, addrs := cluster.Nodes[healthy:], cluster.Addrs()
	for i, n := range bad {
		addrs[healthy+i] = n.ProxyAddr()
	}
	these := []library{libraries.Redlock, libraries.Redsync[0], libraries.Redsync[1], libraries.Fenced} // On redigo.
	clients, err := openAll(these, on(addrs, s.ttl, manyGoroutines))
	if err != nil {
		return err
	}
	defer closeClients(clients)
	got, err := takeTurns(s, clients, cluster.Nodes[:healthy], manyGoroutines, func() (err error) {
		for _, n := range bad {
			err = errors.Join(err, a.strike(n))
		}
		time.Sleep(s.settle)
		return err
	})
	r.all = append(r.all, measurement{a.name, got})
	return err
}
