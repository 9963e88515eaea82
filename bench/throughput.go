package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// manyGoroutines is the number at which libraries are compared under load.
const manyGoroutines = 64

// throughput measures lock+unlock/s and what they cost against the number of goroutines,
// with every library.
func throughput(s settings, out *section, cluster *testcluster.Cluster) error {
	r := report{setting: "goroutines", title: s.title()}
	for _, g := range s.goroutines {
		if err := r.compare(s, fmt.Sprint(g), applicable(compared, s.nodes), cluster, g); err != nil {
			return err
		}
	}
	title := fmt.Sprintf("Lock+unlock per second on %d nodes", s.nodes)
	return errors.Join(r.write(out), out.plot("throughput", r.chart(title)))
}

// byNodes measures the same against the number of nodes.
func byNodes(s settings, out *section) error {
	r := report{setting: "N", title: fmt.Sprintf("Lock+unlock, %d goroutines: %s", manyGoroutines, s.lengths())}
	if err := r.onEach(s, manyGoroutines); err != nil {
		return err
	}
	title := fmt.Sprintf("Lock+unlock per second with %d goroutines", manyGoroutines)
	return errors.Join(r.write(out), out.plot("nodes", r.chart(title)))
}

// latency measures a single caller, with every library on each number of nodes.
func latency(s settings, out *section) error {
	r := report{setting: "N", title: "One caller: " + s.alone()}
	return errors.Join(r.onEach(s, 1), r.write(out))
}

// onEach compares the libraries on each number of nodes.
func (r *report) onEach(s settings, goroutines int) error {
	for _, n := range s.nodeCounts {
		these := applicable(compared, n)
		err := onServers(n, func(cluster *testcluster.Cluster) error {
			return r.compare(s, fmt.Sprint(n), these, cluster, goroutines)
		})
		if err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
	}
	return nil
}

// compare has clients of the libraries do the same work in turn.
func (r *report) compare(
	s settings, setting string, these []library, cluster *testcluster.Cluster, goroutines int,
) error {
	clients, err := openAll(these, on(cluster.Addrs(), s.ttl, goroutines))
	if err != nil {
		return err
	}
	defer closeClients(clients)
	got, err := takeTurns(s, clients, cluster.Nodes, goroutines, nil)
	r.all = append(r.all, measurement{setting, got})
	return err
}

// blockTime is how long a block of a fixed number of locks takes at most.
const blockTime = 150 * time.Millisecond

// work is what each client does in a turn, and how many turns it has in a round. A single caller has
// more of them, which are shorter: what disturbs one of few locks would be seen in its percentiles.
func (s settings) work(goroutines int) (w work, blocks int) {
	if goroutines == 1 {
		return work{goroutines: 1, length: blockTime, locks: s.blockSize}, s.blocks
	}
	return work{goroutines: goroutines, length: s.time}, 1
}

// title is that of a part on so many nodes as the flags say.
func (s settings) title() string {
	return fmt.Sprintf("Lock+unlock with %d nodes: %s. One caller: %s", s.nodes, s.lengths(), s.alone())
}

// lengths says for how long each client works, and alone says it of a single caller.
func (s settings) lengths() string {
	return fmt.Sprintf("medians of %d rounds of %v for each client", s.rounds, s.time)
}

func (s settings) alone() string {
	return fmt.Sprintf("medians of %d rounds of %d blocks of at most %d locks and %v for each client",
		s.rounds, s.blocks, s.blockSize, blockTime)
}
