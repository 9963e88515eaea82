package servers

import (
	"fmt"
	"strconv"
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
