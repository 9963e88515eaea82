package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// hung measures throughput, latency and cost while nodes hang, beside the same with all of
// them healthy. Each number of hung nodes has servers of its own, so that they can take turns.
func hung(s settings, out *section) error {
	minority := (s.nodes - 1) / 2
	if minority == 0 {
		return errors.New("with so few nodes none may hang; see -nodes")
	}
	var entrants []*entrant
	for _, number := range slices.Compact([]int{0, 1, minority}) {
		group, end, e := hungEntrants(s, number)
		defer end()
		if e != nil {
			return e
		}
		entrants = append(entrants, group...)
	}
	time.Sleep(s.settle)
	r, err := takeTurns(entrants, s.rounds, 1)
	if err != nil {
		return err
	}
	return reportHung(s, out, r, minority)
}

// hungEntrants are the clients of servers so many of which hang. end ends all of them.
func hungEntrants(s settings, number int) (entrants []*entrant, end func(), err error) {
	cluster, err := testcluster.StartServers(s.nodes)
	if err != nil {
		return nil, func() {}, err
	}
	these := append([]library{libraries.Redlock, libraries.Fenced}, pick([]string{"redsync-redigo", "redsync-redigo-failfast"})...)
	clients, err := openAll(these, on(cluster.Addrs(), s.ttl, manyGoroutines))
	end = func() {
		closeClients(clients)
		_ = cluster.Close()
	}
	if err != nil {
		return nil, end, err
	}
	for _, c := range clients {
		connectAll(c, min(s.time, warmUpTime))
		e := &entrant{
			name: hungName(c.Name, number), client: c, nodes: cluster.Nodes[:s.nodes-number],
			work: s.turns(manyGoroutines), warm: true,
		}
		if number > 0 {
			e.base = hungName(c.Name, 0)
		}
		entrants = append(entrants, e)
	}
	for _, n := range cluster.Nodes[s.nodes-number:] {
		if err = n.Hang(); err != nil {
			return nil, end, err
		}
	}
	return entrants, end, nil
}

// connectAll has a client make its connections, before nodes hang.
func connectAll(c client, length time.Duration) {
	workers := make([]worker, manyGoroutines)
	for i := range workers {
		workers[i] = c.NewWorker()
	}
	cycleAll(workers, work{length: length}, "connect:"+c.Name+":", make([]samples, len(workers)), func() {})
}

func hungName(client string, number int) string {
	if number == 0 {
		return client + ", all healthy"
	}
	return fmt.Sprintf("%s, %d hung", client, number)
}

func reportHung(s settings, out *section, r results, minority int) error {
	turns := turnsTable(fmt.Sprintf("Lock+unlock, %d goroutines, some of %d nodes stopped with SIGSTOP %v before: medians of %d rounds of %v",
		manyGoroutines, s.nodes, s.settle, s.rounds, s.time), nil, measurement{nil, r})
	reached := newAims()
	for _, name := range []string{libraries.Redlock.Name, libraries.Fenced.Name} {
		reached.atMost(1.3, fmt.Sprintf("client CPU, %d of %d nodes hung / healthy, %s", minority, s.nodes, name),
			r.ratios(hungName(name, minority), hungName(name, 0), turn.clientCPU))
	}
	return errors.Join(out.table(turns), out.table(r.multiplesTable()), reached.report(out))
}
