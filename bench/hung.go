package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// hung measures throughput, latency and cost while nodes hang, beside the same with all of
// them healthy. Each number of hung nodes has servers of its own, so that they can take turns.
func hung(s settings, out *section) (err error) {
	minority := (s.nodes - 1) / 2
	if minority == 0 {
		return errors.New("with so few nodes none may hang; see -nodes")
	}
	these := append([]library{redlockLibrary, fencedLibrary}, pick([]string{"redsync-redigo", "redsync-redigo-failfast"})...)
	bases := make(map[string]string)
	var entrants []*entrant
	for _, number := range slices.Compact([]int{0, 1, minority}) {
		cluster, err := testcluster.StartServers(s.nodes)
		if err != nil {
			return err
		}
		defer func() { _ = cluster.Close() }()
		clients, err := openAll(these, opening{cluster.Addrs(), s.ttl, manyGoroutines})
		if err != nil {
			return err
		}
		defer closeClients(clients)
		if err = connect(clients); err != nil {
			return err
		}
		for _, n := range cluster.Nodes[s.nodes-number:] {
			if err = n.Hang(); err != nil {
				return err
			}
		}
		for _, c := range clients {
			name := hungName(c.name, number)
			if number > 0 {
				bases[name] = hungName(c.name, 0)
			}
			entrants = append(entrants, &entrant{name: name, client: c, nodes: cluster.Nodes[:s.nodes-number], work: s.turns(manyGoroutines)})
		}
	}
	time.Sleep(s.settle)
	r, err := takeTurns(entrants, s.rounds, 1)
	if err != nil {
		return err
	}
	return reportHung(s, out, r, bases, minority)
}

// connect has each client lock once, so that it is connected before nodes hang.
func connect(clients []client) error {
	for _, c := range clients {
		if o := observe(c.newWorker(), "connect:"+c.name); o.err != nil {
			return fmt.Errorf("%s: %w", c.name, o.err)
		}
	}
	return nil
}

func hungName(client string, number int) string {
	if number == 0 {
		return client + ", all healthy"
	}
	return fmt.Sprintf("%s, %d hung", client, number)
}

func reportHung(s settings, out *section, r results, bases map[string]string, minority int) error {
	turns := newTurnsTable(fmt.Sprintf("Lock+unlock, %d goroutines, some of %d nodes stopped with SIGSTOP %v before: medians of %d rounds of %v",
		manyGoroutines, s.nodes, s.settle, s.rounds, s.time))
	r.addTurns(turns)
	multiples := newMultiplesTable()
	r.addMultiples(multiples, bases)
	reached := newAims()
	for _, name := range []string{redlockLibrary.name, fencedLibrary.name} {
		reached.atMost(1.3, fmt.Sprintf("client CPU, %d of %d nodes hung / healthy, %s", minority, s.nodes, name),
			r.ratios(hungName(name, minority), hungName(name, 0), turn.clientCPU))
	}
	return errors.Join(out.table(turns), out.table(multiples), reached.report(out))
}
