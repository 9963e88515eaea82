package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/tables"
)

// injectedTrips are the round trips that proxies in front of the nodes add.
var injectedTrips = []time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond}

// tripLocks is the number of locks in a turn of one caller far away: a tenth of those in a
// block of one that is near.
func (s settings) tripLocks() int { return max(s.blockSize/10, 1) }

// tripLibraries are those that are compared far away. The first of them is the control.
func tripLibraries() []library {
	ping := library{Name: "PING to one node", Open: openPing}
	return append([]library{ping, libraries.Redlock, libraries.Fenced}, pick([]string{"redsync-redigo", "redsync-redigo-failfast"})...)
}

// roundTrips measures how long a lock takes, in round trips.
func roundTrips(s settings, out *section, cluster *testcluster.Cluster) (err error) {
	clients, err := openAll(tripLibraries(), on(cluster.Addrs(), s.ttl, 1))
	if err != nil {
		return err
	}
	defer closeClients(clients)
	var entrants []*entrant
	for _, trip := range injectedTrips {
		for _, c := range clients {
			entrants = append(entrants, &entrant{
				name: tripName(trip, c.Name), client: c, nodes: cluster.Nodes,
				work:   work{goroutines: 1, length: time.Minute, locks: s.tripLocks()},
				before: func() error { return setTrip(cluster, trip) }, warm: trip != injectedTrips[0],
			})
		}
	}
	r, err := takeTurns(entrants, s.rounds, 1)
	if err != nil {
		return err
	}
	return reportTrips(s, out, clients, r)
}

func tripName(trip time.Duration, client string) string { return trip.String() + " " + client }

// setTrip has every message to and from the nodes take half a round trip.
func setTrip(cluster *testcluster.Cluster, trip time.Duration) error {
	for _, n := range cluster.Nodes {
		n.Proxy().SetDelay(trip/2, trip/2)
	}
	return nil
}

func reportTrips(s settings, out *section, clients []client, r results) error {
	t := tables.New(fmt.Sprintf("One caller and %d nodes behind proxies that add a round trip: medians of %d rounds of %d locks. PING shows what a round trip really takes: timers add about a millisecond to it",
		s.nodes, s.rounds, s.tripLocks()),
		"round trip", "client", "lock p50 ms", "lock p99 ms", "lock+unlock p50 ms", "lock p50 / round trip", "lock p50 / PING")
	reached := newAims()
	for _, trip := range injectedTrips {
		for _, c := range clients {
			name := tripName(trip, c.Name)
			inPings := r.ratios(name, tripName(trip, clients[0].Name), turn.lockP50)
			inTrips := each(r.of(name, turn.lockP50), func(f float64) float64 { return f / micros(trip) })
			in := func(f func(turn) float64) string { return fmt.Sprintf("%.2f", median(r.of(name, f))/1000) }
			t.Add(trip.String(), c.Name, in(turn.lockP50), in(turn.lockP99), in(turn.bothP50), fmt.Sprintf("%.2f", median(inTrips)),
				number(median(inPings), "%.2f"))
			if trip == 5*time.Millisecond && (c.Name == libraries.Redlock.Name || c.Name == libraries.Fenced.Name) {
				reached.atMost(1.15, fmt.Sprintf("lock p50 / PING, round trip of %v, %s", trip, c.Name), inPings)
			}
		}
	}
	return errors.Join(out.table(t), reached.report(out))
}

// openPing is the control: what a round trip takes without a lock.
func openPing(o opening) (client, error) {
	conn, err := redis.Dial("tcp", o.Addrs[0])
	if err != nil {
		return client{}, err
	}
	return client{Name: "PING to one node", NewWorker: func() worker { return pingWorker{conn} }, Close: func() { _ = conn.Close() }}, nil
}

type pingWorker struct{ conn redis.Conn }

func (w pingWorker) Try(context.Context, string) error {
	_, err := w.conn.Do("PING")
	return err
}

func (pingWorker) Unlock(context.Context) error { return nil }
