package redlock

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
)

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
					l, err := c.r.Lock(t.Context(), c.resources, ttl, WithRetryCount(-1))
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
	r          *Redlock
	goroutines int
	resources  []string
	hold       time.Duration
}

// Also with several callers in each, of whom the next one asks right behind the release of
// the last one.
func TestProcessesThatHoldForNoTimeTakeTurns(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(50*time.Microsecond, 200*time.Microsecond))
		}
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
func TestALockRightAfterAnUnlockComesAfterWhoWasTold(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c)
		distant, err := New(far(t, c), WithNodeTimeout(time.Second))
		require.NoError(t, err)
		defer func() { _ = distant.Close(context.Background()) }()
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

// A place in line does not change when its owner asks again.
func TestAPlaceInLineIsKept(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		first := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, WithRetryCount(-1), WithRetryDelay(100*time.Millisecond), WithRetryJitter(0))
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
func TestANewcomerThatGivesWayHasAPlaceInLine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c)
		held, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		told := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(5*time.Millisecond, 5*time.Millisecond))
		}
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

// Whoever was told and does not come is waited for until the reservation ends, not for a
// retry delay; and only by those that ask by turn.
func TestAReservationEnds(t *testing.T) {
	for _, try := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			nodes, taps := tapped(c)
			hung, err := New(nodes)
			require.NoError(t, err)
			defer func() { _ = hung.Close(context.Background()) }()
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
				left, failed := redis.Int(do(t, n, "PTTL", ReservationKey("x")), nil)
				require.NoError(t, failed)
				assert.LessOrEqual(t, left, 100)
				if left > 0 {
					reserved++
				}
			}
			assert.GreaterOrEqual(t, reserved, 2)
			released := time.Now()
			var l *Lock
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
				assert.NotContains(t, all, ReservationKey("x"))
			}
		})
	}
}

// One that was told and has hung costs the others its reservation, not their retry delay: also
// if somebody who does not look at the reservation has had the lock in between.
func TestWhoeverIsToldAndHangsCostsTheOthersItsReservation(t *testing.T) {
	for _, between := range []bool{false, true} {
		for _, hangs := range []int{1, 3} {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				a := newRedlock(t, c)
				held, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				var all []*waitingLock
				for range hangs {
					nodes, taps := tapped(c)
					hung, err := New(nodes)
					require.NoError(t, err)
					defer func() { _ = hung.Close(context.Background()) }()
					all = append(all, startLock(t, hung, ctx, []string{"x"}, slowly()...))
					for _, tp := range taps {
						tp.SetMute(true)
					}
				}
				next := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
				require.NoError(t, held.Unlock(t.Context()))
				if between {
					l, err := a.TryLock(t.Context(), []string{"x"}, ttl)
					require.NoError(t, err)
					require.NoError(t, l.Unlock(t.Context()))
				}
				released := time.Now()
				l := next.got(t)
				assert.Less(t, next.at.Sub(released), time.Duration(hangs)*130*time.Millisecond)
				require.NoError(t, l.Unlock(t.Context()))
				cancel()
				for _, w := range all {
					<-w.done
				}
			})
		}
	}
}

// A node that grants a lock ends what was reserved there for its holder. One that was asked
// before the release had reached it has refused, and reserves what nobody comes for; that
// ends by itself.
func TestAGrantEndsTheReservation(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		w := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		require.NoError(t, held.Unlock(t.Context()))
		l := w.got(t)
		synctest.Wait()
		granted := 0
		for _, n := range c.Nodes {
			if keys(t, n)["x"].Value == l.Token() {
				granted++
				assert.EqualValues(t, 0, do(t, n, "EXISTS", ReservationKey("x")))
			}
		}
		assert.GreaterOrEqual(t, granted, Quorum(len(c.Nodes)))
		time.Sleep(101 * time.Millisecond)
		for _, n := range c.Nodes {
			assert.EqualValues(t, 0, do(t, n, "EXISTS", ReservationKey("x")))
		}
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// All messages that a process has no use for are passed on, not only the first: the next one
// does not have to wait for those that are missing.
func TestEveryMessageIsPassedOn(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		idle := newRedlock(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		gone := startLock(t, idle, ctx, []string{"x"}, slowly()...)
		cancel()
		<-gone.done
		w := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		for _, n := range c.Nodes { // As if the one that has gone had not left the lines.
			do(t, n, "ZADD", LineKey("x"), 1, ChannelOf(idle))
		}
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		l := w.got(t)
		assert.Equal(t, released, w.at)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// Whoever leaves after it was told passes the release on under its name, by which the next
// one counts the messages about it; whoever was not told only leaves.
func TestAReleaseKeepsItsName(t *testing.T) {
	for _, told := range []bool{true, false} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
			require.NoError(t, err)
			r := newRedlock(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			w := startLock(t, r, ctx, []string{"x"}, slowly()...)
			var mu sync.Mutex
			var names []string
			require.NoError(t, c.Nodes[1].OnCommand(func(_ string, args []string) {
				mu.Lock()
				defer mu.Unlock()
				if len(args) > 4 && args[0] == PassScript.Hash.(string) {
					names = append(names, args[4])
				}
			}))
			name := tokens.Digest(held.Token())
			if told {
				QueueOf(r).Hear(0, "x", name)
			} else {
				name = ""
			}
			cancel()
			<-w.done
			synctest.Wait()
			mu.Lock()
			assert.Equal(t, []string{name}, names)
			mu.Unlock()
			require.NoError(t, held.Unlock(t.Context()))
		})
	}
}

// One that has no timer of its own, since the first in its line asks, gets one when that one
// has left and the next is no head.
func TestThoseBehindOneThatIsNoHeadAskThemselves(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, taps := tapped(c)
		r, err := New(nodes)
		require.NoError(t, err)
		defer func() { _ = r.Close(context.Background()) }()
		h := newRedlock(t, c)
		x, err := h.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		_, err = h.TryLock(t.Context(), []string{"y"}, time.Hour)
		require.NoError(t, err)
		for _, tp := range taps {
			tp.SetMute(true)
		}
		opts := []Option{WithRetryCount(-1), WithRetryJitter(0)}
		ctx, cancel := context.WithCancel(t.Context())
		first, firstEnds := context.WithCancel(t.Context())
		all := []*waitingLock{
			startLock(t, r, first, []string{"x"}, opts...),
			startLock(t, r, ctx, []string{"y"}, opts...),
			startLock(t, r, ctx, []string{"x", "y"}, opts...), // No head: it is not the first for y.
		}
		w := startLock(t, r, t.Context(), []string{"x"}, opts...)
		firstEnds()
		<-all[0].done
		time.Sleep(time.Second)
		released := time.Now()
		require.NoError(t, x.Unlock(t.Context()))
		l := w.got(t)
		assert.LessOrEqual(t, w.at.Sub(released), 2*DefaultRetryDelay)
		cancel()
		for _, w := range all {
			<-w.done
		}
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// Somebody who polls often does not make the line end before those in it come back that do so
// seldom.
func TestALinesLifeDoesNotShrink(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, 10*time.Hour)
		require.NoError(t, err)
		seldom := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, WithRetryCount(-1), WithRetryDelay(time.Hour), WithRetryJitter(0))
		often := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, WithRetryCount(-1), WithRetryDelay(100*time.Millisecond))
		time.Sleep(time.Second)
		for _, key := range []string{LineKey("x"), strings.TrimSuffix(LineKey("x"), "l")} {
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
		args := []any{LineKey(resource)}
		for i := range strangers {
			args = append(args, came.UnixMicro(), ChannelMark+"dead"+strconv.Itoa(i))
		}
		do(t, n, "ZADD", args...)
		do(t, n, "PEXPIRE", LineKey(resource), time.Minute.Milliseconds())
		do(t, n, "SET", strings.TrimSuffix(LineKey(resource), "l"), 1, "PX", time.Minute.Milliseconds())
	}
}

// A line that is full of those that came later has room for whoever has waited longer.
func TestAFullLineDropsTheLast(t *testing.T) {
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
				length, err := redis.Int(do(t, n, "ZCARD", LineKey(res)), nil)
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
func TestAFullLineDoesNotGrow(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held, err := newRedlock(t, c).TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		slowDown(t, c)
		fill(t, c, "x", 1000, time.Now().Add(-time.Hour))
		said := make(chan Event, 3)
		r := newRedlock(t, c, WithHook(func(_ context.Context, e Event) {
			if e.Kind == EventPolling {
				said <- e
			}
		}))
		w := startLock(t, r, t.Context(), []string{"x"}, WithRetryCount(-1), WithRetryDelay(time.Second), WithRetryJitter(0))
		select {
		case e := <-said:
			require.ErrorContains(t, e.Err, "the line is full")
		case <-time.After(10 * time.Second):
			t.Error("nobody was told that the line is full")
		}
		for _, n := range c.Nodes {
			length, err := redis.Int(do(t, n, "ZCARD", LineKey("x")), nil)
			require.NoError(t, err)
			assert.LessOrEqual(t, length, 1000)
		}
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.LessOrEqual(t, w.at.Sub(released), time.Second)
	})
}

// Somebody is told, and refused because of an attempt of a third client, which is cancelled or
// takes too long: when that one gives its votes back, it is told again.
func TestAnAttemptThatIsCutShortSwallowsNoWakeUp(t *testing.T) {
	for name, try := range map[string]func(t *testing.T, r *Redlock) error{
		"TryLock cancelled": func(t *testing.T, r *Redlock) error {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Microsecond)
			defer cancel()
			_, err := r.TryLock(ctx, []string{"x"}, time.Minute)
			return err
		},
		"Lock cancelled": func(t *testing.T, r *Redlock) error {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Microsecond)
			defer cancel()
			_, err := r.Lock(ctx, []string{"x"}, time.Minute)
			return err
		},
		"timed out": func(t *testing.T, r *Redlock) error {
			_, err := r.TryLock(t.Context(), []string{"x"}, time.Minute, WithNodeTimeout(1500*time.Microsecond))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				h, third := newRedlock(t, c), newRedlock(t, c)
				_, err := third.TryLock(t.Context(), []string{"other"}, time.Second) // It is connected.
				require.NoError(t, err)
				held, err := h.TryLock(t.Context(), []string{"x"}, time.Hour)
				require.NoError(t, err)
				w := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
				for _, n := range c.Nodes {
					require.NoError(t, n.Slow(time.Millisecond, time.Millisecond))
				}
				released := time.Now()
				go func() { assert.NoError(t, held.Unlock(t.Context())) }() // Arrives after 1 ms; w asks 2 ms later.
				time.Sleep(time.Millisecond)
				require.Error(t, try(t, third)) // Arrives at 2 ms, gives up at 2.5.
				l := w.got(t)
				assert.Less(t, w.at.Sub(released), 50*time.Millisecond)
				require.NoError(t, l.Unlock(t.Context()))
				time.Sleep(2 * time.Second)
				requireNoKeys(t, c)
			})
		})
	}
}

// Somebody who wants two resources has its turn beside those that use either of them all the
// time.
func TestAWaiterForSeveralHasItsTurn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(50*time.Microsecond, 200*time.Microsecond))
		}
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
func TestAWaiterForSeveralHoldsNobodyUpForLong(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(50*time.Microsecond, 200*time.Microsecond))
		}
		users := []contender{{newRedlock(t, c), 4, []string{"a"}, time.Millisecond}, {newRedlock(t, c), 4, []string{"a"}, time.Millisecond}}
		alone, _ := takeTurns(t, users, scenario(600*time.Millisecond, 400*time.Millisecond))
		_, err := newRedlock(t, c).TryLock(t.Context(), []string{"b"}, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		w := startLock(t, newRedlock(t, c), ctx, []string{"a", "b"}, WithRetryCount(-1))
		beside, longest := takeTurns(t, users, scenario(600*time.Millisecond, 400*time.Millisecond))
		t.Log(alone, beside, longest)
		assert.Greater(t, beside[0]+beside[1], (alone[0]+alone[1])*3/4)
		assert.Less(t, slices.Max(longest), 300*time.Millisecond)
		cancel()
		<-w.done
	})
}

// far returns the nodes of a cluster for a client that is 20 ms from them, one way.
func far(t *testing.T, c *testcluster.Cluster) []Node {
	t.Helper()
	nodes := make([]Node, len(c.Nodes))
	for i, n := range c.Nodes {
		p := testcluster.NewProxy(n.Dial)
		t.Cleanup(p.Close)
		p.SetDelay(20*time.Millisecond, 20*time.Millisecond)
		nodes[i] = Node{Name: n.Name(), Pool: &conn.Dialer{
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx) }, Network: "tcp", Address: n.Addr(),
		}}
	}
	return nodes
}

// A process far away is not passed over because it comes late.
func TestAFarProcessHasItsTurns(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(50*time.Microsecond, 100*time.Microsecond))
		}
		distant, err := New(far(t, c), WithNodeTimeout(time.Second))
		require.NoError(t, err)
		defer func() { _ = distant.Close(context.Background()) }()
		both := []contender{{newRedlock(t, c), 4, []string{"x"}, time.Millisecond}, {distant, 4, []string{"x"}, time.Millisecond}}
		turns, longest := takeTurns(t, both, 4*time.Second)
		t.Log(turns, longest)
		assert.Greater(t, 10*turns[1], 7*turns[0])
	})
}

// Somebody who does not look at the reservation has the lock while the one that was told is on
// its way. That one still has its turn before those that have come later.
func TestALockInBetweenDoesNotCostTheTurn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		distant, err := New(far(t, c), WithNodeTimeout(time.Second))
		require.NoError(t, err)
		defer func() { _ = distant.Close(context.Background()) }()
		a := newRedlock(t, c)
		held, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		first := startLock(t, distant, t.Context(), []string{"x"}, slowly()...)
		time.Sleep(time.Second)
		second := startLock(t, newRedlock(t, c), t.Context(), []string{"x"}, slowly()...)
		require.NoError(t, held.Unlock(t.Context()))
		between, err := a.TryLock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		require.NoError(t, between.Unlock(t.Context()))
		l := first.got(t)
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, second.got(t).Unlock(t.Context()))
		assert.True(t, first.at.Before(second.at))
		assert.Less(t, second.at.Sub(first.at), 100*time.Millisecond)
	})
}

// Those that wait for many resources do not wake up one by one.
func TestRetriesOfHeadsAreDueTogether(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		h := newRedlock(t, c)
		var mu sync.Mutex
		instants := map[time.Time]int{}
		r := newRedlock(t, c, WithHook(func(_ context.Context, e Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == EventWaiting && e.Took > time.Second {
				instants[time.Now()]++
			}
		}))
		ctx, cancel := context.WithCancel(t.Context())
		var all []*waitingLock
		for i := range 20 {
			res := []string{fmt.Sprint("x", i)}
			_, err := h.TryLock(t.Context(), res, time.Hour)
			require.NoError(t, err)
			all = append(all, startLock(t, r, ctx, res, WithRetryCount(-1)))
		}
		time.Sleep(4 * time.Second)
		cancel()
		for _, w := range all {
			<-w.done
		}
		mu.Lock()
		defer mu.Unlock()
		assert.LessOrEqual(t, len(instants), 110, "20 instants a second, in at most 5 s")
	})
}
