package redlock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/testkit"
	"github.com/seed6c881748/redlock/redlock"
)

func TestStatsCountWhatIsHeldAndWaiting(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithRetryCount(-1))
		var locks []*redlock.Lock
		for i := range 200 {
			l, err := r.TryLock(t.Context(), []string{string(rune('A' + i))}, time.Duration(i+1)*time.Second)
			require.NoError(t, err)
			locks = append(locks, l)
		}
		assert.Equal(t, 200, r.Stats().Held)
		time.Sleep(50 * time.Second)
		assert.Equal(t, 150, r.Stats().Held)
		require.NoError(t, locks[199].Unlock(t.Context()))
		assert.Equal(t, 149, r.Stats().Held)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := r.Lock(ctx, locks[198].Resources(), ttl)
			done <- err
		}()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		s := r.Stats()
		assert.Equal(t, 1, s.Waiting)
		assert.Equal(t, int64(200), s.Acquired)
		assert.Equal(t, int64(1), s.Unlocked)
		assert.Equal(t, int64(2), s.Taken, "it has looked again, to get in line")
		for i, n := range s.Nodes {
			assert.Equal(t, c.Nodes[i].Name(), n.Node)
			assert.True(t, n.Up)
			assert.Zero(t, n.Backlog)
		}
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		time.Sleep(200 * time.Second)
		assert.Zero(t, r.Stats().Held)
		for i := range rounds(1000, 400) { // Dropped without Unlock: the registry does not grow for ever.
			_, err := r.TryLock(t.Context(), []string{string(rune('A' + i))}, 10*time.Millisecond)
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
		assert.Less(t, redlock.Remembered(r), 200)
	})
}

func TestStatsShowWaiting(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var mu sync.Mutex
		var events []redlock.Event
		r := newRedlock(t, c, redlock.WithHook(func(_ context.Context, e redlock.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == redlock.EventWaiting {
				events = append(events, e)
			}
		}))
		held := lockElsewhere(t, c, "x", time.Hour)
		opts := []redlock.Option{redlock.WithRetryDelay(time.Second), redlock.WithRetryJitter(0)}
		first := startLock(t, r, t.Context(), []string{"x"}, opts...)
		second := startLock(t, r, t.Context(), []string{"x"}, opts...)
		time.Sleep(2 * time.Second)
		assert.Equal(t, 2, r.Stats().Waiting)
		require.NoError(t, held.Unlock(t.Context()))
		l := first.got(t)
		assert.Equal(t, 4, l.Attempts(), "the first, two timed ones, and the one that the release set off")
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, second.got(t).Unlock(t.Context()))
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		var lines []string
		for _, e := range events {
			lines = append(lines, fmt.Sprintf("%s %v %d: %d, %v, %v", e.Op, e.Resources, e.Position, e.Attempt, e.Took.Round(time.Millisecond), errors.Is(e.Err, redlock.ErrTaken)))
		}
		assert.Equal(t, []string{
			"lock [x] 1: 1, 0s, true",
			"lock [x] 1: 1, 0s, true",
			"lock [x] 2: 0, 0s, false",
			"lock [x] 1: 2, 1s, true",
			"lock [x] 2: 1, 1s, true",
			"lock [x] 1: 3, 2s, true",
			"lock [x] 2: 2, 2s, true",
			"lock [x] 1: 2, 2.05s, true",
		}, lines)
	})
}

// The registry of held locks and the locks each have a mutex.
func TestStatsWhileLocksComeAndGo(t *testing.T) {
	c := testcluster.RunEmbedded(t, 1)
	r := newRedlock(t, c, redlock.WithNodeTimeout(patient))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				l, err := r.TryLock(context.Background(), []string{string(rune('A'+g)) + string(rune('A'+i))}, ttl)
				if assert.NoError(t, err) && i%2 == 0 {
					assert.NoError(t, l.Unlock(context.Background())) //nolint:testifylint // Not the test's goroutine.
				}
				_ = r.Stats()
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 400, r.Stats().Held)
}

func TestStatsMarshalToJSON(t *testing.T) {
	s := redlock.Stats{Held: 3, Nodes: []redlock.NodeStats{{Node: "n1", Up: true, Abstains: redlock.ErrQuarantined}, {Node: "n2", Err: fmt.Errorf("not connected: %w", assert.AnError), PendingReleases: 2}}}
	b, err := json.Marshal(s)
	require.NoError(t, err)
	var back struct {
		Held  int
		Nodes []struct {
			Node, Err, Abstains string
			Up                  bool
			PendingReleases     int
		}
	}
	require.NoError(t, json.Unmarshal(b, &back))
	assert.Equal(t, 3, back.Held)
	assert.Equal(t, "n1", back.Nodes[0].Node)
	assert.True(t, back.Nodes[0].Up)
	assert.Empty(t, back.Nodes[0].Err)
	assert.Equal(t, redlock.ErrQuarantined.Error(), back.Nodes[0].Abstains)
	assert.Empty(t, back.Nodes[1].Abstains)
	assert.Equal(t, "not connected: "+assert.AnError.Error(), back.Nodes[1].Err)
	assert.Equal(t, 2, back.Nodes[1].PendingReleases)
}

func TestStatsListHeldLocks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithOwner("me"))
		assert.Empty(t, r.HeldLocks())
		start := time.Now()
		kept, err := r.Lock(t.Context(), []string{"b", "a"}, 9*time.Second, redlock.WithFencing())
		require.NoError(t, err)
		ctx := kept.KeepAlive(t.Context())
		time.Sleep(time.Second)
		_, err = r.Lock(t.Context(), []string{"c"}, 4*time.Second, redlock.WithOwner(""))
		require.NoError(t, err)
		plainStart := time.Now()
		released, err := r.Lock(t.Context(), []string{"d"}, ttl)
		require.NoError(t, err)
		require.NoError(t, released.Unlock(t.Context()))

		locks := r.HeldLocks()
		require.Len(t, locks, 2, "the released one is gone")
		first := locks[0]
		assert.Len(t, first.Holder, 12)
		assert.NotContains(t, kept.Token(), first.Holder)
		assert.Equal(t, redlock.HeldLock{
			Resources: []string{"a", "b"}, Since: redlock.StartOf(kept), Extended: redlock.StartOf(kept), Until: kept.Until(), Fence: kept.Fence(),
			Owner: "me", Holder: first.Holder, Kept: true,
		}, first)
		assert.WithinDuration(t, start, first.Since, time.Millisecond)
		assert.Equal(t, []string{"c"}, locks[1].Resources)
		assert.False(t, locks[1].Kept)
		assert.Zero(t, locks[1].Fence)
		assert.Empty(t, locks[1].Owner)
		assert.WithinDuration(t, plainStart, locks[1].Extended, time.Millisecond)

		locks[0].Resources[0] = "mine to change"
		assert.Equal(t, []string{"a", "b"}, r.HeldLocks()[0].Resources)

		time.Sleep(5 * time.Second) // The plain one has ended; the kept one was extended.
		synctest.Wait()
		locks = r.HeldLocks()
		require.Len(t, locks, 1)
		assert.True(t, locks[0].Extended.After(locks[0].Since))
		assert.Equal(t, kept.Until(), locks[0].Until)
		assert.Len(t, locks, r.Stats().Held)
		require.NoError(t, kept.Unlock(t.Context()))
		<-ctx.Done()
		assert.Empty(t, r.HeldLocks())
	})
}

// A clock that jumped forward during a suspend ends locks that the registry has not swept yet.
func TestStatsListNoLockThatTheWallClockHasEnded(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		_, err := r.Lock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		testkit.WallOffset(r).Store(int64(time.Hour))
		assert.Zero(t, r.Stats().Held)
		assert.Empty(t, r.HeldLocks())
	})
}

func TestStatsListWaitingCalls(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithRetryCount(-1), redlock.WithRetryDelay(time.Second), redlock.WithRetryJitter(0))
		other := newRedlock(t, c, redlock.WithOwner("them"))
		assert.Empty(t, r.WaitingCalls())
		held, err := other.Lock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		start := time.Now()
		first := startLock(t, r, t.Context(), []string{"x", "w"}, redlock.WithOwner("first"))
		time.Sleep(100 * time.Millisecond)
		second := startLock(t, r, t.Context(), []string{"x"}, redlock.WithOwner("second"))
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		polls := startLock(t, r, ctx, []string{"x"}, redlock.WithPolling())
		time.Sleep(2 * time.Second)
		synctest.Wait()

		calls := r.WaitingCalls()
		require.Len(t, calls, 3)
		assert.Len(t, calls, r.Stats().Waiting)
		one := calls[0]
		assert.Equal(t, []string{"w", "x"}, one.Resources)
		assert.Equal(t, "first", one.Owner)
		assert.WithinDuration(t, start, one.Since, 50*time.Millisecond)
		assert.Equal(t, 1, one.Position)
		assert.Equal(t, 3, one.Attempts)
		assert.Equal(t, redlock.ErrTaken, one.Err)
		assert.Equal(t, "them", one.HolderOwner)
		assert.Equal(t, other.HeldLocks()[0].Holder, one.Holder)
		assert.Equal(t, "second", calls[1].Owner)
		assert.Equal(t, 2, calls[1].Position)
		assert.Equal(t, 0, calls[2].Position, "it polls")
		assert.Equal(t, 3, calls[2].Attempts)
		assert.Equal(t, "them", calls[2].HolderOwner)

		cancel()
		<-polls.done
		require.Len(t, r.WaitingCalls(), 2)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, first.got(t).Unlock(t.Context()))
		require.NoError(t, second.got(t).Unlock(t.Context()))
		assert.Empty(t, r.WaitingCalls())
	})
}

func TestStatsMeasureTheRoundTripTime(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		assert.Zero(t, r.Stats().Nodes[0].RTT, "nothing was asked yet")
		slow := c.Nodes[1]
		require.NoError(t, slow.Slow(40*time.Millisecond, 40*time.Millisecond))
		for range 30 {
			l, err := r.Lock(t.Context(), []string{"a"}, ttl)
			require.NoError(t, err)
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, l.Unlock(t.Context()))
			time.Sleep(100 * time.Millisecond)
		}
		nodes := r.Stats().Nodes
		assert.Less(t, nodes[0].RTT, 5*time.Millisecond)
		assert.InDelta(t, 80*time.Millisecond, nodes[1].RTT, float64(10*time.Millisecond), "40 ms each way")
	})
}
