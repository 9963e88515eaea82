//go:build unix

package servers

import (
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// BenchmarkKeptLocks holds 10 000 locks with a ttl of 10 s on five real servers by KeepAlive, for 10 s: what one costs.
// The CPU is that of this process, per wall-clock second.
func BenchmarkKeptLocks(b *testing.B) {
	const locks = 10_000
	r := newOver(b, serverNodes(testcluster.RunServers(b, 5)))
	kept := make([]*redlock.Lock, locks)
	before := heap()
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := g; i < locks; i += 16 {
				kept[i], _ = r.TryLock(b.Context(), []string{"k" + strconv.Itoa(i)}, 10*time.Second)
				_ = kept[i].KeepAlive(b.Context())
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(heap()-before)/locks, "heap-B/lock")
	extended, cpu, start := r.Stats().Extended, processCPU(b), time.Now()
	for b.Loop() {
		time.Sleep(10 * time.Second)
	}
	took := time.Since(start)
	b.ReportMetric(float64(processCPU(b)-cpu)/float64(took), "cores")
	b.ReportMetric(float64(r.Stats().Extended-extended)/took.Seconds(), "extensions/s")
	for _, l := range kept {
		require.NoError(b, l.Unlock(b.Context()))
	}
}

// processCPU is the CPU time that this process has used.
func processCPU(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
