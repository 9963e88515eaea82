package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A load is callers that lock and unlock, each a resource of its own, in a closed loop. One
// that fails comes back after 50 to 150 ms.
type load struct {
	got, overloaded, unanswered, other, unlocks atomic.Int64 // unlocks: those that failed
	stop                                        atomic.Bool
	wg                                          sync.WaitGroup
}

func startLoad(r *redlock.Redlock, callers int, opts ...redlock.Option) *load {
	l := new(load)
	for i := range callers {
		l.wg.Go(func() {
			time.Sleep(rand.N(50 * time.Millisecond))
			for !l.stop.Load() {
				lock, err := r.TryLock(context.Background(), []string{fmt.Sprint(callers, " ", i)}, ttl, opts...)
				switch {
				case err == nil:
					l.got.Add(1)
					if lock.Unlock(context.Background()) != nil {
						l.unlocks.Add(1)
					}
					continue
				case redlock.IsOverload(err):
					l.overloaded.Add(1)
				case errors.Is(err, redlock.ErrNoQuorum):
					l.unanswered.Add(1)
				default:
					l.other.Add(1)
				}
				time.Sleep(50*time.Millisecond + rand.N(100*time.Millisecond))
			}
		})
	}
	return l
}

func (l *load) end() {
	l.stop.Store(true)
	l.wg.Wait()
}

// work has nodes carry out one command at a time, each of which takes so long, but for PTTL: it goes with
// SET.
func work(t *testing.T, d time.Duration, nodes ...*testcluster.Node) {
	t.Helper()
	for _, n := range nodes {
		require.NoError(t, n.OnCommand(func(cmd string, _ []string) {
			if cmd != "PTTL" {
				time.Sleep(d)
			}
		}))
	}
}

// Load beyond what the nodes can carry costs the excess only. Without an admission, 2 000
// callers bring the goodput to 0, releases fail, and a kept lock is lost.
func TestOverload(t *testing.T) {
	for _, callers := range []int{1000, 2000, 4000}[rounds(1, 0):rounds(3, 1)] {
		t.Run(strconv.Itoa(callers), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c, redlock.WithNodeTimeout(250*time.Millisecond))
				warm(t, r)
				kept, err := r.TryLock(t.Context(), []string{"kept"}, 900*time.Millisecond)
				require.NoError(t, err)
				keeping := kept.KeepAlive(t.Context())
				const capacity = 1000 // locks with their releases in a second
				work(t, time.Second/2/capacity, c.Nodes...)
				defer work(t, 0, c.Nodes...)
				l := startLoad(r, callers)
				time.Sleep(500 * time.Millisecond)
				before, measured := l.got.Load(), time.Now()
				for range 6 {
					time.Sleep(50 * time.Millisecond)
					start := time.Now()
					require.NoError(t, kept.Extend(t.Context(), 900*time.Millisecond))
					assert.Less(t, time.Since(start), 125*time.Millisecond)
				}
				rate := float64(l.got.Load()-before) / time.Since(measured).Seconds()
				s := r.Stats()
				t.Logf("%.0f/s; turned away %d, unanswered %d; window %d, queued %d", rate, l.overloaded.Load(), l.unanswered.Load(), s.Window, s.Queued)
				assert.Positive(t, s.Queued)
				assert.LessOrEqual(t, s.Asking, s.Window+1)
				l.end()
				assert.Greater(t, rate, 0.7*capacity)
				assert.Zero(t, l.unlocks.Load())
				assert.Zero(t, l.other.Load())
				assert.Positive(t, l.overloaded.Load())
				assert.Less(t, l.unanswered.Load(), int64(capacity/3), "asked for nothing")
				require.NoError(t, keeping.Err(), "a kept lock was lost though all nodes are healthy")
				require.NoError(t, kept.Unlock(t.Context()))
				synctest.Wait()
				assert.Zero(t, r.Stats().Asking)
			})
		})
	}
}

// However slow nodes are, what they can do is not wasted on rounds that have too little time
// left after their wait.
func TestOverloadOfSlowNodes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		const each = 2 * time.Millisecond
		work(t, each, c.Nodes...)
		defer work(t, 0, c.Nodes...)
		l := startLoad(r, 1000)
		time.Sleep(3 * time.Second)
		before, unlocks := l.got.Load(), l.unlocks.Load()
		time.Sleep(time.Second)
		got := l.got.Load() - before
		t.Logf("%d/s, turned away %d, unanswered %d, window %d", got, l.overloaded.Load(), l.unanswered.Load(), r.Stats().Window)
		assert.Greater(t, got, int64(time.Second/each/2)/2)
		l.end()
		assert.Equal(t, unlocks, l.unlocks.Load(), "releases that failed when the nodes' pace was known")
	})
}

// Calls with a short node timeout do not starve behind those with a long one, nor the other way
// round.
func TestOverloadOfShortAndLongTimeouts(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		work(t, scenario(time.Millisecond/2, 2*time.Millisecond), c.Nodes...)
		defer work(t, 0, c.Nodes...)
		long := startLoad(r, rounds(1500, 400), redlock.WithNodeTimeout(10*time.Second))
		short := startLoad(r, 10)
		time.Sleep(3 * time.Second)
		long.end()
		short.end()
		share := func(l *load) float64 {
			failed := l.overloaded.Load() + l.unanswered.Load() + l.other.Load()
			t.Logf("%d ok, %d failed", l.got.Load(), failed)
			return float64(l.got.Load()) / float64(l.got.Load()+failed)
		}
		shares := []float64{share(long), share(short)}
		assert.Greater(t, slices.Min(shares), slices.Max(shares)*2/3)
	})
}

// A slow minority is not asked for more than it answers: it would gather seconds of work.
func TestOverloadBoundsTheBacklogOfASlowMinority(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithNodeTimeout(250*time.Millisecond))
		places := r.Stats().Window
		warm(t, r)
		kept, err := r.TryLock(t.Context(), []string{"kept"}, ttl)
		require.NoError(t, err)
		work(t, 400*time.Microsecond, c.Nodes[:2]...)
		work(t, time.Millisecond, c.Nodes[2])
		defer work(t, 0, c.Nodes...)
		l := startLoad(r, 50)
		most := 0
		for range rounds(100, 60) {
			time.Sleep(10 * time.Millisecond)
			most = max(most, r.Stats().Nodes[2].Backlog)
		}
		l.end()
		t.Logf("%d locks, backlog %d", l.got.Load(), most)
		assert.LessOrEqual(t, most, 4*places+100)
		assert.Zero(t, l.unlocks.Load())
		assert.Zero(t, l.overloaded.Load()+l.unanswered.Load())
		time.Sleep(time.Second)
		require.NoError(t, kept.Extend(t.Context(), ttl))
		requireNoOther(t, c, kept)
	})
}

// requireNoOther checks that no node stores another lock.
func requireNoOther(t *testing.T, c *testcluster.Cluster, l *redlock.Lock) {
	t.Helper()
	for _, n := range c.Nodes {
		for key := range keys(t, n) {
			require.Contains(t, l.Resources(), key, n.Name())
		}
	}
}

// Whatever a hung majority has made of the admission, it does not last.
func TestOverloadEndsAfterAHungMajority(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithNodeTimeout(250*time.Millisecond))
		places := r.Stats().Window
		warm(t, r)
		work(t, scenario(time.Millisecond, 2*time.Millisecond), c.Nodes...)
		defer work(t, 0, c.Nodes...)
		c.Nodes[0].Proxy().Hang()
		c.Nodes[1].Proxy().Hang()
		l := startLoad(r, rounds(200, 100))
		time.Sleep(scenario(5*time.Second, 3*time.Second))
		require.LessOrEqual(t, r.Stats().Window, places)
		c.Nodes[0].Proxy().Resume()
		c.Nodes[1].Proxy().Resume()
		time.Sleep(2 * time.Second) // Reconnecting.
		before := l.got.Load()
		time.Sleep(500 * time.Millisecond)
		rate := 2 * (l.got.Load() - before)
		t.Logf("%d/s, %+v", rate, r.Stats().Window)
		l.end()
		assert.Greater(t, rate, int64(rounds(350, 175)), "of %d", rounds(500, 250))
	})
}

// The scripts come back under full load.
func TestOverloadWithAScriptFlush(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithNodeTimeout(250*time.Millisecond))
		warm(t, r)
		work(t, 400*time.Microsecond, c.Nodes...)
		defer work(t, 0, c.Nodes...)
		l := startLoad(r, rounds(1000, 500))
		time.Sleep(300 * time.Millisecond)
		require.NoError(t, c.FlushScripts())
		time.Sleep(300 * time.Millisecond)
		before := l.got.Load()
		time.Sleep(300 * time.Millisecond)
		assert.Greater(t, l.got.Load()-before, int64(200), "of 375")
		l.end()
		assert.Zero(t, l.unlocks.Load())
		time.Sleep(time.Second)
		requireNoKeys(t, c)
	})
}

// Where the way takes most of the node timeout, attempts are not turned away for that, and one
// that waits for its turn keeps the time that its round needs.
func TestOverloadIsNotSeenInALongWay(t *testing.T) {
	for _, trip := range []time.Duration{160 * time.Millisecond, 200 * time.Millisecond}[rounds(0, 1):] {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c, redlock.WithNodeTimeout(250*time.Millisecond))
			require.NoError(t, c.Slow(trip/2, trip/2))
			l := startLoad(r, 160)
			time.Sleep(time.Second)
			before := l.got.Load()
			time.Sleep(time.Second)
			assert.Greater(t, l.got.Load()-before, int64(time.Second/trip)*40, "way %v, window %d", trip, r.Stats().Window)
			l.end()
		})
	}
}

// Calls with a long node timeout that have all places keep a dead connection no longer than
// it takes to find out that it is dead: the others, which are turned away, are told of no silence.
func TestOverloadOfLongTimeoutsOnADeadConnectionHoldsUpNobody(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		places := r.Stats().Window
		warm(t, r)
		blackHole := func(on bool) {
			for _, n := range c.Nodes[:2] {
				n.Proxy().BlackHole(on)
			}
		}
		blackHole(true)
		var long sync.WaitGroup
		for i := range 2 * places {
			long.Go(func() {
				_, _ = r.TryLock(t.Context(), []string{"long" + strconv.Itoa(i)}, time.Hour, redlock.WithNodeTimeout(10*time.Minute))
			})
		}
		time.Sleep(500 * time.Millisecond)
		blackHole(false) // For new connections.
		_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.True(t, redlock.IsOverload(err), "%v", err)
		time.Sleep(node.MinSilence + node.WatchInterval)
		cycle(t, r, "x", ttl)
		long.Wait()
	})
}
