package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// slowly has Lock poll so seldom that a test notices if it had to.
func slowly() []Option {
	return []Option{WithRetryCount(-1), WithRetryDelay(time.Minute), WithRetryJitter(0)}
}

// startLock starts a Lock and returns when it waits.
func startLock(t *testing.T, r *Redlock, ctx context.Context, resources []string, opts ...Option) *waitingLock { //nolint:revive // As in the calls that it tests.
	t.Helper()
	w := &waitingLock{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lock, w.err = r.Lock(ctx, resources, ttl, opts...)
		w.at = time.Now()
	}()
	synctest.Wait()
	time.Sleep(50 * time.Millisecond) // It listens, and has looked again.
	synctest.Wait()
	return w
}

type waitingLock struct {
	done chan struct{}
	lock *Lock
	err  error
	at   time.Time
}

// got waits for the lock.
func (w *waitingLock) got(t *testing.T) *Lock {
	t.Helper()
	<-w.done
	require.NoError(t, w.err)
	return w.lock
}

func TestAReleaseWakesAWaiterOfAnotherProcess(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		inBubble(t, n, func(t *testing.T, c *testcluster.Cluster) {
			a := newRedlock(t, c, WithPrefix("p:"))
			b := newRedlock(t, c, WithPrefix("p:"))
			held, err := a.TryLock(t.Context(), []string{"x", "y"}, ttl)
			require.NoError(t, err)
			w := startLock(t, b, t.Context(), []string{"y"}, slowly()...)
			released := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			l := w.got(t)
			assert.LessOrEqual(t, w.at.Sub(released), time.Millisecond)
			assert.Equal(t, 2, l.Attempts())
			assert.Equal(t, int64(1), b.Stats().Woken)
			assert.True(t, b.Stats().Nodes[0].Listens)
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
}

func TestWaitersOfAProcessAreServedInTheOrderOfTheirArrival(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		held, err := a.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 10 {
			w := startLock(t, b, t.Context(), []string{"x"}, slowly()...)
			wg.Go(func() {
				l := w.got(t)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				assert.NoError(t, l.Unlock(t.Context()))
			})
		}
		assert.Equal(t, 10, b.Stats().Waiting)
		start := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		wg.Wait()
		assert.Less(t, time.Since(start), 20*time.Millisecond)
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
	})
}

// Only the first in line asks the nodes, once in a retry delay, however many wait.
func TestOnlyTheHeadAsksTheNodes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		_, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var all []*waitingLock
		for i := range 20 {
			count := -1
			if i%2 == 1 {
				count = 1 << 20 // Their retries are counted.
			}
			all = append(all, startLock(t, b, ctx, []string{"x"}, WithRetryCount(count), WithRetryDelay(100*time.Millisecond), WithRetryJitter(0)))
		}
		asked := lockRequests(t, c)
		time.Sleep(10*time.Second + 50*time.Millisecond) // The last retry is not to race with this.
		for retry := range 100 {
			at := time.Duration(retry+1) * 100 * time.Millisecond
			nodes := asked.take(at)
			assert.GreaterOrEqual(t, len(nodes), 2, "a quorum is asked, after %v", at) // A release may overtake what is left.
			slices.Sort(nodes)
			assert.Len(t, slices.Compact(slices.Clone(nodes)), len(nodes), "once each, after %v: %v", at, nodes)
		}
		assert.Zero(t, asked.rest(), "requests between the retries of the head")
		cancel()
		for _, w := range all {
			<-w.done
			require.ErrorIs(t, w.err, context.Canceled)
			require.ErrorIs(t, w.err, ErrTaken, "what the head was told")
		}
		assert.Zero(t, b.Stats().Waiting)
	})
}

// An askedAt has the lock requests that nodes have got, by when.
type askedAt struct {
	mu    sync.Mutex
	nodes map[time.Duration][]int
}

// lockRequests records from now on which nodes get a lock request, and after how long.
func lockRequests(t *testing.T, c *testcluster.Cluster) *askedAt {
	t.Helper()
	a, start := &askedAt{nodes: map[time.Duration][]int{}}, time.Now()
	for i, n := range c.Nodes {
		require.NoError(t, n.OnCommand(func(_ string, args []string) {
			if slices.Contains(args, LockScript.Hash.(string)) || slices.Contains(args, QueueScript.Hash.(string)) {
				a.mu.Lock()
				defer a.mu.Unlock()
				after := time.Since(start)
				a.nodes[after] = append(a.nodes[after], i)
			}
		}))
	}
	return a
}

// take returns the nodes that have got a lock request at this time, and forgets them.
func (a *askedAt) take(after time.Duration) []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer delete(a.nodes, after)
	return a.nodes[after]
}

// rest is how many have not been taken.
func (a *askedAt) rest() (requests int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, nodes := range a.nodes {
		requests += len(nodes)
	}
	return requests
}

// A waiter that polls seldom must not hold up those behind it that poll often, if no release is heard of.
func TestAWaiterAsksForItselfBehindOneThatPollsSeldom(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, taps := tapped(c)
		r, err := New(nodes)
		require.NoError(t, err)
		defer func() { _ = r.Close(context.Background()) }()
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		for _, tp := range taps {
			tp.SetMute(true)
		}
		head := startLock(t, r, t.Context(), []string{"x"}, WithRetryCount(-1), WithRetryDelay(time.Hour), WithRetryJitter(0))
		second := startLock(t, r, t.Context(), []string{"x"}, WithRetryCount(-1), WithRetryDelay(100*time.Millisecond))
		time.Sleep(time.Second)
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		l := second.got(t)
		assert.LessOrEqual(t, second.at.Sub(released), 200*time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, head.got(t).Unlock(t.Context()))
	})
}

func TestTimedRetriesAreCountedInLine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		_, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		head := startLock(t, b, ctx, []string{"x"}, WithRetryCount(-1))
		asked := 0
		start := time.Now()
		_, err = b.Lock(t.Context(), []string{"x", "y"}, ttl, WithRetryCount(3), WithRetryDelay(time.Second), WithRetryJitter(0),
			WithRetryIf(func(err error) bool { asked++; return RetryDefault(err) }))
		assert.Equal(t, 3*time.Second, time.Since(start))
		require.ErrorIs(t, err, ErrTaken)
		var qe *QuorumError
		require.ErrorAs(t, err, &qe)
		assert.Equal(t, []string{"x", "y"}, qe.Resources)
		assert.Equal(t, 3, qe.Attempt)
		assert.Equal(t, 2, asked, "the last one is not asked about")
		holders := 0
		for _, v := range qe.Votes {
			if v.Holder != "" {
				holders++
			}
		}
		assert.GreaterOrEqual(t, holders, 2, "two refusals decide, the third may come late")

		// As it is for one that is first: the attempt at the beginning, and the timed ones.
		cancel()
		<-head.done
		start = time.Now()
		_, err = b.Lock(t.Context(), []string{"x"}, ttl, WithRetryCount(3), WithRetryDelay(time.Second), WithRetryJitter(0))
		assert.Equal(t, 3*time.Second, time.Since(start))
		require.ErrorAs(t, err, &qe)
		assert.Equal(t, 4, qe.Attempt)

		// And for one that no retry delay slows down.
		start = time.Now()
		_, err = b.Lock(t.Context(), []string{"x"}, ttl, WithRetryCount(3), WithRetryDelay(0))
		require.ErrorIs(t, err, ErrTaken)
		assert.Less(t, time.Since(start), 50*time.Millisecond)
	})
}

func TestRetryIfEndsAWaitInLine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		_, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		head := startLock(t, r, ctx, []string{"x"}, WithRetryCount(-1))
		calls := 0
		_, err = r.Lock(t.Context(), []string{"x"}, ttl, WithRetryCount(-1), WithRetryIf(func(error) bool { calls++; return calls < 5 }))
		require.ErrorIs(t, err, ErrTaken)
		assert.Equal(t, 5, calls)
		cancel()
		<-head.done
	})
}

func TestACancelledWaiterLeavesAtOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		held, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		type call struct {
			*waitingLock

			cancel context.CancelFunc
		}
		var calls []call
		for range 4 {
			ctx, cancel := context.WithCancel(t.Context())
			calls = append(calls, call{startLock(t, b, ctx, []string{"x"}, slowly()...), cancel})
		}
		for _, i := range []int{2, 0} { // From the middle, and the head.
			at := time.Now()
			calls[i].cancel()
			<-calls[i].done
			require.ErrorIs(t, calls[i].err, context.Canceled)
			require.ErrorIs(t, calls[i].err, ErrTaken)
			assert.Equal(t, at, calls[i].at)
		}
		time.Sleep(10 * time.Millisecond)
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		for _, i := range []int{1, 3} {
			require.NoError(t, calls[i].got(t).Unlock(t.Context()))
			calls[i].cancel()
		}
		assert.Less(t, time.Since(released), 10*time.Millisecond)
	})
}

// Whoever is told of a release and does not want it any more tells the next.
func TestAProcessThatHasNoUseForAReleasePassesItOn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		holder := newRedlock(t, c)
		held, err := holder.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		first := startLock(t, newRedlock(t, c), ctx, []string{"x"}, slowly()...)
		second := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		cancel()
		<-first.done
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, second.got(t).Unlock(t.Context()))
		assert.Less(t, second.at.Sub(released), 10*time.Millisecond)
	})
}

// One that has been told, and is cancelled before it has the lock, does so too.
func TestAWaiterCancelledInItsAttemptPassesTheReleaseOn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		first := startLock(t, newRedlock(t, c), ctx, []string{"x"}, slowly()...)
		second := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(time.Millisecond, time.Millisecond))
		}
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context())) // 2 ms
		time.Sleep(1500 * time.Microsecond)          // The first one's requests are on their way.
		cancel()
		<-first.done
		require.ErrorIs(t, first.err, context.Canceled)
		require.NoError(t, second.got(t).Unlock(t.Context()))
		assert.Less(t, second.at.Sub(released), 50*time.Millisecond)
		time.Sleep(time.Second)
		requireNoKeys(t, c)
	})
}

// A process that has died without a word is passed over.
func TestADeadWaiterIsPassedOver(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		nodes, taps := tapped(c)
		r, err := New(nodes)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		first := startLock(t, r, ctx, []string{"x"}, slowly()...)
		second := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		for _, tp := range taps {
			tp.Cut()
		}
		synctest.Wait()
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		l := second.got(t)
		assert.Less(t, second.at.Sub(released), 10*time.Millisecond)
		cancel()
		<-first.done
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, r.Close(t.Context()))
	})
}

func TestOverlappingResourcesDoNotDeadlock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		clients := []*Redlock{newRedlock(t, c), newRedlock(t, c)}
		sets := [][]string{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"a"}, {"a", "b", "c"}}
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				for range rounds(5, 2) {
					l, err := clients[i%2].Lock(t.Context(), sets[i%len(sets)], ttl, WithRetryCount(-1))
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

// A holder that unlocks and locks again at once takes turns with those who wait.
func TestAHolderThatLocksAgainAtOnceDoesNotStarveOthers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(0, 200*time.Microsecond))
		}
		turns := make([]int, 3)
		length := scenario(3*time.Second, 300*time.Millisecond)
		end := time.Now().Add(length)
		var wg sync.WaitGroup
		for i := range turns {
			r := newRedlock(t, c)
			wg.Go(func() {
				for time.Now().Before(end) {
					l, err := r.Lock(t.Context(), []string{"x"}, ttl, WithRetryCount(-1))
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

func TestLostMessagesCostARetryDelay(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, taps := tapped(c)
		r, err := New(nodes)
		require.NoError(t, err)
		defer func() { _ = r.Close(context.Background()) }()
		for _, tp := range taps {
			tp.SetMute(true)
		}
		for range 20 {
			held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
			require.NoError(t, err)
			w := startLock(t, r, t.Context(), []string{"x"})
			time.Sleep(300 * time.Millisecond)
			released := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			require.NoError(t, w.got(t).Unlock(t.Context()))
			assert.LessOrEqual(t, w.at.Sub(released), DefaultRetryDelay+DefaultRetryJitter)
		}
	})
}

func TestWhenTheHolderDiesTheKeysExpiryWakesTheWaiters(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		for i := 0; i < 20; i += rounds(1, 4) {
			life := 100*time.Millisecond + time.Duration(i)*77*time.Millisecond
			died := time.Now()
			_, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, life)
			require.NoError(t, err)
			w := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
			require.NoError(t, w.got(t).Unlock(t.Context()))
			late := w.at.Sub(died.Add(life))
			assert.Positive(t, late)
			assert.Less(t, late, 10*time.Millisecond)
		}
	})
}

func TestAMinHoldEndsForWaitersWhenItIsOver(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		start := time.Now()
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour, WithMinHold(5*time.Second))
		require.NoError(t, err)
		w := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.InDelta(t, 5, w.at.Sub(start).Seconds(), 0.02)
	})
}

func TestPollingOpensNoSubscription(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, taps := tapped(c)
		r, err := New(nodes)
		require.NoError(t, err)
		defer func() { _ = r.Close(context.Background()) }()
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		w := startLock(t, r, t.Context(), []string{"x"}, WithPolling(), WithRetryJitter(0), WithRetryDelay(time.Second))
		require.NoError(t, held.Unlock(t.Context()))
		released := time.Now()
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.Greater(t, w.at.Sub(released), 900*time.Millisecond)
		for _, tp := range taps {
			_, ever := tp.Open()
			assert.Zero(t, ever)
		}
		time.Sleep(time.Millisecond)
		for _, n := range c.Nodes {
			all, err := n.Keys()
			require.NoError(t, err)
			assert.Empty(t, all, "no line either")
		}
	})
}

// The connections on which releases are heard are there while somebody waits, and
// for a while after.
func TestSubscriptionsEndWhenNobodyWaits(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, taps := tapped(c)
		r, err := New(nodes)
		require.NoError(t, err)
		open := func() (now, ever int) {
			synctest.Wait()
			for _, tp := range taps {
				n, e := tp.Open()
				now, ever = now+n, ever+e
			}
			return now, ever
		}
		l, err := r.Lock(t.Context(), []string{"free"}, ttl)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
		now, ever := open()
		assert.Zero(t, now+ever, "nobody had to wait")
		for i := range 3 {
			held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
			require.NoError(t, err)
			w := startLock(t, r, t.Context(), []string{"x"}, slowly()...)
			for range 5 { // Also by firewalls that forget silent connections.
				time.Sleep(conn.IdlePing)
			}
			now, ever = open()
			assert.Equal(t, 3, now)
			assert.Equal(t, 3*(i+1), ever)
			require.NoError(t, held.Unlock(t.Context()))
			require.NoError(t, w.got(t).Unlock(t.Context()))
			time.Sleep(node.ListenFor - time.Second)
			now, _ = open()
			assert.Equal(t, 3, now)
			time.Sleep(2 * time.Second)
			now, _ = open()
			assert.Zero(t, now)
			assert.False(t, r.Stats().Nodes[0].Listens)
		}
		require.NoError(t, r.Close(t.Context()))
	})
}

func TestABrokenSubscriptionComesBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, taps := tapped(c)
		r, err := New(nodes)
		require.NoError(t, err)
		defer func() { _ = r.Close(context.Background()) }()
		for range 5 {
			held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
			require.NoError(t, err)
			w := startLock(t, r, t.Context(), []string{"x"}, slowly()...)
			for _, tp := range taps {
				tp.Cut()
			}
			time.Sleep(2 * node.MaxRelisten)
			released := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			require.NoError(t, w.got(t).Unlock(t.Context()))
			assert.LessOrEqual(t, w.at.Sub(released), 10*time.Millisecond)
		}
	})
}

// A pool that has only one connection to give leaves none to listen on.
func TestAPoolWithOneConnectionPolls(t *testing.T) {
	for _, wait := range []bool{false, true} {
		t.Run(fmt.Sprintf("wait=%v", wait), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				var mu sync.Mutex
				said := map[string]int{}
				nodes := make([]Node, len(c.Nodes))
				for i, n := range c.Nodes {
					nodes[i] = Node{Name: n.Name(), Pool: &redis.Pool{
						MaxActive: 1, Wait: wait, MaxIdle: 1,
						DialContext: func(ctx context.Context) (redis.Conn, error) { return n.Conn(ctx) },
					}}
				}
				r, err := New(nodes, WithHook(func(_ context.Context, e Event) {
					mu.Lock()
					defer mu.Unlock()
					if e.Kind == EventPolling {
						said[e.Node]++
						assert.Error(t, e.Err)
					}
				}))
				require.NoError(t, err)
				for i := range rounds(5, 2) {
					held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
					require.NoError(t, err)
					w := startLock(t, r, t.Context(), []string{"x"}, WithRetryCount(-1))
					time.Sleep(20 * time.Second)
					if i%2 == 1 { // The node's own connection must not find the pool empty.
						for _, n := range c.Nodes {
							n.Proxy().Kill()
						}
						time.Sleep(3 * time.Second)
						assert.True(t, allUp(r))
					}
					released := time.Now()
					require.NoError(t, held.Unlock(t.Context()))
					require.NoError(t, w.got(t).Unlock(t.Context()))
					assert.LessOrEqual(t, w.at.Sub(released), 400*time.Millisecond)
				}
				require.NoError(t, r.Close(t.Context()))
				mu.Lock()
				defer mu.Unlock()
				assert.Len(t, said, 3)
				for node, n := range said {
					assert.Equal(t, 1, n, node)
				}
			})
		})
	}
}

func TestWaitingIsVisible(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var mu sync.Mutex
		var events []Event
		r := newRedlock(t, c, WithHook(func(_ context.Context, e Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == EventWaiting {
				events = append(events, e)
			}
		}))
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		opts := []Option{WithRetryDelay(time.Second), WithRetryJitter(0)}
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
			lines = append(lines, fmt.Sprintf("%s %v %d: %d, %v, %v", e.Op, e.Resources, e.Position, e.Attempt, e.Took.Round(time.Millisecond), errors.Is(e.Err, ErrTaken)))
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

func TestCloseEndsWaits(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		_, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		first := startLock(t, r, t.Context(), []string{"x"}, slowly()...)
		second := startLock(t, r, t.Context(), []string{"x"}, slowly()...)
		at := time.Now()
		require.NoError(t, r.Close(t.Context()))
		for _, w := range []*waitingLock{first, second} {
			<-w.done
			require.ErrorIs(t, w.err, ErrClosed)
			assert.Equal(t, at, w.at)
		}
	})
}

func TestMessagesOfOthersAreIgnored(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithPrefix("p:"))
		held, err := newRedlock(t, c, WithPrefix("p:")).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		w := startLock(t, r, t.Context(), []string{"x"}, slowly()...)
		channel := ChannelOf(r)
		for _, n := range c.Nodes {
			conn, err := n.Conn(t.Context())
			require.NoError(t, err)
			for _, payload := range []string{"", "short", "123456789012", "123456789012q", "123456789012p:nobody waits for it", "123456789012p:x"} {
				_, err := conn.Do("PUBLISH", channel, payload)
				require.NoError(t, err)
			}
			require.NoError(t, conn.Close())
		}
		time.Sleep(time.Second)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
	})
}

func TestFreeIn(t *testing.T) {
	const never = time.Duration(-1)
	taken := func(d time.Duration) Vote { return Vote{stance: node.No, Err: ErrTaken, HolderTTL: d} }
	for _, c := range []struct {
		votes []Vote
		want  time.Duration
	}{
		{[]Vote{taken(3), taken(1), taken(2)}, 2},
		{[]Vote{taken(3), taken(1), {stance: node.Yes}}, 1},
		{[]Vote{taken(3), {stance: node.Pending}, {stance: node.Pending}}, 0},
		{[]Vote{taken(3), {stance: node.Silent}, taken(1)}, 3},
		{[]Vote{taken(3), {stance: node.Silent}, {stance: node.Silent}}, never},
		{[]Vote{taken(never), taken(never), taken(1)}, never},
		{[]Vote{taken(0), taken(0), taken(1)}, 0},
	} {
		left, ok := freeIn(c.votes, 2)
		assert.Equal(t, c.want != never, ok)
		if ok {
			assert.Equal(t, c.want, left)
		}
	}
}
