package redlock_test

import (
	"context"
	"errors"
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
	"github.com/seed6c881748/redlock/test/testkit"
)

// A load is callers that lock and unlock, each a resource of its own, in a closed loop. One
// that fails comes back after 50 to 150 ms.
type load struct {
	got, overloaded, unanswered, unlocks atomic.Int64 // unlocks: those that failed
	stop                                 atomic.Bool
	wg                                   sync.WaitGroup
}

func startLoad(t *testing.T, r *redlock.Redlock, callers int) *load {
	t.Helper()
	l, seed := new(load), testkit.Seed(t)
	for i := range callers {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		l.wg.Go(func() {
			time.Sleep(testkit.Between(rng, 0, 50*time.Millisecond))
			for !l.stop.Load() {
				lock, err := r.TryLock(context.Background(), []string{strconv.Itoa(i)}, ttl)
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
					t.Error(err)
				}
				time.Sleep(testkit.Between(rng, 50*time.Millisecond, 150*time.Millisecond))
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
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newWarm(t, c, redlock.WithNodeTimeout(250*time.Millisecond))
		kept := tryLock(t, r, []string{"kept"}, 900*time.Millisecond)
		keeping := kept.KeepAlive(t.Context())
		const capacity = 1000 // locks with their releases in a second
		work(t, time.Second/2/capacity, c.Nodes...)
		defer work(t, 0, c.Nodes...)
		l := startLoad(t, r, 2000)
		time.Sleep(500 * time.Millisecond)
		before, measured := l.got.Load(), time.Now()
		for range 6 {
			time.Sleep(50 * time.Millisecond)
			assert.Less(t, took(func() { require.NoError(t, kept.Extend(t.Context(), 900*time.Millisecond)) }), 125*time.Millisecond)
		}
		rate := float64(l.got.Load()-before) / time.Since(measured).Seconds()
		s := r.Stats()
		assert.Positive(t, s.Queued)
		assert.LessOrEqual(t, s.Asking, s.Window+1)
		l.end()
		assert.Greater(t, rate, 0.7*capacity)
		assert.Zero(t, l.unlocks.Load())
		assert.Positive(t, l.overloaded.Load())
		assert.Less(t, l.unanswered.Load(), int64(capacity/3), "asked for nothing")
		require.NoError(t, keeping.Err(), "a kept lock was lost though all nodes are healthy")
		require.NoError(t, kept.Unlock(t.Context()))
		synctest.Wait()
		assert.Zero(t, r.Stats().Asking)
	})
}

// A slow minority is not asked for more than it answers: it would gather seconds of work. Extensions it is asked for.
func TestOverloadBoundsTheBacklogOfASlowMinority(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var locks, extensions atomic.Int64 // that a node was not asked for
		r := newRedlock(t, c, redlock.WithNodeTimeout(250*time.Millisecond), redlock.WithHook(func(_ context.Context, e redlock.Event) {
			refused := slices.ContainsFunc(e.Votes, func(v redlock.Vote) bool { return errors.Is(v.Err, redlock.ErrOverloaded) })
			switch {
			case refused && e.Op == redlock.OpLock:
				locks.Add(1)
			case refused && e.Op == redlock.OpExtend:
				extensions.Add(1)
			}
		}))
		places := r.Stats().Window
		warm(t, r)
		kept := tryLock(t, r, []string{"kept"}, ttl)
		work(t, 400*time.Microsecond, c.Nodes[:2]...)
		work(t, time.Millisecond, c.Nodes[2])
		defer work(t, 0, c.Nodes...)
		l := startLoad(t, r, 50)
		most := 0
		for range rounds(100, 60) {
			time.Sleep(10 * time.Millisecond)
			most = max(most, r.Stats().Nodes[2].Backlog)
			require.NoError(t, kept.Extend(t.Context(), ttl))
		}
		l.end()
		synctest.Wait()
		require.Positive(t, locks.Load())
		require.Zero(t, extensions.Load())
		assert.LessOrEqual(t, most, 4*places+100)
		assert.Zero(t, l.unlocks.Load())
		assert.Zero(t, l.overloaded.Load()+l.unanswered.Load())
		require.NoError(t, kept.Unlock(t.Context()))
		time.Sleep(2 * time.Second)
	})
}

// A silence breaks a row of late rounds, and fewer callers than places may not make another one. That nodes which answer
// all the time have no answer for what is older than the node timeout is the same, and takes half of the places once:
// what is behind was asked before. Nodes that answer nothing are not behind.
func TestOverloadIsSeenInRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		work, silence time.Duration
		callers       int
		refusals      int
		opts          []redlock.Option
		window        float64
	}{
		"behind":                       {4 * time.Millisecond, 60 * time.Millisecond, 100, 50, nil, 64},
		"refused with little patience": {4 * time.Millisecond, 60 * time.Millisecond, 100, 100, []redlock.Option{redlock.WithNodeTimeout(20 * time.Millisecond)}, 64},
		"silent":                       {0, 400 * time.Millisecond, 20, 50, nil, 128},
	} {
		t.Run(name, func(t *testing.T) {
			withWarm(t, 3, func(t *testing.T, cluster *testcluster.Cluster, r *redlock.Redlock) {
				work(t, c.work, cluster.Nodes...)
				defer work(t, 0, cluster.Nodes...)
				begins := time.Duration(0)
				if c.work > 0 {
					begins = 150 * time.Millisecond
				}
				for _, n := range cluster.Nodes {
					time.AfterFunc(begins, n.Proxy().Hang)
					time.AfterFunc(begins+c.silence, n.Proxy().Resume)
				}
				var callers sync.WaitGroup
				for i := range c.callers {
					callers.Go(func() { _, _ = r.TryLock(t.Context(), []string{strconv.Itoa(i)}, ttl) })
				}
				callers.Wait()
				require.InDelta(t, 128, r.Stats().Window, 4)
				for range c.refusals {
					time.Sleep(time.Millisecond)
					refused(t, redlock.ErrNoQuorum, r, []string{"a"}, ttl, c.opts...)
				}
				require.InDelta(t, c.window, r.Stats().Window, 4)
			})
		})
	}
}

// Calls with a long node timeout that have all places keep a dead connection no longer than
// it takes to find out that it is dead: the others, which are turned away, are told of no silence.
func TestOverloadOfLongTimeoutsOnADeadConnectionHoldsUpNobody(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		places := r.Stats().Window
		warm(t, r)
		blackHole := c.First(2).BlackHole
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

// fillAdmission takes all places of the admission that are free, and returns how many.
func fillAdmission(t *testing.T, r *redlock.Redlock) int {
	t.Helper()
	busy, _, limit := redlock.Admission(r).Stats()
	for range limit - busy {
		_, err := redlock.Admission(r).Enter(t.Context(), time.Minute)
		require.NoError(t, err)
	}
	return limit - busy
}

// A TryLock that waits for its turn still ends within the node timeout, and its lock
// counts from when it asked: waiting uses up no validity.
func TestOverloadWaitTakesNoneOfTheLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newWarm(t, c, redlock.WithNodeTimeout(250*time.Millisecond))
		fillAdmission(t, r)
		time.AfterFunc(150*time.Millisecond, redlock.Admission(r).GiveBack)
		start := time.Now()
		l := tryLock(t, r, []string{"a"}, ttl)
		require.Equal(t, 150*time.Millisecond, time.Since(start))
		require.Equal(t, start.Add(150*time.Millisecond+testkit.Validity(ttl)), l.Until())

		fillAdmission(t, r) // The place is free again.
		c.BlackHole(true)
		time.AfterFunc(150*time.Millisecond, redlock.Admission(r).GiveBack)
		start = time.Now()
		err := refusal(t, redlock.ErrNoQuorum, r, []string{"b"}, ttl)
		require.False(t, redlock.IsOverload(err))
		require.Equal(t, 250*time.Millisecond, time.Since(start))
	})
}

func TestOverloadTurnsAway(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newWarm(t, c, redlock.WithNodeTimeout(200*time.Millisecond), redlock.WithHook(rec.Hook))
		fillAdmission(t, r)
		asked := countCommands(t, "", c.Nodes...)
		start := time.Now()
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		assert.InDelta(t, 150*time.Millisecond, time.Since(start), float64(6*time.Millisecond))
		require.True(t, redlock.IsOverload(err))
		for _, v := range votesOf(t, err) {
			require.Equal(t, redlock.ErrOverloaded, v.Err)
		}
		require.NotErrorIs(t, err, redlock.ErrOverloaded, "as all errors of nodes")
		require.Zero(t, asked.Load(), "nodes were asked")

		for range 19 { // In three seconds.
			_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
			require.True(t, redlock.IsOverload(err))
		}
		synctest.Wait()
		require.EqualValues(t, 20, r.Stats().Overloaded)
		require.Zero(t, r.Stats().NoQuorum)
		events := rec.TakeOf(redlock.EventOverloaded)
		require.Len(t, events, 3, "one a second")
		require.Equal(t, 7, events[1].TurnedAway)
	})
}

// A round keeps its place until its votes decide it, whatever its caller does, or
// callers that end early would overload the nodes.
func TestOverloadCallersThatEndEarlyKeepTheirPlaces(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithNodeTimeout(250*time.Millisecond))
		places := r.Stats().Window
		warm(t, r)
		work(t, 2*time.Millisecond, c.Nodes...)
		defer work(t, 0, c.Nodes...)
		var wg sync.WaitGroup
		for i := range rounds(1000, 500) {
			wg.Go(func() {
				for range rounds(10, 4) {
					ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
					_, err := r.TryLock(ctx, []string{strconv.Itoa(i)}, ttl)
					cancel()
					for _, n := range r.Stats().Nodes {
						assert.LessOrEqual(t, n.Backlog, 4*places)
					}
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				}
			})
		}
		wg.Wait()
		time.Sleep(2 * time.Second)
		require.Zero(t, r.Stats().Asking)
		requireNoKeys(t, c)
	})
}

// A waiter that was turned away when it was told of a release looks again after the
// backoff, not only after its retry delay.
func TestOverloadedWaiterLooksAgain(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newWarm(t, c, redlock.WithRetryDelay(time.Hour), redlock.WithNodeTimeout(200*time.Millisecond))
		l := tryLock(t, r, []string{"a"}, time.Minute)
		w := startLock(t, r, []string{"a"})
		time.Sleep(time.Second)
		taken := fillAdmission(t, r)
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(170 * time.Millisecond)
		for range taken {
			redlock.Admission(r).GiveBack()
		}
		require.Less(t, took(func() { w.got(t) }), time.Second)
	})
}
