package redlock

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// What stands in for a counter that is lost is a clock, also where the client's is too
// far ahead to be believed.
func TestAClockStandsInForALostCounter(t *testing.T) {
	for what, lose := range map[string]func(c *testcluster.Cluster) error{
		"expired": func(*testcluster.Cluster) error { return nil },
		"one node's data": func(c *testcluster.Cluster) error {
			if err := c.Nodes[0].Flush(); err != nil {
				return err
			}
			return c.Nodes[1].Stop()
		},
	} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			a := newRedlock(t, c, WithFencing(), WithFenceLife(time.Minute))
			b := newRedlock(t, c, WithFencing(), WithFenceLife(time.Minute))
			WallOffset(b).Store(int64(2 * time.Second))
			l, err := a.TryLock(t.Context(), []string{"x"}, ttl)
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
			synctest.Wait()
			require.NoError(t, lose(c))
			time.Sleep(time.Hour)
			m, err := b.TryLock(t.Context(), []string{"x"}, ttl)
			require.NoError(t, err)
			assert.Greater(t, m.Fence(), l.Fence(), what)
			assert.Less(t, m.Fence(), time.Now().Add(2*time.Second).UnixMicro(), what)
		})
	}
}

// A quorum that has said the same is enough, whatever others say before the caller
// has woken up.
func TestAQuorumThatAgreesIsNotRaised(t *testing.T) {
	for range 30 {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c, WithFencing())
			l, err := r.TryLock(t.Context(), []string{"warm"}, ttl)
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, l.Unlock(t.Context()))
			synctest.Wait()
			base := ahead()
			setCounters(t, c, "x", base, base, base+10)
			onScript(t, c.Nodes[2], FencedLockScript.Hash.(string), func() { time.Sleep(time.Millisecond) })
			l, err = r.TryLock(t.Context(), []string{"x"}, ttl)
			require.NoError(t, err)
			assert.Equal(t, base+1, l.Fence())
			assert.Zero(t, r.Stats().Raised)
			time.Sleep(time.Second)
		})
	}
}

func TestTheFenceOfAQuorumThatAgrees(t *testing.T) {
	rd := &round{r: &core{need: 2}, grants: newGrants(3)}
	rd.grants.fences = []int64{5, 5, 9} // The last one came after the decision.
	rd.grants.agree(2)
	fence, granted := rd.fence()
	assert.EqualValues(t, 5, fence)
	assert.Equal(t, 3, granted)
}

// A minority that hangs after its grant must not fail the raise: who comes late is asked
// at once.
func TestAHungMinorityDoesNotFailARaise(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithFencing())
		base := ahead()
		setCounters(t, c, "x", base, base, base+10)
		onScript(t, c.Nodes[0], FencedLockScript.Hash.(string), func() { time.Sleep(5 * time.Millisecond) })
		onScript(t, c.Nodes[1], raiseMark(), func() { time.Sleep(10 * time.Second) })
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		assert.Equal(t, base+11, l.Fence())
		assert.Less(t, time.Since(start), 20*time.Millisecond)
		time.Sleep(20 * time.Second)
	})
}

// Events tell of the lock once: when it has its fence, or none comes of it.
func TestEventsOfARaise(t *testing.T) {
	for _, lost := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			var mu sync.Mutex
			var decided []Event
			r := newRedlock(t, c, WithFencing(), WithHook(func(_ context.Context, e Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Op == OpLock && e.Kind == EventDecided {
					decided = append(decided, e)
				}
			}))
			base := ahead()
			setCounters(t, c, "x", base, base+10, base+20)
			for _, n := range c.Nodes {
				onScript(t, n, raiseMark(), func() {
					if lost {
						takeAway(t, n)
					}
				})
			}
			_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			require.NotEmpty(t, decided)
			for _, e := range decided {
				assert.Equal(t, lost, e.Err != nil)
				assert.Equal(t, lost, e.Until.IsZero())
			}
			if lost {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				assert.Len(t, decided, 1)
			}
		})
	}
}

// A clock behind the end of the counters proposes nothing.
func TestAProposalBeyondTheEndIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(260 * 365 * 24 * time.Hour)
		c := testcluster.RunBubble(t, 3)
		r := newRedlock(t, c, WithFencing())
		setCounters(t, c, "x", 5, 5, 5)
		l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		assert.EqualValues(t, 6, l.Fence())
	})
}

// A split vote and raises that go on: a call still ends within three node timeouts, and
// leaves nothing.
func TestContestsWithRaisesEndInTime(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(0, 2*time.Millisecond))
		}
		for i := range int64(rounds(30, 8)) {
			a, b := newRedlock(t, c, WithFencing()), newRedlock(t, c, WithFencing())
			base := ahead()
			setCounters(t, c, "x", base, base+i%7, base+2, base+i%3, base+4)
			var all sync.WaitGroup
			for _, r := range []*Redlock{a, b, a, b} {
				all.Go(func() {
					start := time.Now()
					l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
					assert.LessOrEqual(t, time.Since(start), 3*DefaultNodeTimeout)
					if err == nil {
						_ = l.Unlock(t.Context())
					}
				})
			}
			all.Wait()
			require.NoError(t, a.Close(t.Context()))
			require.NoError(t, b.Close(t.Context()))
			synctest.Wait()
			requireNoKeys(t, c)
		}
	})
}

func TestCloseDuringARaiseLeavesNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithFencing(), WithMinHold(ttl))
		base := ahead()
		setCounters(t, c, "x", base, base+10, base+20)
		for _, n := range c.Nodes {
			onScript(t, n, raiseMark(), func() { time.Sleep(50 * time.Millisecond) })
		}
		done := make(chan error)
		go func() {
			_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			done <- err
		}()
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, r.Close(t.Context()))
		require.ErrorIs(t, <-done, ErrClosed)
		requireNoKeys(t, c)
	})
}

// The raise script on every kind of state, on a real server. It never lowers a
// counter, and gives those that it sets their life.
func TestRealRaises(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	conn := adminConn(t, n)
	for _, tc := range []struct {
		token, counter string
		fence, answer  int64
	}{
		{"t", "8", 9, 9},
		{"t", "9", 9, 9}, // A raise that comes late is harmless.
		{"t", "9007199254740990", MaxFence, MaxFence},
		{"t", "1760000000000001", 1760000000000002, 1760000000000002}, // Lua shows 14 digits.
		{"t", "10", 9, 0},
		{"t", "x", 9, 0},
		{"other", "8", 9, 0},
		{"", "8", 9, 0},
	} {
		require.NoError(t, n.Flush())
		if tc.token != "" {
			require.NoError(t, n.Set("x", tc.token, time.Minute))
		}
		require.NoError(t, n.Set(CounterKey("x"), tc.counter, time.Minute))
		answer, err := redis.Int64(conn.Do("EVAL", RaiseScript.Source, 2, "x", CounterKey("x"), "t", tc.fence, time.Hour.Milliseconds()))
		require.NoError(t, err)
		assert.Equal(t, tc.answer, answer, tc)
		text, _, err := n.Get(CounterKey("x"))
		require.NoError(t, err)
		left, err := redis.Int64(conn.Do("PTTL", CounterKey("x")))
		require.NoError(t, err)
		if tc.answer == 0 {
			assert.Equal(t, tc.counter, text, tc)
			assert.Less(t, left, 2*time.Minute.Milliseconds())
		} else {
			assert.Equal(t, strconv.FormatInt(tc.fence, 10), text, tc)
			assert.Greater(t, left, 59*time.Minute.Milliseconds())
		}
	}
}

// A user that may read the counters but not write them gets no lock, and no key is left.
func TestRealCountersThatMayNotBeWritten(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	nodes := make([]Node, len(c.Nodes))
	for i, n := range c.Nodes {
		_, err := adminConn(t, n).Do("ACL", "SETUSER", "reader", "on", ">pw", "resetkeys", "+@all", "~x", "~*:s:*", "%R~*:f:*")
		require.NoError(t, err)
		nodes[i] = NewNode("redis://reader:pw@" + n.Addr())
	}
	r := newRealRedlock(t, nodes)
	for _, opts := range [][]Option{{WithRetryCount(0)}, {WithRetryCount(1), WithRetryDelay(time.Millisecond)}} {
		_, err := r.Lock(t.Context(), []string{"x"}, time.Hour, append(opts, WithFencing())...)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "NOPERM")
		for _, n := range c.Nodes {
			assert.Empty(t, keys(t, n))
		}
	}
}

// A server that is out of memory keeps a lock and its counters.
func TestRealServersOutOfMemoryKeepFences(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	r := newRealRedlock(t, nodesOf(c), WithFencing())
	l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		for _, n := range c.Nodes {
			if len(keys(t, n)) == 0 {
				return false
			}
		}
		return true
	}, 5*time.Second, time.Millisecond)
	for _, ttl := range []time.Duration{2 * time.Minute, 30 * time.Second} { // Longer than what is left, and shorter.
		for _, n := range c.Nodes {
			require.NoError(t, n.Del(CounterKey("a")))
			_, err := adminConn(t, n).Do("CONFIG", "SET", "maxmemory", "1")
			require.NoError(t, err)
		}
		require.NoError(t, l.Extend(t.Context(), ttl))
	}
	require.NoError(t, l.Unlock(t.Context()))
}
