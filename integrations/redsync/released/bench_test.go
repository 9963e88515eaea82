package released

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

const (
	rounds = 5
	slots  = 40                     // of each in a round, by turns: what else the machine does meets all of them
	slot   = 100 * time.Millisecond // how long one takes
	expiry = 8 * time.Second
)

// A contestant locks and unlocks a key once.
type contestant struct {
	name string
	turn func(key string) error
}

func contestants(tb testing.TB, servers, callers int) []contestant {
	tb.Helper()
	addrs := testcluster.RunServers(tb, servers).Addrs()
	var nodes []redlock.Node
	for _, addr := range addrs {
		nodes = append(nodes, redlock.NewNode(addr))
	}
	r := testkit.NewOver(tb, nodes, redlock.WithNodeTimeout(10*time.Second)) // Standstills of a busy machine are no failures.
	all := []contestant{{"library", func(key string) error {
		lock, err := r.Lock(context.Background(), []string{key}, expiry)
		if err != nil {
			return err
		}
		return lock.Unlock(context.Background())
	}}}
	for _, kind := range []string{"drop-in", "redsync"} {
		newMutex := kinds[kind](addrs, callers)
		all = append(all, contestant{kind, func(key string) error {
			m := newMutex(key)
			if err := m.Lock(); err != nil {
				return err
			}
			_, err := m.Unlock()
			return err
		}})
	}
	return all
}

// rate is how many turns a second so many callers have in a slot, each with a key of its own.
func rate(b *testing.B, c contestant, callers int) float64 {
	b.Helper()
	var turns atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for i := range callers {
		all.Go(func() {
			for key := fmt.Sprintf("%s:%d", c.name, i); time.Since(start) < slot; turns.Add(1) {
				if err := c.turn(key); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(turns.Load()) / time.Since(start).Seconds()
}

// The figures of docs/migrating.md: medians of the slots of five rounds, and of the ratios of
// those that follow each other. Run it with -benchtime 1x.
func BenchmarkRounds(b *testing.B) {
	for _, of := range []struct{ servers, callers int }{{1, 1}, {3, 1}, {5, 1}, {1, 64}, {3, 64}, {5, 64}} {
		b.Run(fmt.Sprintf("nodes=%d/callers=%d", of.servers, of.callers), func(b *testing.B) {
			all, callers := contestants(b, of.servers, of.callers), of.callers
			for _, c := range all {
				require.NoError(b, c.turn("warm")) // Connected.
			}
			for b.Loop() {
				rates := map[string][]float64{}
				for range rounds * slots {
					for _, i := range rand.Perm(len(all)) { // What one leaves to the next evens out.
						rates[all[i].name] = append(rates[all[i].name], rate(b, all[i], callers))
						time.Sleep(slot / 10) // Releases that go on in the background are not the next one's.
					}
				}
				for _, c := range all {
					b.ReportMetric(median(rates[c.name]), c.name+"/s")
				}
				for _, than := range []string{"library", "redsync"} {
					var ratios []float64
					for i, r := range rates["drop-in"] {
						ratios = append(ratios, r/rates[than][i])
					}
					b.ReportMetric(median(ratios), "ratio-to-"+than)
				}
			}
		})
	}
}

func median[T cmp.Ordered](of []T) T {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}
