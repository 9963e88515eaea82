package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Only the first in line asks the nodes, once in a retry delay, however many wait; and each has the lock in its turn.
func TestWaitersAskTheNodesByTheirHeadOnly(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held, b := lockElsewhere(t, c, "x", time.Hour), newRedlock(t, c)
		var all []*waitingLock
		for i := range 10 {
			count := -1
			if i%2 == 1 {
				count = 1 << 20 // Their retries are counted.
			}
			all = append(all, startLock(t, b, []string{"x"}, every(100*time.Millisecond, count)...))
		}
		assert.Equal(t, 10, b.Stats().Waiting)
		var mu sync.Mutex
		asked, start := map[time.Duration][3]int{}, time.Now() // how often each node, and when
		for i, n := range c.Nodes {
			require.NoError(t, n.OnCommand(func(cmd string, args []string) {
				if isLockRequest(cmd, args) {
					mu.Lock()
					defer mu.Unlock()
					times := asked[time.Since(start)]
					times[i]++
					asked[time.Since(start)] = times
				}
			}))
		}
		time.Sleep(10*time.Second + 50*time.Millisecond) // The last retry is not to race with this.
		mu.Lock()
		assert.Len(t, asked, 100)
		for at, times := range asked {
			assert.Zero(t, at%(100*time.Millisecond), "a retry of the head, after %v", at)
			assert.LessOrEqual(t, max(times[0], times[1], times[2]), 1, "after %v", at)
		}
		mu.Unlock()
		require.NoError(t, held.Unlock(t.Context()))
		for i, w := range all {
			require.NoError(t, w.got(t).Unlock(t.Context()))
			assert.True(t, i == 0 || !w.at.Before(all[i-1].at), i)
		}
	})
}

// One that has no timer of its own, since the first in its line asks, gets one when that one
// has left and the next is no head.
func TestWaitersBehindOneThatIsNoHeadAskThemselves(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, taps := tapped(c)
		r := newOver(t, nodes)
		h := newRedlock(t, c)
		x := tryLock(t, h, []string{"x"}, time.Hour)
		tryLock(t, h, []string{"y"}, time.Hour)
		mute(taps)
		opts := []redlock.Option{redlock.WithRetryCount(-1), redlock.WithRetryJitter(0)}
		first := startLock(t, r, []string{"x"}, opts...)
		y := startLock(t, r, []string{"y"}, opts...)
		both := startLock(t, r, []string{"x", "y"}, opts...) // No head: it is not the first for y.
		w := startLock(t, r, []string{"x"}, opts...)
		first.leaves()
		time.Sleep(time.Second)
		w.takesOver(t, x, 2*redlock.DefaultRetryDelay)
		y.leaves()
		both.leaves()
	})
}

func TestWaitCountsTimedRetriesInLine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		tryLock(t, a, []string{"x"}, time.Hour)
		head := startLock(t, b, []string{"x"}, redlock.WithRetryCount(-1))
		asked := 0
		start := time.Now()
		ask := redlock.WithRetryIf(func(err error) bool { asked++; return redlock.RetryDefault(err) })
		err := givesUp(t, redlock.ErrTaken, b, []string{"x", "y"}, append(every(time.Second, 3), ask)...)
		assert.Equal(t, 3*time.Second, time.Since(start))
		assert.Equal(t, 3, quorumError(t, err).Attempt)
		assert.Equal(t, 2, asked, "the last one is not asked about")

		// As it is for one that is first: the attempt at the beginning, and the timed ones.
		head.leaves()
		start = time.Now()
		err = givesUp(t, redlock.ErrTaken, b, []string{"x"}, every(time.Second, 3)...)
		assert.Equal(t, 3*time.Second, time.Since(start))
		assert.Equal(t, 4, quorumError(t, err).Attempt)
	})
}

func TestWaiterOfAnotherProcessIsWokenByARelease(t *testing.T) {
	for _, n := range []int{2, 3} {
		inBubble(t, n, func(t *testing.T, c *testcluster.Cluster) {
			slowDown(t, c) // One of two nodes alone may refuse; in line there only, it waits for the other's message.
			a := newRedlock(t, c, redlock.WithPrefix("p:"))
			b := newRedlock(t, c, redlock.WithPrefix("p:"))
			held := tryLock(t, a, []string{"x", "y"}, ttl)
			w := startLock(t, b, []string{"y"}, slowly()...)
			released := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			l := w.got(t)
			assert.LessOrEqual(t, w.at.Sub(released), time.Millisecond, "five round trips")
			assert.Equal(t, 2, l.Attempts())
			assert.Equal(t, int64(1), b.Stats().Woken)
			assert.True(t, b.Stats().Nodes[0].Listens)
		})
	}
}

func TestWaitIgnoresMessagesOfOthers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithPrefix("p:"))
		held := tryLock(t, newRedlock(t, c, redlock.WithPrefix("p:")), []string{"x"}, time.Hour)
		w := startLock(t, r, []string{"x"}, slowly()...)
		for _, n := range c.Nodes {
			for _, payload := range []string{"", "short", "123456789012", "123456789012q", "123456789012p:nobody waits for it", "123456789012p:x"} {
				do(t, n, "PUBLISH", redlock.ChannelOf(r), payload)
			}
		}
		time.Sleep(time.Second)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
	})
}

func TestWaiterThatIsCancelledLeavesAtOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		held := tryLock(t, a, []string{"x"}, time.Hour)
		var calls []*waitingLock
		for range 4 {
			calls = append(calls, startLock(t, b, []string{"x"}, slowly()...))
		}
		for _, i := range []int{2, 0} { // From the middle, and the head.
			at := time.Now()
			calls[i].leaves()
			require.ErrorIs(t, calls[i].err, context.Canceled)
			require.ErrorIs(t, calls[i].err, redlock.ErrTaken)
			assert.Equal(t, at, calls[i].at)
		}
		time.Sleep(10 * time.Millisecond)
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		for _, i := range []int{1, 3} {
			require.NoError(t, calls[i].got(t).Unlock(t.Context()))
		}
		assert.Less(t, time.Since(released), 10*time.Millisecond)
	})
}

// What is remembered of a resource goes, also in a process that never waits.
func TestWaitQueuesAreForgotten(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		a, b := newRedlock(t, c), newRedlock(t, c)
		for i := range 50 {
			res := []string{fmt.Sprintf("job:%d", i)}
			held := tryLock(t, a, res, ttl)
			startLock(t, b, res, slowly()...).takesOver(t, held, time.Second)
		}
		time.Sleep(time.Hour)
		cycle(t, a, "z", ttl)
		known, _ := testkit.WaitersOf(a)
		assert.LessOrEqual(t, known, 2, "after an hour")
	})
}

// every is the options of a waiter that asks after each delay, and so often; -1: until it has the lock.
func every(delay time.Duration, retries int) []redlock.Option {
	return []redlock.Option{redlock.WithRetryCount(retries), redlock.WithRetryDelay(delay), redlock.WithRetryJitter(0)}
}

// startLock starts a Lock and returns when it waits.
func startLock(t *testing.T, r *redlock.Redlock, resources []string, opts ...redlock.Option) *waitingLock {
	t.Helper()
	w := underWay(t, r, resources, ttl, opts...)
	time.Sleep(50 * time.Millisecond) // It listens, and has looked again.
	synctest.Wait()
	return w
}

// underWay starts a Lock, for a ttl, and returns when it has nothing to do but to wait.
func underWay(
	t *testing.T, r *redlock.Redlock, resources []string, life time.Duration, opts ...redlock.Option,
) *waitingLock {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &waitingLock{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lock, w.err = r.Lock(ctx, resources, life, opts...)
		w.at = time.Now()
	}()
	synctest.Wait()
	return w
}

type waitingLock struct {
	cancel context.CancelFunc
	done   chan struct{}
	lock   *redlock.Lock
	err    error
	at     time.Time
}

// leaves has the waiter give up.
func (w *waitingLock) leaves() {
	w.cancel()
	<-w.done
}

// takesOver releases a lock, checks that the waiter has it within some time, and releases it again.
func (w *waitingLock) takesOver(t *testing.T, held *redlock.Lock, within time.Duration) {
	t.Helper()
	released := time.Now()
	require.NoError(t, held.Unlock(t.Context()))
	l := w.got(t)
	assert.LessOrEqual(t, w.at.Sub(released), within)
	require.NoError(t, l.Unlock(t.Context()))
}

// got waits for the lock.
func (w *waitingLock) got(t *testing.T) *redlock.Lock {
	t.Helper()
	<-w.done
	require.NoError(t, w.err)
	return w.lock
}

// do runs a command on a node.
func do(t *testing.T, n *testcluster.Node, command string, args ...any) any {
	t.Helper()
	conn, err := n.Conn(context.Background())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	reply, err := conn.Do(command, args...)
	require.NoError(t, err)
	return reply
}

// doInt is do where the answer is a number.
func doInt(t *testing.T, n *testcluster.Node, command string, args ...any) int {
	t.Helper()
	return int(do(t, n, command, args...).(int64))
}

// isWanted reports whether the channel of Wanted is closed.
func isWanted(l *redlock.Lock) bool { return isClosed(l.Wanted()) }

func isClosed(wanted <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-wanted:
		return true
	default:
		return false
	}
}

func TestWaitIsSeenByAHolderOfThisProcessAtOnce(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := tryLock(t, r, []string{"a", "b"}, time.Minute)
		other := tryLock(t, r, []string{"c"}, time.Minute)
		require.False(t, isWanted(l))
		refused(t, redlock.ErrTaken, r, []string{"a"}, time.Minute)
		require.False(t, isWanted(l), "who tries does not wait")
		wanted := l.Wanted()
		wait := func(resource string) {
			t.Cleanup(underWay(t, r, []string{resource}, time.Minute, redlock.WithRetryCount(-1)).leaves)
		}
		wait("b")
		require.True(t, isClosed(wanted), "at once, without another call")
		require.True(t, isWanted(l))
		require.False(t, isWanted(other))
		wait("b")
		require.True(t, isWanted(l))
		fresh := tryLock(t, r, []string{"d"}, time.Minute)
		wait("d")
		synctest.Wait()
		require.True(t, isWanted(fresh), "somebody waited before it was asked")
		require.NoError(t, other.Unlock(t.Context()))
		require.False(t, isWanted(other), "the end of the lock does not close it")
	})
}

func TestWaitInAnotherProcessIsSeenByAnExtension(t *testing.T) {
	for name, opts := range map[string][]redlock.Option{"plain": nil, "fencing": {redlock.WithFencing()}} {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			r, far := newRedlock(t, c, opts...), newRedlock(t, c, opts...)
			l := tryLock(t, r, []string{"a", "b"}, 30*time.Second)
			w := startLock(t, far, []string{"b"}, redlock.WithRetryCount(-1))
			require.NoError(t, l.Extend(t.Context(), 30*time.Second), "it does not ask")
			require.False(t, isWanted(l), "the lock was not extended since")
			w.leaves()
			synctest.Wait() // It leaves the lines.
			require.NoError(t, l.Extend(t.Context(), 30*time.Second))
			require.False(t, isWanted(l), "nobody waits any more")

			l.KeepAlive(t.Context())
			time.Sleep(time.Minute)
			require.False(t, isWanted(l))
			w = startLock(t, far, []string{"b"}, redlock.WithRetryCount(-1))
			wanted := l.Wanted()
			time.Sleep(10 * time.Second)
			require.True(t, isClosed(wanted), "by the next extension")
			w.takesOver(t, l, time.Second)
		})
	}
}

// A lock that has ended unnoticed neither hides a later one of the process nor is told of who waits for that.
func TestWaitIsNotSeenByALockThatHasEnded(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		ended, endedUnasked := tryLock(t, r, []string{"a"}, time.Second), tryLock(t, r, []string{"b"}, time.Second)
		early := ended.Wanted()
		time.Sleep(2 * time.Second)
		elsewhere := tryLock(t, newRedlock(t, c), []string{"a"}, time.Minute)
		l := tryLock(t, r, []string{"b"}, time.Minute)
		wanted := l.Wanted()
		endedUnasked.Wanted()
		w, v := startLock(t, r, []string{"a"}), startLock(t, r, []string{"b"})
		require.False(t, isClosed(early))
		require.True(t, isClosed(wanted))
		require.NoError(t, elsewhere.Unlock(t.Context()))
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		require.NoError(t, v.got(t).Unlock(t.Context()))
	})
}
