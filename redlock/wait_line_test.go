package redlock_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A place in line does not change when its owner asks again.
func TestWaitLineKeepsAPlace(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		first := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, redlock.WithRetryCount(-1), redlock.WithRetryDelay(100*time.Millisecond), redlock.WithRetryJitter(0))
		second := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		time.Sleep(1030 * time.Millisecond) // The first one has asked ten times since.
		require.NoError(t, held.Unlock(t.Context()))
		l := first.got(t)
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, second.got(t).Unlock(t.Context()))
		assert.True(t, first.at.Before(second.at))
	})
}

// A newcomer that gives way is in line from then on, by when it began.
func TestWaitLineHasAPlaceForANewcomerThatGivesWay(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c)
		held, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		told := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		require.NoError(t, c.Slow(5*time.Millisecond, 5*time.Millisecond))
		require.NoError(t, held.Unlock(t.Context()))
		newcomer := make(chan time.Time, 1)
		go func() {
			l, err := a.Lock(t.Context(), []string{"x"}, ttl, slowly()...)
			assert.NoError(t, err)
			newcomer <- time.Now()
			assert.NoError(t, l.Unlock(t.Context()))
		}()
		l := told.got(t)
		later := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		require.NoError(t, l.Unlock(t.Context()))
		at := <-newcomer
		require.NoError(t, later.got(t).Unlock(t.Context()))
		assert.True(t, at.Before(later.at))
	})
}

// Somebody who polls often does not make the line end before those in it come back that do so
// seldom.
func TestWaitLinesLifeDoesNotShrink(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", 10*time.Hour)
		seldom := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, redlock.WithRetryCount(-1), redlock.WithRetryDelay(time.Hour), redlock.WithRetryJitter(0))
		often := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, redlock.WithRetryCount(-1), redlock.WithRetryDelay(100*time.Millisecond))
		time.Sleep(time.Second + 7*time.Millisecond) // Not at a retry, which is not told of the release, and might come first.
		for _, key := range []string{redlock.LineKey("x"), strings.TrimSuffix(redlock.LineKey("x"), "l")} {
			left, err := redis.Int(do(t, c.Nodes[0], "PTTL", key), nil)
			require.NoError(t, err)
			assert.Greater(t, time.Duration(left)*time.Millisecond, time.Hour, key)
		}
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, seldom.got(t).Unlock(t.Context()))
		require.NoError(t, often.got(t).Unlock(t.Context()))
	})
}

// fill puts so many strangers that do not listen in a line, who came at the given time.
func fill(t *testing.T, c *testcluster.Cluster, resource string, strangers int, came time.Time) {
	t.Helper()
	for _, n := range c.Nodes {
		args := []any{redlock.LineKey(resource)}
		for i := range strangers {
			args = append(args, came.UnixMicro(), redlock.ChannelMark+"dead"+strconv.Itoa(i))
		}
		do(t, n, "ZADD", args...)
		do(t, n, "PEXPIRE", redlock.LineKey(resource), time.Minute.Milliseconds())
		do(t, n, "SET", strings.TrimSuffix(redlock.LineKey(resource), "l"), 1, "PX", time.Minute.Milliseconds())
	}
}

// A line that is full of those that came later has room for whoever has waited longer.
func TestWaitLineThatIsFullDropsTheLast(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		slowDown(t, c)
		for i, strangers := range []int{1000, 999, 1500}[:rounds(3, 1)] {
			res := fmt.Sprint("x", i)
			held, err := newRedlock(t, c).TryLock(t.Context(), []string{res}, time.Hour)
			require.NoError(t, err)
			fill(t, c, res, strangers, time.Now().Add(time.Hour))
			w := startLock(t, newRedlock(t, c), t.Context(), []string{res}, slowly()...)
			released := time.Now()
			for _, n := range c.Nodes {
				length, err := redis.Int(do(t, n, "ZCARD", redlock.LineKey(res)), nil)
				require.NoError(t, err)
				assert.LessOrEqual(t, length, 1000)
			}
			require.NoError(t, held.Unlock(t.Context()))
			l := w.got(t)
			assert.LessOrEqual(t, w.at.Sub(released), time.Millisecond, "five round trips, %d strangers", strangers)
			require.NoError(t, l.Unlock(t.Context()))
		}
	})
}

// One that comes after them polls, and says so; the line does not grow.
func TestWaitLineThatIsFullDoesNotGrow(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		slowDown(t, c)
		fill(t, c, "x", 1000, time.Now().Add(-time.Hour))
		said := make(chan redlock.Event, 3)
		r := newRedlock(t, c, redlock.WithHook(func(_ context.Context, e redlock.Event) {
			if e.Kind == redlock.EventPolling {
				said <- e
			}
		}))
		w := startLock(t, r, t.Context(), []string{"x"}, redlock.WithRetryCount(-1), redlock.WithRetryDelay(time.Second), redlock.WithRetryJitter(0))
		select {
		case e := <-said:
			require.ErrorContains(t, e.Err, "the line is full")
		case <-time.After(10 * time.Second):
			t.Error("nobody was told that the line is full")
		}
		for _, n := range c.Nodes {
			length, err := redis.Int(do(t, n, "ZCARD", redlock.LineKey("x")), nil)
			require.NoError(t, err)
			assert.LessOrEqual(t, length, 1000)
		}
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.LessOrEqual(t, w.at.Sub(released), time.Second)
	})
}

// Whoever was told and does not come is waited for until the reservation ends, not for a
// retry delay; and only by those that ask by turn.
func TestWaitLineReservationEnds(t *testing.T) {
	for _, try := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			nodes, taps := tapped(c)
			hung := newOver(t, nodes)
			a := newRedlock(t, c)
			held, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			w := startLock(t, hung, ctx, []string{"x"}, slowly()...)
			time.Sleep(time.Second) // All nodes are listened to.
			for _, tp := range taps {
				tp.SetMute(true)
			}
			require.NoError(t, held.Unlock(t.Context()))
			synctest.Wait() // All nodes have answered.
			reserved := 0   // On a quorum; where a vote was not waited for, its request may not have been sent.
			for _, n := range c.Nodes {
				left, failed := redis.Int(do(t, n, "PTTL", redlock.ReservationKey("x")), nil)
				require.NoError(t, failed)
				assert.LessOrEqual(t, left, 100)
				if left > 0 {
					reserved++
				}
			}
			assert.GreaterOrEqual(t, reserved, 2)
			released := time.Now()
			var l *redlock.Lock
			if try {
				l, err = a.TryLock(t.Context(), []string{"x"}, ttl)
				assert.Equal(t, released, time.Now(), "TryLock looks at no reservation")
			} else {
				l, err = a.Lock(t.Context(), []string{"x"}, ttl, slowly()...)
				assert.GreaterOrEqual(t, time.Since(released), 100*time.Millisecond)
				assert.Less(t, time.Since(released), 120*time.Millisecond)
			}
			require.NoError(t, err)
			cancel()
			<-w.done
			require.NoError(t, l.Unlock(t.Context()))
			time.Sleep(time.Second)
			for _, n := range c.Nodes {
				all, err := n.Keys()
				require.NoError(t, err)
				assert.NotContains(t, all, redlock.ReservationKey("x"))
			}
		})
	}
}

// A node that grants a lock ends what was reserved there for its holder. One that was asked
// before the release had reached it has refused, and reserves what nobody comes for; that
// ends by itself.
func TestWaitLineReservationEndsWithAGrant(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		w := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		require.NoError(t, held.Unlock(t.Context()))
		l := w.got(t)
		synctest.Wait()
		granted := 0
		for _, n := range c.Nodes {
			if keys(t, n)["x"].Value == l.Token() {
				granted++
				assert.EqualValues(t, 0, do(t, n, "EXISTS", redlock.ReservationKey("x")))
			}
		}
		assert.GreaterOrEqual(t, granted, redlock.Quorum(len(c.Nodes)))
		time.Sleep(101 * time.Millisecond)
		for _, n := range c.Nodes {
			assert.EqualValues(t, 0, do(t, n, "EXISTS", redlock.ReservationKey("x")))
		}
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// One that was told and has hung costs the others their retry delay.
func TestWaitLineWhoIsToldAndHangsCostsTheOthersTheirRetryDelay(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		nodes, taps := tapped(c)
		hung := startLock(t, newOver(t, nodes), ctx, []string{"x"}, slowly()...)
		for _, tp := range taps {
			tp.SetMute(true)
		}
		next := startLock(t, newRedlock(t, c), t.Context(), []string{"x"},
			redlock.WithRetryCount(-1), redlock.WithRetryDelay(time.Second), redlock.WithRetryJitter(0))
		require.NoError(t, held.Unlock(t.Context()))
		released := time.Now()
		l := next.got(t)
		assert.Less(t, next.at.Sub(released), 1010*time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		cancel()
		<-hung.done
	})
}
