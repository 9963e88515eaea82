//go:build unix

package servers

import (
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// BenchmarkKeptLocks holds 10 000 locks with a ttl of 10 s on five real servers
// by KeepAlive, for -benchtime, at least 10 s: what one costs, and whether the
// extensions keep up. The CPU is that of this process, per wall-clock second.
func BenchmarkKeptLocks(b *testing.B) {
	const locks = 10_000
	const ttl = 10 * time.Second
	c := testcluster.RunServers(b, 5)
	r := newOver(b, serverNodes(c))
	kept := make([]*redlock.Lock, locks)
	var each float64
	for range 2 { // The first time fills the pools and buffers.
		for _, l := range kept {
			if l != nil {
				_ = l.Unlock(b.Context())
			}
		}
		clear(kept)
		before := heap()
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				var err error
				for i := g; i < locks; i += 16 {
					if kept[i], err = r.TryLock(b.Context(), []string{"k" + strconv.Itoa(i)}, ttl); err != nil {
						b.Error(err)
						return
					}
					_ = kept[i].KeepAlive(b.Context())
				}
			})
		}
		wg.Wait()
		each = float64(heap()-before) / locks
	}
	extended, cpu, start := r.Stats().Extended, processCPU(), time.Now()
	for b.Loop() {
		time.Sleep(10 * time.Second)
	}
	took := time.Since(start)
	b.ReportMetric(float64(processCPU()-cpu)/float64(took), "cores")
	b.ReportMetric(float64(r.Stats().Extended-extended)/took.Seconds(), "extensions/s")
	lost, least := 0, ttl
	for _, l := range kept {
		if l.Err() != nil {
			lost++
		}
		least = min(least, time.Until(l.Until()))
	}
	b.ReportMetric(float64(lost), "lost")
	b.ReportMetric(each, "heap-B/lock")
	b.ReportMetric(least.Seconds(), "least-s-left")
	for _, l := range kept {
		_ = l.Unlock(b.Context())
	}
	_ = r.Close(b.Context())
}

// processCPU is the CPU time that this process has used.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
