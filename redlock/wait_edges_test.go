package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A panic in the caller's function, which net/http would recover from, takes the waiter out of its line.
func TestAPanicInRetryIfLeavesTheLine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		calls := 0
		func() {
			defer func() { _ = recover() }() // As net/http does around a handler.
			_, _ = r.Lock(t.Context(), []string{"x"}, ttl, WithRetryIf(func(error) bool {
				if calls++; calls == 2 {
					panic("in the user's function")
				}
				return true
			}))
		}()
		require.NoError(t, held.Unlock(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, err = r.Lock(ctx, []string{"x"}, ttl, WithRetryCount(-1))
		assert.NoError(t, err, "x has been free for 10 minutes")
	})
}

// One that was told that x is free, and cannot have it because of y, tells the next.
func TestAReleaseThatAWaiterForSeveralCannotUseIsPassedOn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		h := newRedlock(t, c)
		x, err := h.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		_, err = h.TryLock(t.Context(), []string{"y"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		both := startLock(t, newRedlock(t, c), ctx, []string{"x", "y"}, slowly()...)
		one := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		released := time.Now()
		require.NoError(t, x.Unlock(t.Context()))
		l := one.got(t)
		assert.Less(t, one.at.Sub(released), time.Second, "x was free all the time, no message was lost")
		cancel()
		<-both.done
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// Whoever gives way for a moment does not report that as taken.
func TestAFreeLockThatWasLeftToOthersIsNotTaken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		held, err := a.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		w := startLock(t, b, t.Context(), []string{"x"}, slowly()...)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		time.Sleep(5 * time.Millisecond)
		requireNoKeys(t, c) // Nobody has it, nobody waits for it.
		l, err := a.Lock(t.Context(), []string{"x"}, ttl, WithRetryIf(func(err error) bool { return errors.Is(err, ErrNoQuorum) }))
		require.NoError(t, err)
		assert.Equal(t, 1, l.Attempts())
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// Nobody waits for a subscription.
func TestAPoolThatBlocksForASecondConnectionHoldsNobodyUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := make([]Node, len(c.Nodes))
		for i, n := range c.Nodes {
			nodes[i] = Node{Name: n.Name(), Pool: &redis.Pool{
				MaxActive: 1, Wait: true, MaxIdle: 1,
				DialContext: func(ctx context.Context) (redis.Conn, error) { return n.Conn(ctx) },
			}}
		}
		r, err := New(nodes, WithNodeTimeout(5*time.Second))
		require.NoError(t, err)
		defer func() { _ = r.Close(context.Background()) }()
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		start := time.Now()
		_, err = r.Lock(t.Context(), []string{"x"}, ttl, WithRetryCount(3), WithRetryDelay(20*time.Millisecond), WithRetryJitter(0))
		require.ErrorIs(t, err, ErrTaken)
		assert.Less(t, time.Since(start), 200*time.Millisecond, "3 retries after 20 ms each")
		time.Sleep(time.Minute)
		w := startLock(t, r, t.Context(), []string{"x"}, WithRetryCount(-1), WithRetryDelay(20*time.Millisecond))
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.LessOrEqual(t, w.at.Sub(released), 60*time.Millisecond)
	})
}

// Without a connection to listen on, a waiter knows from its first refusal when the holder's
// keys end.
func TestAHolderThatDiesIsNoticedWithoutASubscription(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := make([]Node, len(c.Nodes))
		for i, n := range c.Nodes {
			nodes[i] = Node{Name: n.Name(), Pool: &redis.Pool{
				MaxActive: 1, MaxIdle: 1,
				DialContext: func(ctx context.Context) (redis.Conn, error) { return n.Conn(ctx) },
			}}
		}
		r, err := New(nodes)
		require.NoError(t, err)
		defer func() { _ = r.Close(context.Background()) }()
		died := time.Now()
		_, err = newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Second)
		require.NoError(t, err)
		l, err := r.Lock(t.Context(), []string{"x"}, ttl, slowly()...)
		require.NoError(t, err)
		assert.InDelta(t, 1, time.Since(died).Seconds(), 0.01)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// Whoever polls often has nobody else do so once it has left.
func TestOneThatPolledOftenAndLeftCostsNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(500*time.Microsecond, 500*time.Microsecond))
		}
		r := newRedlock(t, c)
		_, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, 24*time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		head := startLock(t, r, ctx, []string{"x"}, WithRetryCount(-1), WithRetryDelay(time.Second), WithRetryJitter(0))
		_, err = r.Lock(t.Context(), []string{"x"}, ttl, WithRetryCount(3), WithRetryDelay(0))
		require.ErrorIs(t, err, ErrTaken)
		var mu sync.Mutex
		asked := 0
		require.NoError(t, c.Nodes[0].OnCommand(func(_ string, args []string) {
			mu.Lock()
			defer mu.Unlock()
			if slices.Contains(args, QueueScript.Hash.(string)) {
				asked++
			}
		}))
		time.Sleep(10 * time.Second)
		mu.Lock()
		assert.LessOrEqual(t, asked, 12, "requests in 10 s of one waiter with a retry delay of 1 s")
		mu.Unlock()
		cancel()
		<-head.done
	})
}

// What is remembered of a resource goes, also in a process that never waits.
func TestQueuesAreForgotten(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		for i := range 50 {
			res := []string{fmt.Sprintf("job:%d", i)}
			held, err := a.TryLock(t.Context(), res, ttl)
			require.NoError(t, err)
			w := startLock(t, b, t.Context(), res, slowly()...)
			require.NoError(t, held.Unlock(t.Context()))
			require.NoError(t, w.got(t).Unlock(t.Context()))
		}
		time.Sleep(time.Hour)
		l, err := a.TryLock(t.Context(), []string{"z"}, ttl)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
		known, _ := QueueOf(a).Len()
		assert.LessOrEqual(t, known, 2, "after an hour")
	})
}

// A process that gives up does not stay in line on the nodes.
func TestProcessesThatGiveUpLeaveTheLine(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, 1000*time.Hour)
		require.NoError(t, err)
		for range 60 { // One a minute, as a cron job.
			r := newRedlock(t, c)
			_, err = r.Lock(t.Context(), []string{"x"}, ttl)
			require.ErrorIs(t, err, ErrTaken)
			require.NoError(t, r.Close(t.Context()))
			time.Sleep(50 * time.Second)
		}
		conn, err := c.Nodes[0].Conn(t.Context())
		require.NoError(t, err)
		n, err := redis.Int(conn.Do("ZCARD", LineKey("x")))
		require.NoError(t, err)
		_ = conn.Close()
		assert.LessOrEqual(t, n, 5, "sessions in line; all of them have ended")
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// However many have given up, the one that waits is told at once.
func TestAReleaseIsNotPassedThroughThoseThatHaveGivenUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, 1000*time.Hour)
		require.NoError(t, err)
		for range rounds(40, 25) {
			ctx, cancel := context.WithCancel(t.Context())
			w := startLock(t, newRedlock(t, c), ctx, []string{"x"}, slowly()...)
			cancel()
			<-w.done
		}
		w := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(500*time.Microsecond, 500*time.Microsecond))
		}
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		l := w.got(t)
		assert.Less(t, w.at.Sub(released), 10*time.Millisecond, "round trip 1 ms")
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// What callers do with their errors must not race with those that share the answer.
func TestARefusalBelongsToItsCaller(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		_, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, err := r.Lock(ctx, []string{"x"}, ttl, WithRetryCount(1+i), WithRetryDelay(5*time.Millisecond))
					var qe *QuorumError
					if errors.As(err, &qe) {
						slices.SortFunc(qe.Votes, func(a, b Vote) int { return int(b.Took - a.Took) })
						qe.Votes[0].Node = "mine"
						qe.Resources[0] = "mine"
					}
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		cancel()
		wg.Wait()
	})
}

// Nor be seen by them.
func TestARefusalIsNotShared(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		_, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		first := make(chan struct{})
		go func() {
			defer close(first)
			_, refused := r.Lock(t.Context(), []string{"x"}, ttl, WithRetryCount(1), WithRetryDelay(time.Second), WithRetryJitter(0),
				WithRetryIf(func(refused error) bool {
					var qe *QuorumError
					errors.As(refused, &qe)
					qe.Votes[0].Node = "mine"
					return true
				}))
			assert.ErrorIs(t, refused, ErrTaken)
		}()
		time.Sleep(10 * time.Millisecond)
		_, err = r.Lock(t.Context(), []string{"x"}, ttl, WithRetryCount(1), WithRetryDelay(100*time.Millisecond), WithRetryJitter(0))
		var qe *QuorumError
		require.ErrorAs(t, err, &qe)
		t.Log(qe.Votes[0].Node, qe.Attempt)
		assert.NotEqual(t, "mine", qe.Votes[0].Node)
		<-first
	})
}

// A release that the servers have refused, and that is sent again, wakes waiters, too.
func TestARepeatedReleaseWakesWaiters(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		held, err := r.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		w := startLock(t, r, t.Context(), []string{"x"}, slowly()...)
		other := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		for _, n := range c.Nodes {
			require.NoError(t, n.SetError("BUSY running a script"))
		}
		require.ErrorIs(t, held.Unlock(t.Context()), ErrNoQuorum)
		for _, n := range c.Nodes {
			require.NoError(t, n.SetError(""))
		}
		free := time.Now()
		l := w.got(t)
		assert.Less(t, w.at.Sub(free), 2*time.Second, "the lock is free, two processes wait")
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, other.got(t).Unlock(t.Context()))
	})
}

// A waiter that is behind one that nobody can help asks for itself: an old answer is none.
func TestNoAnswerStandsForLong(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		h, r := newRedlock(t, c), newRedlock(t, c)
		_, err := h.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		y, err := h.TryLock(t.Context(), []string{"y"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var all []*waitingLock
		yctx, ycancel := context.WithCancel(t.Context())
		all = append(all, startLock(t, r, ctx, []string{"x"}, slowly()...))
		all = append(all, startLock(t, r, yctx, []string{"y"}, slowly()...))
		all = append(all, startLock(t, r, ctx, []string{"x", "y"}, slowly()...))
		ycancel()
		require.NoError(t, y.Unlock(t.Context()))
		time.Sleep(time.Hour / 2)
		_, err = r.Lock(t.Context(), []string{"y"}, ttl)
		if err != nil {
			var qe *QuorumError
			require.ErrorAs(t, err, &qe)
			t.Log(err)
		}
		require.NoError(t, err, "y has been free for half an hour")
		cancel()
		for _, w := range all {
			<-w.done
		}
	})
}

// A node that hangs while it is subscribed to is down, and reported as that only.
func TestANodeThatIsDownIsNotSaidToBePolled(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var mu sync.Mutex
		var events []string
		r := newRedlock(t, c, WithHook(func(_ context.Context, e Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == EventPolling || e.Kind == EventNodeDown {
				events = append(events, fmt.Sprint(e.Kind, " ", e.Node, " ", e.Err))
			}
		}))
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		defer func() { _ = held.Unlock(context.Background()) }()
		_, err = r.TryLock(t.Context(), []string{"x"}, ttl)
		require.ErrorIs(t, err, ErrTaken)
		time.Sleep(time.Second)
		require.NoError(t, c.Nodes[0].Hang())
		ctx, cancel := context.WithCancel(t.Context())
		w := startLock(t, r, ctx, []string{"x"}, WithRetryCount(-1))
		time.Sleep(20 * time.Second)
		mu.Lock()
		for _, e := range events {
			assert.NotContains(t, e, "polling", events)
		}
		mu.Unlock()
		require.NoError(t, c.Nodes[0].Resume())
		cancel()
		<-w.done
	})
}

// Close does not wait for a pool that hangs, even if it is called twice.
func TestCloseWhileASubscriptionIsBorrowed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := nodesOf(c)
		quit := make(chan struct{})
		for i := range nodes {
			nodes[i].Pool = &secondPool{Pool: nodes[i].Pool, fail: func() error { <-quit; return errors.New("quit") }}
		}
		r, err := New(nodes)
		require.NoError(t, err)
		_, err = newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		done := make(chan struct{})
		go func() {
			_, err := r.Lock(t.Context(), []string{"x"}, ttl, WithRetryCount(-1))
			assert.ErrorIs(t, err, ErrClosed)
			close(done)
		}()
		time.Sleep(time.Duration(rand.N(150)) * time.Millisecond)
		start := time.Now()
		go func() { _ = r.Close(context.Background()) }()
		require.NoError(t, r.Close(context.Background()))
		assert.Less(t, time.Since(start), 300*time.Millisecond)
		<-done
		close(quit)
	})
}

// A holder that keeps a short lock refutes every guess when it ends.
func TestAKeptShortLockIsNotAskedAfterAllTheTime(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		h, r := newRedlock(t, c), newRedlock(t, c)
		held, err := h.TryLock(t.Context(), []string{"x"}, 100*time.Millisecond)
		require.NoError(t, err)
		held.KeepAlive(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		w := startLock(t, r, ctx, []string{"x"}, WithRetryCount(-1), WithRetryDelay(10*time.Second), WithRetryJitter(0))
		var mu sync.Mutex
		asked := 0
		sha := QueueScript.Hash.(string)
		require.NoError(t, c.Nodes[0].OnCommand(func(_ string, args []string) {
			mu.Lock()
			defer mu.Unlock()
			if len(args) > 0 && args[0] == sha {
				asked++
			}
		}))
		time.Sleep(10 * time.Second)
		mu.Lock()
		assert.Less(t, asked, 20, "in one retry delay of 10 s")
		mu.Unlock()
		cancel()
		<-w.done
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// The entry of a session that has ended must not keep the release from the waiters of this process.
func TestADeadSessionInLineDoesNotStopAHandOver(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := nodesOf(c)
		for i := range nodes {
			nodes[i].Pool = &secondPool{Pool: nodes[i].Pool, fail: func() error { return assert.AnError }}
		}
		r, err := New(nodes)
		require.NoError(t, err)
		defer func() { _ = r.Close(context.Background()) }()
		for _, dead := range []bool{false, true} {
			held, err := r.TryLock(t.Context(), []string{"x"}, time.Hour)
			require.NoError(t, err)
			if dead {
				ctx, cancel := context.WithCancel(t.Context())
				d, err := New(nodesOf(c))
				require.NoError(t, err)
				w := startLock(t, d, ctx, []string{"x"}, slowly()...)
				cancel()
				<-w.done
				require.NoError(t, d.Close(t.Context()))
			}
			w := startLock(t, r, t.Context(), []string{"x"}, slowly()...)
			released := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			l := w.got(t)
			assert.Less(t, w.at.Sub(released), time.Second, "dead: %v", dead)
			require.NoError(t, l.Unlock(t.Context()))
		}
	})
}

// A secondPool fails at every connection but the first one.
type secondPool struct {
	Pool

	fail func() error

	mu sync.Mutex
	n  int
}

func (p *secondPool) GetContext(ctx context.Context) (redis.Conn, error) {
	p.mu.Lock()
	p.n++
	first := p.n == 1
	p.mu.Unlock()
	if !first {
		return nil, p.fail()
	}
	return p.Pool.GetContext(ctx)
}

// A release that a process tells itself of, and cannot use, is not lost for others.
func TestALocalReleaseThatAWaiterForSeveralCannotUseIsPassedOn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c)
		x, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		_, err = newRedlock(t, c).TryLock(t.Context(), []string{"y"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		both := startLock(t, a, ctx, []string{"x", "y"}, slowly()...)
		one := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		time.Sleep(5 * time.Second)
		released := time.Now()
		require.NoError(t, x.Unlock(t.Context()))
		l := one.got(t)
		assert.Less(t, one.at.Sub(released), time.Second, "x was free all the time, no message was lost")
		cancel()
		<-both.done
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// Also when the next head is cancelled before it has tried.
func TestWaitersThatGiveUpTogetherLeaveTheLine(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		_, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		for range 20 {
			a := newRedlock(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			w1 := startLock(t, a, ctx, []string{"x"}, slowly()...)
			w2 := startLock(t, a, ctx, []string{"x"}, slowly()...)
			cancel()
			<-w1.done
			<-w2.done
		}
		time.Sleep(time.Second)
		conn, err := c.Nodes[0].Conn(t.Context())
		require.NoError(t, err)
		n, err := conn.Do("ZCARD", LineKey("x"))
		require.NoError(t, err)
		_ = conn.Close()
		assert.EqualValues(t, 0, n)
	})
}

// After SCRIPT FLUSH the release is sent again, behind the request that it was to make room for.
func TestAHandOverAfterAScriptFlush(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c)
		x, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		w := startLock(t, a, t.Context(), []string{"x"}, slowly()...)
		for _, n := range c.Nodes {
			conn, err := n.Conn(t.Context())
			require.NoError(t, err)
			_, err = conn.Do("SCRIPT", "FLUSH")
			require.NoError(t, err)
			_, err = conn.Do("SCRIPT", "LOAD", QueueScript.Source)
			require.NoError(t, err)
			_ = conn.Close()
			require.NoError(t, n.Slow(time.Millisecond, time.Millisecond))
		}
		time.Sleep(5 * time.Second)
		released := time.Now()
		require.NoError(t, x.Unlock(t.Context()))
		w.got(t)
		assert.Less(t, w.at.Sub(released), time.Second)
	})
}

// The attempt that a release has set off fails before the nodes have answered.
func TestAHandOverWhoseAttemptTimesOut(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c, WithNodeTimeout(time.Second))
		x, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		w := startLock(t, a, t.Context(), []string{"x"}, append(slowly(), WithNodeTimeout(10*time.Millisecond))...)
		time.Sleep(5 * time.Second)
		for _, n := range c.Nodes { // A pause of all nodes, of 30 ms
			require.NoError(t, n.Hang())
		}
		time.AfterFunc(30*time.Millisecond, func() {
			for _, n := range c.Nodes {
				_ = n.Resume()
			}
		})
		released := time.Now()
		require.NoError(t, x.Unlock(t.Context()))
		w.got(t)
		assert.Less(t, w.at.Sub(released), time.Second)
	})
}

// Two waiters that are cancelled at any moment around a release leave nobody asleep.
func TestWaitersCancelledAtAnyMoment(t *testing.T) {
	for i := 0; i < 150; i += rounds(1, 20) {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			h := newRedlock(t, c)
			x, err := h.TryLock(t.Context(), []string{"x"}, time.Hour)
			require.NoError(t, err)
			a, b := newRedlock(t, c), newRedlock(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			w1 := startLock(t, a, ctx, []string{"x"}, slowly()...)
			w2 := startLock(t, a, ctx, []string{"x"}, slowly()...)
			w3 := startLock(t, b, t.Context(), []string{"x"}, slowly()...)
			for j, n := range c.Nodes {
				require.NoError(t, n.Slow(time.Duration(1+(i+j)%3)*time.Millisecond, 3*time.Millisecond))
			}
			released := time.Now()
			go func() { _ = x.Unlock(t.Context()) }()
			time.Sleep(time.Duration(i) * 200 * time.Microsecond)
			cancel()
			<-w1.done
			<-w2.done
			for _, w := range []*waitingLock{w1, w2} {
				if w.lock != nil {
					released = time.Now()
					require.NoError(t, w.lock.Unlock(t.Context()))
				}
			}
			l := w3.got(t)
			assert.Less(t, w3.at.Sub(released), time.Second)
			require.NoError(t, l.Unlock(t.Context()))
			time.Sleep(100 * time.Millisecond)
			requireNoKeys(t, c)
		})
	}
}

// What settles the requests of a lock that is held must not look at what Unlock writes.
func TestASettlementBesideAHeldLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		for range 3 {
			l, err := r.TryLock(t.Context(), []string{"warm"}, ttl)
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, c.Nodes[2].Slow(20*time.Millisecond, 20*time.Millisecond))
			l, err = r.TryLock(t.Context(), []string{"x"}, ttl)
			require.NoError(t, err)
			time.Sleep(5 * time.Millisecond)
			c.Nodes[2].Proxy().Reset()
			require.NoError(t, c.Nodes[2].Slow(0, 0))
			time.Sleep(300 * time.Millisecond)
			require.NoError(t, l.Unlock(t.Context()))
		}
	})
}
