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

	theirs "github.com/go-redsync/redsync/v4"
	theirredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredislib "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/redsync"
	ourredis "github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v9"
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
	c := testcluster.RunServers(tb, servers)
	var nodes []redlock.Node
	var pools []theirredis.Pool
	var clients []ourredis.Pool
	for _, addr := range c.Addrs() {
		nodes = append(nodes, redlock.NewNode(addr))
		client := goredislib.NewClient(&goredislib.Options{Addr: addr})
		tb.Cleanup(func() { _ = client.Close() })
		clients = append(clients, goredis.NewPool(client))
		p := &redis.Pool{MaxIdle: 2*callers + 8, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
		tb.Cleanup(func() { _ = p.Close() })
		pools = append(pools, redigo.NewPool(p))
	}
	r := testkit.NewOver(tb, nodes, redlock.WithNodeTimeout(10*time.Second)) // Standstills of a busy machine are no failures.
	ours, old, ctx := redsync.New(clients...), theirs.New(pools...), context.Background()
	return []contestant{
		{"library", func(key string) error {
			lock, err := r.Lock(ctx, []string{key}, expiry)
			if err != nil {
				return err
			}
			return lock.Unlock(ctx)
		}},
		{"drop-in", func(key string) error {
			m := ours.NewMutex(key)
			if err := m.Lock(); err != nil {
				return err
			}
			_, err := m.Unlock()
			return err
		}},
		{"redsync", func(key string) error {
			m := old.NewMutex(key)
			if err := m.Lock(); err != nil {
				return err
			}
			_, err := m.Unlock()
			return err
		}},
	}
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
