package redlock_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// takeTurns has each client lock, hold and unlock again and again until end. It returns how
// often each one had its lock, and the longest that it waited. The first quarter of the time
// does not count: until all are in line, those that are first have all the turns.
func takeTurns(t *testing.T, clients []contender, length time.Duration) (turns []int, longest []time.Duration) {
	t.Helper()
	turns, longest = make([]int, len(clients)), make([]time.Duration, len(clients))
	begin, end := time.Now().Add(length/4), time.Now().Add(length)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, c := range clients {
		for range c.goroutines {
			wg.Go(func() {
				for time.Now().Before(end) {
					asked := time.Now()
					l, err := c.r.Lock(t.Context(), c.resources, ttl, redlock.WithRetryCount(-1))
					if err != nil {
						t.Error(err)
						return
					}
					if asked.After(begin) {
						mu.Lock()
						turns[i]++
						longest[i] = max(longest[i], time.Since(asked))
						mu.Unlock()
					}
					time.Sleep(c.hold)
					assert.NoError(t, l.Unlock(t.Context()))
				}
			})
		}
	}
	wg.Wait()
	return turns, longest
}

type contender struct {
	r          *redlock.Redlock
	goroutines int
	resources  []string
	hold       time.Duration
}

// Also with several callers in each, of whom the next one asks right behind the release of
// the last one.
func TestWaitTurnsOfProcessesThatHoldForNoTime(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(50*time.Microsecond, 200*time.Microsecond))
		var clients []contender
		for range 4 {
			clients = append(clients, contender{newRedlock(t, c), 4, []string{"x"}, 0})
		}
		turns, longest := takeTurns(t, clients, scenario(500*time.Millisecond, 160*time.Millisecond))
		assert.Greater(t, slices.Min(turns), slices.Max(turns)*3/4, "turns %v", turns)
		assert.Less(t, slices.Max(longest), 300*time.Millisecond)
		assert.Greater(t, slices.Min(turns), rounds(25, 7))
	})
}

// Whoever has just woken another process does not run ahead of it.
func TestWaitTurnsOfALockRightAfterAnUnlock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c)
		distant := newOver(t, far(t, c), redlock.WithNodeTimeout(time.Second))
		held, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		w := startLock(t, distant, t.Context(), []string{"x"}, slowly()...)
		time.Sleep(time.Second)
		require.NoError(t, held.Unlock(t.Context()))
		go func() { assert.NoError(t, w.got(t).Unlock(t.Context())) }()
		again, err := a.Lock(t.Context(), []string{"x"}, ttl, slowly()...)
		require.NoError(t, err)
		select {
		case <-w.done:
		default:
			t.Error("it ran ahead")
		}
		assert.Equal(t, 2, again.Attempts(), "the first, which gave way, and the one that the release set off")
		require.NoError(t, again.Unlock(t.Context()))
	})
}

// Somebody who wants two resources has its turn beside those that use either of them all the
// time.
func TestWaitTurnsOfAWaiterForSeveral(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(50*time.Microsecond, 200*time.Microsecond))
		hold := time.Millisecond
		turns, longest := takeTurns(t, []contender{
			{newRedlock(t, c), 4, []string{"a"}, hold}, {newRedlock(t, c), 4, []string{"b"}, hold}, {newRedlock(t, c), 1, []string{"a", "b"}, hold},
		}, scenario(600*time.Millisecond, 300*time.Millisecond))
		t.Log(turns, longest)
		assert.Less(t, longest[2], 3*max(longest[0], longest[1]))
		assert.Less(t, longest[2], 200*time.Millisecond)
		assert.Greater(t, turns[2], rounds(20, 10))
	})
}

// It does not hold the others up for long while one of its resources is not to be had.
func TestWaiterForSeveralHoldsNobodyUpForLong(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(50*time.Microsecond, 200*time.Microsecond))
		users := []contender{{newRedlock(t, c), 4, []string{"a"}, time.Millisecond}, {newRedlock(t, c), 4, []string{"a"}, time.Millisecond}}
		alone, _ := takeTurns(t, users, scenario(600*time.Millisecond, 400*time.Millisecond))
		lockElsewhere(t, c, "b", time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		// It gets in the way for 60 ms each time it tries: how often is not left to chance.
		w := startLock(t, newRedlock(t, c), ctx, []string{"a", "b"},
			redlock.WithRetryCount(-1), redlock.WithRetryDelay(400*time.Millisecond), redlock.WithRetryJitter(0))
		beside, longest := takeTurns(t, users, scenario(600*time.Millisecond, 400*time.Millisecond))
		t.Log(alone, beside, longest)
		assert.Greater(t, beside[0]+beside[1], (alone[0]+alone[1])*3/4)
		assert.Less(t, slices.Max(longest), 300*time.Millisecond)
		cancel()
		<-w.done
	})
}

// far returns the nodes of a cluster for a client that is 20 ms from them, one way.
func far(t *testing.T, c *testcluster.Cluster) []redlock.Node {
	t.Helper()
	nodes := make([]redlock.Node, len(c.Nodes))
	for i, n := range c.Nodes {
		p := testcluster.NewProxy(n.Dial)
		t.Cleanup(p.Close)
		p.SetDelay(20*time.Millisecond, 20*time.Millisecond)
		nodes[i] = redlock.Node{Name: n.Name(), Pool: &conn.Dialer{
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx) }, Network: "tcp", Address: n.Addr(),
		}}
	}
	return nodes
}

// A process far away is not passed over because it comes late.
func TestWaitTurnsOfAFarProcess(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(50*time.Microsecond, 100*time.Microsecond))
		distant := newOver(t, far(t, c), redlock.WithNodeTimeout(time.Second))
		both := []contender{{newRedlock(t, c), 4, []string{"x"}, time.Millisecond}, {distant, 4, []string{"x"}, time.Millisecond}}
		turns, longest := takeTurns(t, both, 4*time.Second)
		t.Log(turns, longest)
		assert.Greater(t, 10*turns[1], 7*turns[0], "three for four; where it is passed over, one for six")
	})
}

// Somebody who does not look at the reservation has the lock while the one that was told is on
// its way. That one still has its turn before those that have come later.
func TestWaitTurnsAreNotCostByALockInBetween(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		distant := newOver(t, far(t, c), redlock.WithNodeTimeout(time.Second))
		a := newRedlock(t, c)
		held, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		first := startLock(t, distant, t.Context(), []string{"x"}, slowly()...)
		time.Sleep(time.Second)
		second := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		require.NoError(t, held.Unlock(t.Context()))
		cycle(t, a, "x", time.Hour)
		l := first.got(t)
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, second.got(t).Unlock(t.Context()))
		assert.True(t, first.at.Before(second.at))
		assert.Less(t, second.at.Sub(first.at), 100*time.Millisecond)
	})
}

// A holder that unlocks and locks again at once takes turns with those who wait.
func TestWaitTurnsAreNotTakenByAHolderThatLocksAgainAtOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(0, 200*time.Microsecond))
		turns := make([]int, 3)
		length := scenario(3*time.Second, 300*time.Millisecond)
		end := time.Now().Add(length)
		var wg sync.WaitGroup
		for i := range turns {
			r := newRedlock(t, c)
			wg.Go(func() {
				for time.Now().Before(end) {
					l, err := r.Lock(t.Context(), []string{"x"}, ttl, redlock.WithRetryCount(-1))
					if err != nil {
						t.Error(err)
						return
					}
					turns[i]++
					time.Sleep(time.Millisecond)
					assert.NoError(t, l.Unlock(t.Context()))
				}
			})
		}
		wg.Wait()
		assert.Greater(t, slices.Min(turns), slices.Max(turns)*3/4, "turns %v", turns)
		assert.Greater(t, slices.Max(turns), int(length/(15*time.Millisecond)))
	})
}

func TestWaitersForOverlappingResourcesDoNotDeadlock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		clients := []*redlock.Redlock{newRedlock(t, c), newRedlock(t, c)}
		sets := [][]string{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"a"}, {"a", "b", "c"}}
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				for range rounds(5, 2) {
					l, err := clients[i%2].Lock(t.Context(), sets[i%len(sets)], ttl, redlock.WithRetryCount(-1))
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Millisecond)
					assert.NoError(t, l.Unlock(t.Context()))
				}
			})
		}
		wg.Wait()
		assert.Less(t, time.Since(start), 5*time.Second)
	})
}
