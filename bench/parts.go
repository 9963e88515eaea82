package main

// parts are in the order in which they run.
var parts = []part{
	{"libraries", listLibraries, nil},
	{"throughput", throughput, []string{"throughput"}},
	{"nodes", byNodes, []string{"nodes"}},
	{"latency", latency, []string{"latency"}},
	{"roundtrips", roundTrips, nil},
	{"resources", resources, nil},
	{"hung", hung, nil},
	{"scale", scale, nil},
	{"fencing", fencing, nil},
	{"quarantine", quarantine, nil},
	{"degraded", degraded, []string{"degraded"}},
	{"late", late, nil},
	{"resets", resets, nil},
	{"coldstart", coldStart, nil},
	{"contention", contention, []string{"contention", "fairness"}},
	{"semaphore", permits, nil},
	{"handon", handon, nil},
	{"expiry", expiry, nil},
	{"waiters", waiters, nil},
	{"line", inLine, nil},
	{"overload", overload, []string{"overload"}},
}

func partNames() []string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return names
}
