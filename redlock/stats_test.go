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
