package redlock_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

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
		r := newRedlock(t, c, redlock.WithNodeTimeout(250*time.Millisecond))
		warm(t, r)
		fillAdmission(t, r)
		time.AfterFunc(150*time.Millisecond, redlock.Admission(r).GiveBack)
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		require.Equal(t, 150*time.Millisecond, time.Since(start))
		require.Equal(t, start.Add(150*time.Millisecond+redlock.Validity(ttl, redlock.DefaultDriftFactor)), l.Until())

		fillAdmission(t, r) // The place is free again.
		for _, n := range c.Nodes {
			n.Proxy().BlackHole(true)
		}
		time.AfterFunc(150*time.Millisecond, redlock.Admission(r).GiveBack)
		start = time.Now()
		_, err = r.TryLock(t.Context(), []string{"b"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.False(t, redlock.IsOverload(err))
		require.Equal(t, 250*time.Millisecond, time.Since(start))
	})
}

func TestOverloadTurnsAway(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var events []redlock.Event
		r := newRedlock(t, c, redlock.WithNodeTimeout(200*time.Millisecond), redlock.WithHook(func(_ context.Context, e redlock.Event) {
			if e.Kind == redlock.EventOverloaded {
				events = append(events, e)
			}
		}))
		warm(t, r)
		fillAdmission(t, r)
		asked := countCommands(t, "", c.Nodes...)
		start := time.Now()
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		assert.InDelta(t, 150*time.Millisecond, time.Since(start), float64(6*time.Millisecond))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.True(t, redlock.IsOverload(err))
		for _, v := range votesOf(t, err) {
			require.Equal(t, redlock.ErrOverloaded, v.Err)
		}
		require.NotErrorIs(t, err, redlock.ErrOverloaded, "as all errors of nodes")
		require.Zero(t, asked.Load(), "nodes were asked")

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err = r.TryLock(ctx, []string{"a"}, ttl)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)

		for range 19 { // In three seconds.
			_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
			require.True(t, redlock.IsOverload(err))
		}
		synctest.Wait()
		require.EqualValues(t, 20, r.Stats().Overloaded)
		require.Zero(t, r.Stats().NoQuorum)
		require.Len(t, events, 3, "one a second")
		require.Equal(t, 1, events[0].TurnedAway)
		require.Equal(t, 7, events[1].TurnedAway)
		require.ErrorIs(t, events[2].Err, redlock.ErrNoQuorum)

		time.AfterFunc(50*time.Millisecond, func() { _ = r.Close(context.Background()) })
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrClosed)
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
		for i := range 1000 {
			wg.Go(func() {
				for range 10 {
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

func TestOverloadPlacesAreFreeAgain(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, r *redlock.Redlock, c *testcluster.Cluster){
		"granted and refused": func(t *testing.T, r *redlock.Redlock, _ *testcluster.Cluster) {
			l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.NoError(t, err)
			_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.NoError(t, l.Unlock(t.Context()))
		},
		"with a fence": func(t *testing.T, r *redlock.Redlock, c *testcluster.Cluster) {
			require.NoError(t, c.Nodes[0].Stop())
			_, err := r.TryLock(t.Context(), []string{"a"}, ttl, redlock.WithFencing())
			require.NoError(t, err)
			require.NoError(t, c.Nodes[0].Restart(false))
			require.NoError(t, c.Nodes[1].Stop())
			time.Sleep(3 * time.Second)
			_, err = r.TryLock(t.Context(), []string{"b", "a"}, ttl, redlock.WithFencing())
			require.Error(t, err)
		},
		"split": func(t *testing.T, r *redlock.Redlock, c *testcluster.Cluster) {
			for _, n := range c.Nodes {
				n.Proxy().SetDelay(0, 2*time.Millisecond)
			}
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() { _, _ = r.TryLock(context.Background(), []string{"a"}, ttl) })
			}
			wg.Wait()
		},
		"silent": func(t *testing.T, r *redlock.Redlock, c *testcluster.Cluster) {
			for _, n := range c.Nodes {
				n.Proxy().BlackHole(true)
			}
			_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		},
		"down": func(t *testing.T, r *redlock.Redlock, c *testcluster.Cluster) {
			require.NoError(t, c.Stop())
			_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		},
		"cancelled": func(t *testing.T, r *redlock.Redlock, c *testcluster.Cluster) {
			c.Nodes[0].Proxy().BlackHole(true)
			c.Nodes[1].Proxy().BlackHole(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := r.TryLock(ctx, []string{"a"}, ttl)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 1, r.Stats().Asking)
		},
		"closed": func(t *testing.T, r *redlock.Redlock, c *testcluster.Cluster) {
			for _, n := range c.Nodes {
				n.Proxy().BlackHole(true)
			}
			time.AfterFunc(time.Millisecond, func() { _ = r.Close(context.Background()) })
			_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.ErrorIs(t, err, redlock.ErrClosed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c)
				warm(t, r)
				run(t, r, c)
				time.Sleep(time.Second)
				require.Zero(t, r.Stats().Asking)
			})
		})
	}
}

// Lock comes back ever later when it is turned away, and each time counts as a timed retry.
func TestOverloadHasLockBackOff(t *testing.T) {
	for name, opts := range map[string][]redlock.Option{"waiting": nil, "polling": {redlock.WithPolling()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c, redlock.WithNodeTimeout(200*time.Millisecond), redlock.WithRetryDelay(20*time.Millisecond))
				fillAdmission(t, r)
				start := time.Now()
				_, err := r.Lock(t.Context(), []string{"a"}, ttl, append(opts, redlock.WithRetryCount(6))...)
				require.True(t, redlock.IsOverload(err))
				var qe *redlock.QuorumError
				require.ErrorAs(t, err, &qe)
				require.Equal(t, 7, qe.Attempt)
				// Seven waits of 150 ms, and 200 ms doubled up to 5 s, ± 50 %.
				require.Greater(t, time.Since(start), 6*time.Second)
				require.Less(t, time.Since(start), 20*time.Second)
				// One that waits in line takes a second look now and then, which is no retry.
				require.GreaterOrEqual(t, r.Stats().Overloaded, int64(7))
				require.LessOrEqual(t, r.Stats().Overloaded, int64(10))
			})
		})
	}
}

// A waiter that was turned away when it was told of a release looks again after the
// backoff, not only after its retry delay.
func TestOverloadedWaiterLooksAgain(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithRetryDelay(time.Hour), redlock.WithNodeTimeout(200*time.Millisecond))
		warm(t, r)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		got := make(chan *redlock.Lock)
		go func() {
			next, failed := r.Lock(context.Background(), []string{"a"}, ttl)
			assert.NoError(t, failed)
			got <- next
		}()
		time.Sleep(time.Second)
		taken := fillAdmission(t, r)
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(170 * time.Millisecond)
		for range taken {
			redlock.Admission(r).GiveBack()
		}
		start := time.Now()
		l = <-got
		require.Less(t, time.Since(start), time.Second)
		require.NoError(t, l.Unlock(t.Context()))
	})
}
