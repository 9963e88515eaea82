package released

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A direct mutex is the library without redsync's API.
type direct struct {
	r    *redlock.Redlock
	key  string
	lock *redlock.Lock
}

func (d *direct) Lock() (err error) {
	d.lock, err = d.r.Lock(context.Background(), []string{d.key}, 8*time.Second)
	return err
}

func (d *direct) Unlock() (bool, error) { return true, d.lock.Unlock(context.Background()) }
func (d *direct) Until() time.Time      { return d.lock.Until() }

// The figures of docs/migrating.md: a lock and its unlock, by callers with a key each. Run it with -count, and compare
// medians: the speed of a machine changes.
func BenchmarkRounds(b *testing.B) {
	for _, servers := range []int{1, 3, 5} {
		c := testcluster.RunServers(b, servers)
		r := testkit.NewOver(b, testkit.ServerNodes(c), redlock.WithNodeTimeout(10*time.Second))
		for kind, newMutex := range map[string]func(key string) mutex{
			"redsync": kinds["redsync"](c.Addrs()), "drop-in": kinds["drop-in"](c.Addrs()),
			"library": func(key string) mutex { return &direct{r: r, key: key} },
		} {
			require.NoError(b, newMutex("warm:"+kind).Lock()) // Connected.
			for _, callers := range []int{1, 64} {
				b.Run(fmt.Sprintf("nodes=%d/callers=%d/%s", servers, callers, kind), func(b *testing.B) {
					var turns atomic.Int64
					var all sync.WaitGroup
					for i := range callers {
						all.Go(func() {
							for key := fmt.Sprintf("%s:%d", kind, i); turns.Add(1) <= int64(b.N); {
								m := newMutex(key)
								if assert.NoError(b, m.Lock()) {
									_, err := m.Unlock()
									assert.NoError(b, err)
								}
							}
						})
					}
					all.Wait()
				})
			}
		}
	}
}
