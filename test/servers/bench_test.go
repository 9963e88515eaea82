package servers

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// BenchmarkLockUnlock is a lock and its release on five real servers, every
// goroutine with a key of its own. bench/ compares with other libraries.
func BenchmarkLockUnlock(b *testing.B) {
	c := testcluster.RunServers(b, 5)
	for _, goroutines := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			r := newOver(b, serverNodes(c))
			var id atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(max(1, goroutines/2))
			if goroutines == 1 {
				benchCycles(b, r, "k", func(i int) bool { return i < b.N })
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				benchCycles(b, r, "k"+strconv.FormatInt(id.Add(1), 10), func(int) bool { return pb.Next() })
			})
		})
	}
}

func benchCycles(b *testing.B, r *redlock.Redlock, key string, more func(i int) bool) {
	b.Helper()
	for i := 0; more(i); i++ {
		l, err := r.TryLock(b.Context(), []string{key}, 10*time.Second)
		if err != nil {
			b.Error(err)
			return
		}
		if err := l.Unlock(b.Context()); err != nil {
			b.Error(err)
			return
		}
	}
}

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
