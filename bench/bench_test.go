package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// BenchmarkLockUnlock has every goroutine lock and unlock a key of its own, on
// five servers. Compare runs with benchstat; the command of this package
// compares the clients with each other more fairly, since they take turns there.
func BenchmarkLockUnlock(b *testing.B) {
	const (
		nodes = 5
		ttl   = 8 * time.Second
	)
	goroutines := []int{1, 8, 64}
	cluster := testcluster.RunServers(b, nodes)
	clients, err := newClients(cluster.Addrs(), ttl, goroutines[len(goroutines)-1])
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { closeClients(clients) })
	for _, c := range clients {
		b.Run(c.Name, func(b *testing.B) {
			for _, n := range goroutines {
				b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) { benchmark(b, c, n) })
			}
		})
	}
}

// runs makes the keys of every benchmark run its own: redsync with fail-fast
// can leave one behind on a node.
var runs atomic.Int64

func benchmark(b *testing.B, c client, goroutines int) {
	b.Helper()
	ctx := context.Background()
	prefix := fmt.Sprintf("%s:%d:", c.Name, runs.Add(1))
	if observe(c.NewWorker(), prefix+"first").failed { // Connects.
		b.Fatal("no lock")
	}
	var number, failed atomic.Int64
	b.ReportAllocs()
	procs := runtime.GOMAXPROCS(0)
	b.SetParallelism((goroutines + procs - 1) / procs)
	cpu := cpuTime()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		i := number.Add(1)
		if i > int64(goroutines) {
			return // RunParallel starts a multiple of the number of processors.
		}
		w := c.NewWorker()
		key := prefix + strconv.FormatInt(i, 10)
		for pb.Next() {
			err := w.Try(ctx, key)
			if err == nil {
				err = w.Unlock(ctx)
			}
			if err != nil {
				failed.Add(1)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(micros(cpuTime()-cpu)/float64(b.N), "client-cpu-µs/op")
	b.ReportMetric(100*float64(failed.Load())/float64(b.N), "failed-%")
}
