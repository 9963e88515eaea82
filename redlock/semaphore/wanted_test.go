package semaphore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// One who waits for a permit waits for all of them. About one makes room all the same, and not all of them; whoever
// waits is served in the end.
func TestAboutAsManyMakeRoomAsWait(t *testing.T) {
	const k, processes, waiting = 12, 3, 2
	for _, within := range []bool{true, false} { // The callers wait in a process that has permits, or in one of their own.
		testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			rs := make([]*redlock.Redlock, processes)
			for i := range rs {
				rs[i] = testkit.NewRedlock(t, c)
			}
			rounds, made := testkit.Rounds(20, 3), atomic.Int64{}
			for range rounds {
				round, end := context.WithCancel(t.Context())
				for _, r := range rs {
					for _, p := range acquireAll(t, newSemaphore(t, r, k), k/processes) {
						kept := p.KeepAlive(round)
						go func() {
							select {
							case <-p.Wanted():
								made.Add(1)
								time.Sleep(500 * time.Millisecond) // It brings its work to an end.
							case <-kept.Done():
							}
							assert.NoError(t, p.Unlock(context.WithoutCancel(round)))
						}()
					}
				}
				synctest.Wait()
				s := process(t, c, k)
				if within {
					s = newSemaphore(t, rs[0], k)
				}
				calls := [waiting]*call{start(t.Context(), s), start(t.Context(), s)}
				for _, call := range calls {
					unlock(t, call.got(t))
				}
				time.Sleep(ttl)
				end()
				time.Sleep(100 * time.Millisecond)
				requireNothingLeft(t, c)
			}
			t.Logf("%d made room for %d", made.Load(), rounds*waiting)
			assert.GreaterOrEqual(t, made.Load(), int64(rounds*waiting)/2, "one may serve both, one after the other")
			assert.LessOrEqual(t, made.Load(), int64(rounds*waiting*3))
		})
	}
}

// Whoever looks at the channel again and again, while somebody waits, draws no more lots by that.
func TestLooksDrawNoLots(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const k = 20
		s := process(t, c, k)
		held := acquireAll(t, s, k)
		next := start(t.Context(), s)
		time.Sleep(time.Second)
		wanted := func() (n int) {
			for _, p := range held {
				select {
				case <-p.Wanted():
					n++
				default:
				}
			}
			return n
		}
		before := wanted()
		for range 100 {
			after := wanted()
			require.Equal(t, before, after)
		}
		unlock(t, held...)
		unlock(t, next.got(t))
	})
}
