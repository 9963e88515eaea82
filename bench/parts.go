package main

import (
	"errors"
	"slices"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A part is one measurement.
type part struct {
	name  string
	run   func(settings, *section) error
	plots []string // the names of the plots that it draws
}

// parts are in the order in which they run.
var parts = []part{
	{"throughput", throughputPart, []string{"throughput"}},
	{"latency", latencyPart, []string{"latency"}},
	{"fencing", fencing, nil},
	{"quarantine", quarantine, nil},
	{"degraded", degraded, []string{"degraded"}},
	{"late", late, nil},
	{"resets", resets, nil},
	{"coldstart", coldStart, nil},
	{"handover", handover, []string{"contention", "fairness"}},
	{"contention", contention, nil},
	{"handon", handon, nil},
	{"expiry", expiry, nil},
	{"waiters", waiters, nil},
	{"overload", overload, []string{"overload"}},
}

func partNames() []string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return names
}

func throughputPart(s settings, out *section) error {
	return withClients(s, func(cluster *testcluster.Cluster, clients []client) error {
		points, err := throughput(s, out, cluster, clients)
		if err != nil {
			return err
		}
		return out.plot("throughput", "Throughput against goroutines, a line per library", throughputChart(s, clients, points))
	})
}

func latencyPart(s settings, out *section) error {
	return withClients(s, func(_ *testcluster.Cluster, clients []client) error {
		stretches, err := latency(s, out, clients)
		if err != nil {
			return err
		}
		return out.plot("latency", "Percentiles of the latency of one caller, a row per library", latencyChart(s, clients, stretches))
	})
}

// withClients starts servers and gives all clients their turns.
func withClients(s settings, measure func(*testcluster.Cluster, []client) error) (err error) {
	cluster, err := testcluster.StartServers(s.nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	clients, err := newClients(cluster.Addrs(), s.ttl, slices.Max(s.goroutines), s.only...)
	if err != nil {
		return err
	}
	defer closeClients(clients)
	return measure(cluster, clients)
}
