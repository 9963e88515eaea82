package main

import (
	"errors"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// parts are in the order in which they run.
var parts = []part{
	{"libraries", listLibraries, nil}, // setups.go
	{"throughput", onNodes(throughput), []string{"throughput"}},
	{"nodes", byNodes, []string{"nodes"}}, // throughput.go
	{"latency", latency, []string{"latency"}},
	{"roundtrips", onNodes(roundTrips, testcluster.WithProxy()), nil},
	{"resources", onNodes(resources), nil},
	{"hung", hung, nil},
	{"scale", onNodes(scale), nil},
	{"fencing", onNodes(fencing), nil},
	{"quarantine", onNodes(quarantine), nil}, // fencing.go
	{"degraded", degraded, []string{"degraded"}},
	{"late", late, nil},     // faulty.go
	{"resets", resets, nil}, // faulty.go
	{"coldstart", onNodes(coldStart, testcluster.WithArgs("--requirepass", benchPassword)), nil},
	{"contention", contention, []string{"contention", "fairness"}},
	{"hot", hot, nil},
	{"semaphore", permits, nil},
	{"handon", onNodes(handon), nil},
	{"expiry", onNodes(expiry), nil},
	{"waiters", onNodes(waiters), nil},
	{"line", inLine, nil},
	{"overload", onNodes(overload), []string{"overload"}},
}

// onNodes has a part measure on servers of its own, as many as the flags say.
func onNodes(run func(settings, *section, *testcluster.Cluster) error, opts ...testcluster.ServerOption) func(settings, *section) error {
	return func(s settings, out *section) error {
		cluster, err := testcluster.StartServers(s.nodes, opts...)
		if err != nil {
			return err
		}
		return errors.Join(run(s, out, cluster), cluster.Close())
	}
}

func partNames() []string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return names
}
