package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
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
				tp.End()
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

// A call that ends while all its attempts have given way says that the lock is somebody else's, and not only that
// its time is over.
func TestWaitLineEndsAsTakenIfItGaveWay(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c)
		held := tryLock(t, a, []string{"x"}, time.Hour)
		hangInLine(t, c)
		require.NoError(t, held.Unlock(t.Context()))
		_, err := a.Lock(within(t, 80*time.Millisecond), []string{"x"}, ttl, slowly()...)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, redlock.ErrTaken)
	})
}

// A process that was told of a release, and whose call ends because its attempt was turned away before any node was
// asked, tells nobody else of it.
func TestWaitLineTellsTheNextIfItIsTurnedAway(t *testing.T) {
	for _, turned := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			a, b := newRedlock(t, c), newRedlock(t, c)
			held := lockElsewhere(t, c, "x", time.Hour)
			// It fails fast where the lock is not merely taken, as WithRetryIf's words advise.
			first := startLock(t, a, []string{"x"}, append(slowly(), redlock.WithRetryIf(func(err error) bool { return errors.Is(err, redlock.ErrTaken) }))...)
			second := startLock(t, b, []string{"x"}, slowly()...)
			time.Sleep(time.Second)
			gate := testkit.AdmissionOf(a)
			for range 4096 {
				busy, _, limit := gate.Stats()
				if !turned || busy >= limit {
					break
				}
				_, err := gate.Enter(context.Background(), time.Second)
				require.NoError(t, err)
			}
			start := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			<-first.done
			if !turned {
				require.NoError(t, first.err)
				require.NoError(t, first.lock.Unlock(t.Context()))
			} else {
				require.ErrorIs(t, first.err, redlock.ErrNoQuorum)
			}
			t.Log("the first has ended after", time.Since(start))
			second.got(t)
			synctest.Wait()
			assert.Less(t, time.Since(start), time.Second, "turned away: %v; the next one slept", turned)
		})
	}
}

// A process that cannot hear of releases hands its own over among its callers: also to one that was refused by the lock
// which is released before it is in line.
func TestWaitHandOverFindsWhoIsAboutToWait(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newOver(t, withOneConnection(c, false))
		warm(t, r)
		held := tryLock(t, r, []string{"x"}, time.Hour)
		w := startLock(t, r, []string{"x"}, append(slowly(), redlock.WithRetryIf(func(error) bool {
			assert.NoError(t, held.Unlock(t.Context()))
			return true
		}))...)
		assert.Less(t, took(func() { require.NoError(t, w.got(t).Unlock(t.Context())) }), time.Second)
	})
}

// A call that asks for itself behind a head with another retry delay gets the lock by an attempt that is not in line. If
// the head has given up meanwhile, and its process was told of the release, the resource stays reserved for that process:
// the call's own release within 100 ms tells nobody, and the next process sleeps until its retry delay is over.
func TestWaitLineLeavesNoReservationToWhoHasTheLock(t *testing.T) {
	for _, headLeaves := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			nodes, way := ownWay(t, c)
			a, b := newOver(t, nodes), newRedlock(t, c)
			held := lockElsewhere(t, c, "x", time.Hour)
			first := startLock(t, a, []string{"x"}, slowly()...)
			second := startLock(t, a, []string{"x"}, every(300*time.Millisecond, -1)...) // It asks 300 ms after it came: in 250 ms.
			third := startLock(t, b, []string{"x"}, slowly()...)                         // 50 ms later.
			for _, p := range way {
				p.SetDelay(10*time.Millisecond, 10*time.Millisecond)
			}
			time.Sleep(201 * time.Millisecond)
			if headLeaves {
				first.cancel()
			}
			time.Sleep(time.Millisecond)
			released := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			var wg sync.WaitGroup
			for i, w := range []*waitingLock{first, second, third} {
				wg.Go(func() {
					if <-w.done; w.err != nil {
						return
					}
					t.Logf("waiter %d has it after %v", i+1, w.at.Sub(released))
					assert.NoError(t, w.lock.Unlock(t.Context()))
				})
			}
			wg.Wait()
			assert.Less(t, third.at.Sub(released), time.Second, "head leaves: %v", headLeaves)
		})
	}
}

// A machine sleeps during an attempt, which so comes to nothing though a quorum has granted the lock. That attempt has
// used up its time, but not by the clock that stood still: it wakes nobody, and who was told of the release before, and
// was refused because of it, sleeps until its keys would have ended.
func TestWaitAttemptThatIsSleptThroughWakesTheNext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, way := ownWay(t, c)
		a := newOver(t, nodes)
		warm(t, a)
		for _, p := range way {
			p.SetDelay(50*time.Millisecond, 50*time.Millisecond)
		}
		bnodes, bway := ownWay(t, c)
		b := newOver(t, bnodes)
		held := lockElsewhere(t, c, "x", time.Hour)
		w := startLock(t, b, []string{"x"}, slowly()...)
		for _, p := range bway {
			p.SetDelay(10*time.Millisecond, 10*time.Millisecond)
		}
		done := meanwhile(func() error {
			return lockError(a.TryLock(t.Context(), []string{"x"}, ttl, redlock.WithMinHold(8*time.Second)))
		})
		time.Sleep(49 * time.Millisecond)
		require.NoError(t, held.Unlock(t.Context()))
		time.Sleep(10 * time.Millisecond)
		testkit.WallOffset(a).Add(int64(3 * time.Second))
		require.ErrorIs(t, <-done, redlock.ErrNoQuorum)
		time.Sleep(60 * time.Millisecond)
		synctest.Wait()
		free := time.Now()
		requireNoKeys(t, c)
		l := w.got(t)
		assert.Less(t, w.at.Sub(free), time.Second)
		require.NoError(t, l.Unlock(t.Context()))
	})
}
