package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// manyGoroutines is the number at which libraries are compared under load.
const manyGoroutines = 64

// throughput measures lock+unlock/s and what they cost against the number of goroutines,
// with every library.
func throughput(s settings, out *section, cluster *testcluster.Cluster) (err error) {
	these, err := choose(s, out, s.nodes)
	if err != nil {
		return err
	}
	report := &report{out: out, setting: "goroutines"}
	report.title = fmt.Sprintf("Lock+unlock with %d nodes, %s: medians of %d rounds of %v for each client", s.nodes, s.keys(), s.rounds, s.time)
	chart := throughputLines(fmt.Sprintf("Lock+unlock per second on %d nodes", s.nodes), "goroutines")
	reached := newAims()
	for _, g := range s.goroutines {
		r, err := compare(these, on(cluster.Addrs(), s.ttl, g), cluster.Nodes, s.turns(g), s.rounds, 1)
		if err != nil {
			return err
		}
		if err = report.add(r, g); err != nil {
			return err
		}
		chart.addRates(g, r)
		if g == manyGoroutines && s.nodes == 5 {
			loadAims(reached, r)
		}
	}
	report.end()
	return errors.Join(reached.report(out), out.plot("throughput", "Throughput against goroutines, a line per library", chart.chart()))
}

// loadAims are those at 64 goroutines on five nodes.
func loadAims(a *aims, r results) {
	const at = ", 64 goroutines, N = 5"
	a.atLeast(0.80, "op/s / floor"+at, r.ratios("redlock", "floor", turn.rate))
	a.atMost(1.30, "client CPU / floor"+at, r.ratios("redlock", "floor", turn.clientCPU))
	a.atMost(1.25, "servers' CPU / floor"+at, r.ratios("redlock", "floor", turn.serverCPU))
	a.atLeast(5, "op/s / redsync-redigo"+at, r.ratios("redlock", "redsync-redigo", turn.rate))
	a.atLeast(3.5, "op/s / redsync-rueidis"+at, r.ratios("redlock", "redsync-rueidis", turn.rate))
	a.atMost(1.0/3, "lock p99 / redsync-redigo"+at, r.ratios("redlock", "redsync-redigo", turn.lockP99))
	a.atMost(1.0/3, "lock+unlock p99 / redsync-redigo"+at, r.ratios("redlock", "redsync-redigo", turn.bothP99))
}

// byNodes measures the same against the number of nodes.
func byNodes(s settings, out *section) error {
	report := &report{out: out, setting: "N"}
	report.title = fmt.Sprintf("Lock+unlock, %d goroutines, %s: medians of %d rounds of %v for each client", manyGoroutines, s.keys(), s.rounds, s.time)
	chart := throughputLines(fmt.Sprintf("Lock+unlock per second with %d goroutines", manyGoroutines), "nodes")
	reached := newAims()
	err := onEach(s, out, manyGoroutines, s.turns(manyGoroutines), 1, func(n int, r results) error {
		chart.addRates(n, r)
		if n == 1 {
			reached.atLeast(2, "op/s / redsync-redigo, 64 goroutines, N = 1", r.ratios("redlock", "redsync-redigo", turn.rate))
		}
		return report.add(r, n)
	})
	if err != nil {
		return err
	}
	report.end()
	return errors.Join(reached.report(out), out.plot("nodes", "Throughput against nodes, a line per library", chart.chart()))
}

// onEach compares the libraries on each number of nodes.
func onEach(s settings, out *section, goroutines int, w work, blocks int, each func(n int, r results) error) error {
	for i, n := range s.nodeCounts {
		these, err := choose(s, out, n)
		if err != nil {
			return err
		}
		if i > 0 { // What does not depend on the nodes is measured once.
			these = slices.DeleteFunc(these, func(l library) bool { return l.Servers == libraries.Elsewhere })
		}
		if len(these) == 0 {
			continue
		}
		cluster, err := testcluster.StartServers(n)
		if err != nil {
			return err
		}
		r, err := compare(these, on(cluster.Addrs(), s.ttl, goroutines), cluster.Nodes, w, s.rounds, blocks)
		if err = errors.Join(err, cluster.Close()); err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
		if err = each(n, r); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the libraries that the flags name and that can lock on so many nodes. It
// says which are left out.
func choose(s settings, out *section, nodes int) ([]library, error) {
	these, others := applicable(pick(s.only), nodes)
	if len(others) == 0 {
		return these, nil
	}
	_, err := fmt.Fprintf(out.out, "\nLeft out with %d nodes, since they lock on one: %s\n", nodes, strings.Join(others, ", "))
	if err == nil && len(these) == 0 {
		err = errors.New("-only: none of these locks on so many nodes")
	}
	return these, err
}

// compare has clients of the libraries do the same work in turn.
func compare(these []library, o opening, nodes []*testcluster.Node, w work, rounds, blocks int) (results, error) {
	clients, err := openAll(these, o)
	if err != nil {
		return results{}, err
	}
	defer closeClients(clients)
	entrants := make([]*entrant, len(clients))
	for i, c := range clients {
		entrants[i] = &entrant{name: c.Name, client: c, nodes: nodes, work: w}
	}
	return takeTurns(entrants, rounds, blocks)
}

// keys says which keys are locked.
func (s settings) keys() string {
	if s.fresh {
		return "a new key for every lock"
	}
	return "one key per goroutine"
}

// turns is the work of turns of the usual length.
func (s settings) turns(goroutines int) work {
	return work{goroutines: goroutines, length: s.time, fresh: s.fresh}
}

// blockTime is how long a block of a fixed number of locks takes at most.
const blockTime = 150 * time.Millisecond

// blocksOf is the work of blocks of the usual number of locks, by one caller.
func (s settings) blocksOf() work {
	return work{goroutines: 1, length: blockTime, locks: s.blockSize, fresh: s.fresh}
}
