package redlock_test

import (
	"context"
	"fmt"
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

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/internal/waiting"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// requireInOrder has two waiters have the lock, and checks which has it first.
func requireInOrder(t *testing.T, first, second *waitingLock) {
	t.Helper()
	l := first.got(t)
	time.Sleep(time.Millisecond)
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, second.got(t).Unlock(t.Context()))
	assert.True(t, first.at.Before(second.at))
}

// A place in line does not change when its owner asks again.
func TestWaitLineKeepsAPlace(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		first := startLock(t, newRedlock(t, c), []string{"x"}, every(100*time.Millisecond, -1)...)
		second := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
		time.Sleep(1030 * time.Millisecond) // The first one has asked ten times since.
		require.NoError(t, held.Unlock(t.Context()))
		requireInOrder(t, first, second)
	})
}

// Somebody who polls often does not make the line end before those in it come back that do so
// seldom.
func TestWaitLinesLifeDoesNotShrink(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", 10*time.Hour)
		seldom := startLock(t, newRedlock(t, c), []string{"x"}, every(time.Hour, -1)...)
		often := startLock(t, newRedlock(t, c), []string{"x"}, redlock.WithRetryCount(-1), redlock.WithRetryDelay(100*time.Millisecond))
		time.Sleep(time.Second + 7*time.Millisecond) // Not at a retry, which is not told of the release, and might come first.
		for _, key := range []string{redlock.LineKey("x"), strings.TrimSuffix(redlock.LineKey("x"), "l")} {
			left := time.Duration(doInt(t, c.Nodes[0], "PTTL", key)) * time.Millisecond
			assert.Greater(t, left, time.Hour, key)
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

// requireBounded checks that no more wait than have room in a line.
func requireBounded(t *testing.T, c *testcluster.Cluster, resource string) {
	t.Helper()
	for _, n := range c.Nodes {
		assert.LessOrEqual(t, doInt(t, n, "ZCARD", redlock.LineKey(resource)), 1000)
	}
}

// A line that is full of those that came later has room for whoever has waited longer.
func TestWaitLineThatIsFullDropsTheLast(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		slowDown(t, c)
		for i, strangers := range []int{1000, 999, 1500}[:rounds(3, 1)] {
			res := fmt.Sprint("x", i)
			held := lockElsewhere(t, c, res, time.Hour)
			fill(t, c, res, strangers, time.Now().Add(time.Hour))
			w := startLock(t, newRedlock(t, c), []string{res}, slowly()...)
			requireBounded(t, c, res)
			w.takesOver(t, held, time.Millisecond) // Five round trips.
		}
	})
}

// One that comes after them polls, and says so; the line does not grow.
func TestWaitLineThatIsFullDoesNotGrow(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		slowDown(t, c)
		fill(t, c, "x", 1000, time.Now().Add(-time.Hour))
		var rec recorder
		r := newRedlock(t, c, redlock.WithHook(rec.Hook))
		w := startLock(t, r, []string{"x"}, every(time.Second, -1)...)
		time.Sleep(10 * time.Second)
		said := rec.TakeOf(redlock.EventPolling)
		require.NotEmpty(t, said)
		require.ErrorContains(t, said[0].Err, "the line is full")
		requireBounded(t, c, "x")
		w.takesOver(t, held, time.Second)
	})
}

// Whoever was told and does not come is waited for until the reservation ends, not for a
// retry delay; and only by those that ask by turn.
func TestWaitLineReservationEnds(t *testing.T) {
	for _, try := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			nodes, taps := tapped(c)
			a := newRedlock(t, c)
			held := tryLock(t, a, []string{"x"}, time.Hour)
			hung := startLock(t, newOver(t, nodes), []string{"x"}, slowly()...)
			time.Sleep(time.Second) // All nodes are listened to.
			mute(taps)
			require.NoError(t, held.Unlock(t.Context()))
			synctest.Wait() // All nodes have answered.
			reserved := 0   // On a quorum; where a vote was not waited for, its request may not have been sent.
			for _, n := range c.Nodes {
				left := doInt(t, n, "PTTL", redlock.ReservationKey("x"))
				assert.LessOrEqual(t, left, 100)
				if left > 0 {
					reserved++
				}
			}
			assert.GreaterOrEqual(t, reserved, 2)
			released := time.Now()
			var l *redlock.Lock
			if try {
				l = tryLock(t, a, []string{"x"}, ttl)
				assert.Equal(t, released, time.Now(), "TryLock looks at no reservation")
			} else {
				l = waitLock(t, a, []string{"x"}, ttl, slowly()...)
				assert.GreaterOrEqual(t, time.Since(released), 100*time.Millisecond)
				assert.Less(t, time.Since(released), 120*time.Millisecond)
			}
			hung.leaves()
			require.NoError(t, l.Unlock(t.Context()))
			time.Sleep(time.Second)
			for _, n := range c.Nodes {
				assert.Zero(t, doInt(t, n, "EXISTS", redlock.ReservationKey("x")))
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
		w := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
		require.NoError(t, held.Unlock(t.Context()))
		l := w.got(t)
		synctest.Wait()
		granted := 0
		for _, n := range c.Nodes {
			if keys(t, n)["x"].Value == l.Token() {
				granted++
				assert.Zero(t, doInt(t, n, "EXISTS", redlock.ReservationKey("x")))
			}
		}
		assert.GreaterOrEqual(t, granted, redlock.Quorum(len(c.Nodes)))
		time.Sleep(101 * time.Millisecond)
		for _, n := range c.Nodes {
			assert.Zero(t, doInt(t, n, "EXISTS", redlock.ReservationKey("x")))
		}
	})
}

// Whoever is told of a release and does not want it any more tells the next one; who has died without a word is passed
// over; who cannot have the lock for another of its resources tells the next one, too.
func TestWaitLinePassesOnAReleaseThatTheFirstHasNoUseFor(t *testing.T) {
	for name, k := range map[string]struct {
		resources []string
		first     func(w *waitingLock, taps []*testkit.Tap)
		within    time.Duration
	}{
		"has given up": {[]string{"x"}, func(w *waitingLock, _ []*testkit.Tap) { w.leaves() }, 10 * time.Millisecond},
		"is dead": {[]string{"x"}, func(_ *waitingLock, taps []*testkit.Tap) {
			for _, tp := range taps {
				tp.Cut()
			}
		}, 10 * time.Millisecond},
		"lacks y": {[]string{"x", "y"}, func(*waitingLock, []*testkit.Tap) {}, time.Second},
	} {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			x := lockElsewhere(t, c, "x", time.Hour)
			lockElsewhere(t, c, "y", time.Hour)
			nodes, taps := tapped(c)
			first := startLock(t, newOver(t, nodes), k.resources, slowly()...)
			second := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
			k.first(first, taps)
			synctest.Wait()
			second.takesOver(t, x, k.within)
			first.leaves()
		})
	}
}

// One that has been told, and is cancelled before it has the lock, does so too.
func TestWaitLinePassesOnAReleaseOfAWaiterCancelledInItsAttempt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		first := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
		second := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context())) // 2 ms
		time.Sleep(1500 * time.Microsecond)          // The first one's requests are on their way.
		first.leaves()
		require.ErrorIs(t, first.err, context.Canceled)
		require.NoError(t, second.got(t).Unlock(t.Context()))
		assert.Less(t, second.at.Sub(released), 50*time.Millisecond)
		time.Sleep(time.Second)
		requireNoKeys(t, c)
	})
}

// All messages that a process has no use for are passed on, not only the first: the next one
// does not have to wait for those that are missing.
func TestWaitLinePassesOnEveryMessage(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		idle := newRedlock(t, c)
		startLock(t, idle, []string{"x"}, slowly()...).leaves()
		w := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
		for _, n := range c.Nodes { // As if the one that has gone had not left the lines.
			do(t, n, "ZADD", redlock.LineKey("x"), 1, redlock.ChannelOf(idle))
		}
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		w.got(t)
		assert.Equal(t, released, w.at)
	})
}

// Somebody is told, and refused because of an attempt of a third client, which is cancelled or
// takes too long: when that one gives its votes back, it is told again.
func TestWaitLineAttemptThatIsCutShortSwallowsNoWakeUp(t *testing.T) {
	for name, try := range map[string]func(t *testing.T, r *redlock.Redlock) error{
		"TryLock cancelled": func(t *testing.T, r *redlock.Redlock) error {
			ctx := within(t, 1500*time.Microsecond)
			_, err := r.TryLock(ctx, []string{"x"}, time.Minute)
			return err
		},
		"Lock cancelled": func(t *testing.T, r *redlock.Redlock) error {
			ctx := within(t, 1500*time.Microsecond)
			_, err := r.Lock(ctx, []string{"x"}, time.Minute)
			return err
		},
		"timed out": func(t *testing.T, r *redlock.Redlock) error {
			_, err := r.TryLock(t.Context(), []string{"x"}, time.Minute, redlock.WithNodeTimeout(1500*time.Microsecond))
			return err
		},
	} {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			h, third := newRedlock(t, c), newRedlock(t, c)
			tryLock(t, third, []string{"other"}, time.Second)
			held := tryLock(t, h, []string{"x"}, time.Hour)
			w := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
			require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
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
	}
}

// holdBoth has two clients lock a and b, which end at different times: all nodes name the same
// holder to whoever wants both.
func holdBoth(t *testing.T, c *testcluster.Cluster) (a, b *redlock.Lock) {
	t.Helper()
	slowDown(t, c)
	return lockElsewhere(t, c, "a", time.Hour), lockElsewhere(t, c, "b", 2*time.Hour)
}

// slowDown has every answer take a moment. Without, a call may be refused by a quorum before the
// last node has been asked, which it is not any more then: it is not in line there.
func slowDown(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	require.NoError(t, c.Slow(100*time.Microsecond, 100*time.Microsecond))
}

// A waiter for a and b that was told of a, while b is held, keeps a for a moment: if b is
// released meanwhile, it has both.
func TestWaitLineOneForSeveralKeepsWhatItWasToldOf(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := holdBoth(t, c)
		both := startLock(t, newRedlock(t, c), []string{"a", "b"}, slowly()...)
		one := startLock(t, newRedlock(t, c), []string{"a"}, slowly()...)
		require.NoError(t, a.Unlock(t.Context()))
		time.Sleep(waiting.KeepTime * 4 / 5)
		released := time.Now()
		require.NoError(t, b.Unlock(t.Context()))
		requireInOrder(t, both, one)
		assert.Less(t, both.at.Sub(released), 10*time.Millisecond)
	})
}

// It does so once for each holder of b. The next time that it is told of a, it passes that on at
// once.
func TestWaitLineOneForSeveralKeepsOnceForAHolder(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := holdBoth(t, c)
		both := startLock(t, newRedlock(t, c), []string{"a", "b"}, every(time.Second, -1)...)
		one := startLock(t, newRedlock(t, c), []string{"a"}, slowly()...)
		other := startLock(t, newRedlock(t, c), []string{"a"}, slowly()...)
		told := time.Now()
		require.NoError(t, a.Unlock(t.Context()))
		a = one.got(t)
		assert.InDelta(t, waiting.KeepTime, one.at.Sub(told), float64(10*time.Millisecond), "the first time")
		time.Sleep(time.Second) // The waiter for both has asked: it is in line for a again, as the first.
		told = time.Now()
		require.NoError(t, a.Unlock(t.Context()))
		a = other.got(t)
		assert.Less(t, other.at.Sub(told), waiting.KeepTime/2, "the second time")
		require.NoError(t, a.Unlock(t.Context()))
		require.NoError(t, b.Unlock(t.Context()))
		require.NoError(t, both.got(t).Unlock(t.Context()))
	})
}

// Waiters that take each other's place in a process do not keep a one after the other.
func TestWaitLineKeepingIsNotProlongedByThoseThatTakeThePlace(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, _ := holdBoth(t, c)
		r := newRedlock(t, c)
		var all []*waitingLock
		for range 3 {
			all = append(all, startLock(t, r, []string{"a", "b"}, slowly()...))
		}
		one := startLock(t, newRedlock(t, c), []string{"a"}, slowly()...)
		told := time.Now()
		require.NoError(t, a.Unlock(t.Context()))
		for _, w := range all[:2] {
			time.Sleep(waiting.KeepTime * 2 / 5)
			w.leaves()
		}
		one.got(t)
		assert.InDelta(t, waiting.KeepTime, one.at.Sub(told), float64(10*time.Millisecond))
		all[2].leaves()
	})
}

// A waiter that takes the place of one that has given up does not run ahead of another process
// that was told and is on its way.
func TestWaitLineGivesWayToWhoTakesAPlace(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		slowDown(t, c)
		distant := far(t, c)
		held := lockElsewhere(t, c, "x", time.Hour)
		told := startLock(t, distant, []string{"x"}, slowly()...)
		time.Sleep(time.Second)
		r := newRedlock(t, c)
		first := startLock(t, r, []string{"x"}, slowly()...)
		second := startLock(t, r, []string{"x"}, slowly()...)
		require.NoError(t, held.Unlock(t.Context()))
		time.Sleep(10 * time.Millisecond)
		first.leaves() // The second one is the first in its line now, and x is free.
		requireInOrder(t, told, second)
	})
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
		turns, longest := takeTurns(t, clients, scenario(500*time.Millisecond, 80*time.Millisecond))
		assert.Greater(t, slices.Min(turns), slices.Max(turns)*3/4, "turns %v", turns)
		assert.Less(t, slices.Max(longest), 300*time.Millisecond)
		assert.Greater(t, slices.Min(turns), rounds(25, 7))
	})
}

// Somebody who wants two resources has its turn beside those that use either of them all the
// time.
func TestWaitTurnsOfAWaiterForSeveral(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(50*time.Microsecond, 200*time.Microsecond))
		hold := scenario(time.Millisecond, 4*time.Millisecond)
		turns, longest := takeTurns(t, []contender{
			{newRedlock(t, c), 4, []string{"a"}, hold}, {newRedlock(t, c), 4, []string{"b"}, hold}, {newRedlock(t, c), 1, []string{"a", "b"}, hold},
		}, scenario(600*time.Millisecond, 300*time.Millisecond))
		t.Log(turns, longest)
		assert.Less(t, longest[2], 3*max(longest[0], longest[1]))
		assert.Less(t, longest[2], 200*time.Millisecond)
		assert.Greater(t, turns[2], rounds(20, 4))
	})
}

// It does not hold the others up for long while one of its resources is not to be had.
func TestWaiterForSeveralHoldsNobodyUpForLong(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(50*time.Microsecond, 200*time.Microsecond))
		hold := scenario(time.Millisecond, 4*time.Millisecond)
		users := []contender{{newRedlock(t, c), 4, []string{"a"}, hold}, {newRedlock(t, c), 4, []string{"a"}, hold}}
		alone, _ := takeTurns(t, users, scenario(600*time.Millisecond, 400*time.Millisecond))
		lockElsewhere(t, c, "b", time.Hour)
		// It gets in the way for 60 ms each time it tries: how often is not left to chance.
		w := startLock(t, newRedlock(t, c), []string{"a", "b"}, every(400*time.Millisecond, -1)...)
		beside, longest := takeTurns(t, users, scenario(600*time.Millisecond, 400*time.Millisecond))
		t.Log(alone, beside, longest)
		assert.Greater(t, beside[0]+beside[1], (alone[0]+alone[1])*3/4)
		assert.Less(t, slices.Max(longest), 300*time.Millisecond)
		w.leaves()
	})
}

// far returns a client that is 20 ms from the nodes, one way.
func far(t *testing.T, c *testcluster.Cluster) *redlock.Redlock {
	t.Helper()
	nodes, way := ownWay(t, c)
	for _, p := range way {
		p.SetDelay(20*time.Millisecond, 20*time.Millisecond)
	}
	return newOver(t, nodes, redlock.WithNodeTimeout(time.Second))
}

// A process far away is not passed over because it comes late.
func TestWaitTurnsOfAFarProcess(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(50*time.Microsecond, 100*time.Microsecond))
		distant := far(t, c)
		both := []contender{{newRedlock(t, c), 4, []string{"x"}, time.Millisecond}, {distant, 4, []string{"x"}, time.Millisecond}}
		turns, longest := takeTurns(t, both, 4*time.Second)
		t.Log(turns, longest)
		assert.Greater(t, 10*turns[1], 7*turns[0], "three for four; where it is passed over, one for six")
	})
}

// A holder that unlocks and locks again at once takes turns with those who wait.
func TestWaitTurnsAreNotTakenByAHolderThatLocksAgainAtOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(0, 200*time.Microsecond))
		var clients []contender
		for range 3 {
			clients = append(clients, contender{newRedlock(t, c), 1, []string{"x"}, time.Millisecond})
		}
		length := scenario(3*time.Second, 200*time.Millisecond)
		turns, _ := takeTurns(t, clients, length)
		assert.LessOrEqual(t, slices.Max(turns)-slices.Min(turns), 2, "turns %v", turns)
		assert.Greater(t, slices.Max(turns), int(length*3/4/(15*time.Millisecond)))
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

// The place in line is by when a call began, however long its first attempt has taken.
func TestWaitLinePlaceIsThatOfTheCall(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		slow := far(t, c) // It has to connect: 80 ms.
		waits := make(chan time.Time, 1)
		go func() {
			l, err := slow.Lock(t.Context(), []string{"x"}, ttl, slowly()...)
			assert.NoError(t, err)
			waits <- time.Now()
			assert.NoError(t, l.Unlock(t.Context()))
		}()
		time.Sleep(30 * time.Millisecond) // More than its request is on its way.
		later := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
		time.Sleep(time.Second)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, later.got(t).Unlock(t.Context()))
		assert.True(t, (<-waits).Before(later.at))
	})
}

// A process that releases a lock that others wait for, and comes back after other work, does not
// run ahead of whoever has been told meanwhile.
func TestWaitTurnsAreNotTakenByAProcessThatComesBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c)
		held := tryLock(t, a, []string{"x"}, time.Hour)
		synctest.Wait() // It is held on all nodes: the lines of all are the same.
		near := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
		distant := startLock(t, far(t, c), []string{"x"}, slowly()...)
		time.Sleep(time.Second)
		require.NoError(t, held.Unlock(t.Context()))
		l := near.got(t)
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, l.Unlock(t.Context())) // The distant one is told.
		back := make(chan time.Time, 1)
		go func() {
			again, failed := a.Lock(t.Context(), []string{"x"}, ttl, slowly()...)
			assert.NoError(t, failed)
			back <- time.Now()
			assert.NoError(t, again.Unlock(t.Context()))
		}()
		l = distant.got(t)
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		assert.True(t, distant.at.Before(<-back))

		// Its last release has found nobody in line: its next lock is one that nobody else wants.
		synctest.Wait()
		queued := countCommands(t, redlock.QueueScript.Hash.(string), c.Nodes...)
		l = waitLock(t, a, []string{"x"}, ttl, slowly()...)
		require.NoError(t, l.Unlock(t.Context()))
		assert.Zero(t, queued.Load())
	})
}

// leaveTo has x free on all nodes, and reserved for somebody.
func leaveTo(t *testing.T, c *testcluster.Cluster, somebody string) {
	t.Helper()
	for _, n := range c.Nodes {
		do(t, n, "DEL", "x")
		do(t, n, "SET", redlock.ReservationKey("x"), somebody, "PX", "100")
	}
}

// hangInLine has a process wait for x, on all nodes, that hears nothing any more.
func hangInLine(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	slowDown(t, c)
	nodes, taps := tapped(c)
	hung := startLock(t, newOver(t, nodes), []string{"x"}, slowly()...)
	mute(taps)
	t.Cleanup(hung.leaves)
}

// A timed retry that meets the lock free while another process is on its way to it does not run
// ahead of that one.
func TestWaitTurnsAreNotTakenByATimedRetry(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		told := startLock(t, far(t, c), []string{"x"}, slowly()...)
		time.Sleep(time.Second)
		often := startLock(t, newRedlock(t, c), []string{"x"}, every(7*time.Millisecond, -1)...)
		require.NoError(t, held.Unlock(t.Context())) // The told one needs 40 ms.
		requireInOrder(t, told, often)
	})
}

// Nor does a look at the end of a reservation, when the next one has been told meanwhile.
func TestWaitTurnsAreNotTakenAtTheEndOfAReservation(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c)
		held := tryLock(t, a, []string{"x"}, time.Hour)
		hangInLine(t, c)
		require.NoError(t, held.Unlock(t.Context()))
		released := time.Now()
		time.AfterFunc(90*time.Millisecond, func() { leaveTo(t, c, "another") })
		waitLock(t, a, []string{"x"}, ttl, slowly()...)
		assert.GreaterOrEqual(t, time.Since(released), 190*time.Millisecond)
		assert.Less(t, time.Since(released), 220*time.Millisecond)
	})
}

// A timed retry that gives way is no retry that has failed: it is made when the reservation should
// have ended, so a process that hangs costs the others no more than that.
func TestWaitLineTimedRetryIsPutOffToTheEndOfAReservation(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		hangInLine(t, c)
		next := startLock(t, newRedlock(t, c), []string{"x"}, every(80*time.Millisecond, 1)...)
		require.NoError(t, held.Unlock(t.Context()))
		released := time.Now() // Its only retry is 30 ms from here.
		l := next.got(t)
		assert.Equal(t, 2, l.Attempts())
		assert.GreaterOrEqual(t, next.at.Sub(released), 100*time.Millisecond)
		assert.Less(t, next.at.Sub(released), 110*time.Millisecond)
	})
}

// When whoever was told does not come, the first of the others has the lock, and not the one that
// happens to ask first.
func TestWaitLineFirstOfTheOthersComesAtTheEndOfAReservation(t *testing.T) {
	for range 3 {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			held := lockElsewhere(t, c, "x", time.Hour)
			hangInLine(t, c)
			first := newRedlock(t, c)
			others := make([]*redlock.Redlock, 12)
			for i := range others {
				others[i] = newRedlock(t, c)
				warm(t, others[i])
			}
			order := make(chan int, 1+len(others))
			wait := func(i int, r *redlock.Redlock) {
				l, err := r.Lock(t.Context(), []string{"x"}, ttl, every(400*time.Millisecond, -1)...)
				if assert.NoError(t, err) {
					order <- i
					assert.NoError(t, l.Unlock(t.Context()))
				}
			}
			var wg sync.WaitGroup
			wg.Go(func() { wait(0, first) })
			time.Sleep(30 * time.Millisecond)
			for i, r := range others {
				wg.Go(func() { wait(i+1, r) })
			}
			time.Sleep(350 * time.Millisecond) // All make a timed retry within the reservation.
			require.NoError(t, held.Unlock(t.Context()))
			assert.Zero(t, <-order)
			wg.Wait()
		})
	}
}

// Retries that give way each time end all the same.
func TestWaitLineRetriesThatGiveWayEnd(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		const delay = 50 * time.Millisecond
		w := startLock(t, newRedlock(t, c), []string{"x"}, every(time.Second, 3)...)
		began := time.Now().Add(-delay)
		for time.Since(began) < time.Minute && !isClosed(w.done) {
			leaveTo(t, c, "another")
			time.Sleep(20 * time.Millisecond)
		}
		<-w.done
		require.ErrorIs(t, w.err, redlock.ErrTaken)
		assert.GreaterOrEqual(t, w.at.Sub(began), 3*time.Second)
		assert.LessOrEqual(t, w.at.Sub(began), 3*(time.Second+waiting.MaxPutOff))
		require.ErrorContains(t, w.err, "gave up after 3 retries")
		synctest.Wait()
		assert.Error(t, held.Unlock(t.Context()), "its keys were taken away")
	})
}

// A call that ends while all its attempts have given way says that the lock is somebody else's, and not only that
// its time is over.
func TestWaitLineEndsAsTakenIfItGaveWay(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c)
		held := tryLock(t, a, []string{"x"}, time.Hour)
		hangInLine(t, c)
		require.NoError(t, held.Unlock(t.Context()))
		ctx := within(t, 80*time.Millisecond)
		_, err := a.Lock(ctx, []string{"x"}, ttl, slowly()...)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, redlock.ErrTaken)
	})
}

// A process that hears of releases from fewer nodes than a quorum has no turns of its own, and so
// gives way to nobody: it polls.
func TestWaitLineGivesWayToNobodyIfItHearsTooLittle(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := lockElsewhere(t, c, "x", time.Hour)
		nodes := nodesOf(c)
		for i := range 2 {
			nodes[i].Pool = &secondPool{Pool: nodes[i].Pool, fail: func() error { return redis.ErrPoolExhausted }}
		}
		w := startLock(t, newOver(t, nodes), []string{"x"}, every(70*time.Millisecond, -1)...)
		leaveTo(t, c, "another")
		left := time.Now()
		l := w.got(t)
		assert.Less(t, w.at.Sub(left), waiting.ReservedFor, "with its next retry")
		require.NoError(t, l.Unlock(t.Context()))
		assert.Error(t, held.Unlock(t.Context()), "its keys were taken away")
	})
}

// Whoever leaves after it was told passes the release on under its name, by which the next
// one counts the messages about it; whoever was not told only leaves.
func TestWaitLineReleaseKeepsItsName(t *testing.T) {
	for _, told := range []bool{true, false} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			held := lockElsewhere(t, c, "x", time.Hour)
			r := newRedlock(t, c)
			w := startLock(t, r, []string{"x"}, slowly()...)
			var mu sync.Mutex
			var names []string
			require.NoError(t, c.Nodes[1].OnCommand(func(_ string, args []string) {
				mu.Lock()
				defer mu.Unlock()
				if len(args) > 4 && args[0] == redlock.PassScript.Hash.(string) {
					names = append(names, args[4])
				}
			}))
			name := tokens.Digest(held.Token())
			if told {
				testkit.LineOf(r).Do(func(q *waiting.Queue, now time.Time) { q.Hear(0, "x", name, now) })
			} else {
				name = ""
			}
			w.leaves()
			synctest.Wait()
			mu.Lock()
			assert.Equal(t, []string{name}, names)
			mu.Unlock()
		})
	}
}

// Somebody who does not look at the reservation has the lock while the one that was told is on
// its way. That one still has its turn before those that have come later.
func TestWaitTurnsAreNotCostByALockInBetween(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		distant := far(t, c)
		a := newRedlock(t, c)
		held := tryLock(t, a, []string{"x"}, time.Hour)
		first := startLock(t, distant, []string{"x"}, slowly()...)
		time.Sleep(time.Second)
		second := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
		require.NoError(t, held.Unlock(t.Context()))
		cycle(t, a, "x", time.Hour)
		requireInOrder(t, first, second)
		assert.Less(t, second.at.Sub(first.at), 100*time.Millisecond)
	})
}
