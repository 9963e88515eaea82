package redlock_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
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

// A place in line does not change when its owner asks again; and that one does so often does not make the line end before
// another one comes back that does so seldom.
func TestWaitLineKeepsAPlace(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		slowDown(t, c)
		held := lockElsewhere(t, c, "x", 10*time.Hour)
		seldom := startLock(t, newRedlock(t, c), []string{"x"}, every(time.Hour, -1)...)
		often := startLock(t, newRedlock(t, c), []string{"x"}, every(100*time.Millisecond, -1)...)
		last := startLock(t, newRedlock(t, c), []string{"x"}, every(time.Hour, -1)...)
		time.Sleep(1030 * time.Millisecond) // The second one has asked ten times since.
		for _, key := range []string{redlock.LineKey("x"), strings.TrimSuffix(redlock.LineKey("x"), "l")} {
			left := time.Duration(doInt(t, c.Nodes[0], "PTTL", key)) * time.Millisecond
			assert.Greater(t, left, time.Hour, key)
		}
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, seldom.got(t).Unlock(t.Context()))
		requireInOrder(t, often, last)
	})
}

// A line that is full has room for whoever has waited longer than some in it. One that comes after them polls, and says so.
func TestWaitLineThatIsFullDoesNotGrow(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		slowDown(t, c)
		for resource, age := range map[string]time.Duration{"older": time.Hour, "newer": -time.Hour} {
			held := lockElsewhere(t, c, resource, time.Hour)
			args := []any{redlock.LineKey(resource)} // A thousand strangers who do not listen.
			for i := range 1000 {
				args = append(args, time.Now().Add(-age).UnixMicro(), redlock.ChannelMark+"dead"+strconv.Itoa(i))
			}
			for _, n := range c.Nodes {
				do(t, n, "ZADD", args...)
				do(t, n, "PEXPIRE", redlock.LineKey(resource), time.Minute.Milliseconds())
				do(t, n, "SET", strings.TrimSuffix(redlock.LineKey(resource), "l"), 1, "PX", time.Minute.Milliseconds())
			}
			var rec recorder
			w := startLock(t, newRedlock(t, c, redlock.WithHook(rec.Hook)), []string{resource}, every(time.Second, -1)...)
			time.Sleep(10 * time.Second)
			assert.LessOrEqual(t, doInt(t, c.Nodes[0], "ZCARD", redlock.LineKey(resource)), 1000)
			said, within := rec.TakeOf(redlock.EventPolling), time.Millisecond // Five round trips.
			if age > 0 {
				require.NotEmpty(t, said)
				require.ErrorContains(t, said[0].Err, "the line is full")
				within = time.Second
			}
			w.takesOver(t, held, within)
		}
	})
}

// Whoever was told and does not come is waited for until the reservation ends, not for a
// retry delay; and only by those that ask by turn.
func TestWaitLineReservationEnds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := newRedlock(t, c)
		held := tryLock(t, a, []string{"x"}, time.Hour)
		hangInLine(t, c)
		time.Sleep(time.Second) // All nodes are listened to.
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		l := waitLock(t, a, []string{"x"}, ttl, slowly()...)
		assert.GreaterOrEqual(t, time.Since(released), 100*time.Millisecond)
		assert.Less(t, time.Since(released), 120*time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, tryLock(t, a, []string{"x"}, ttl).Unlock(t.Context()), "TryLock looks at no reservation")
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
				tp.End()
			}
		}, 10 * time.Millisecond},
		"lacks y": {[]string{"x", "y"}, func(*waitingLock, []*testkit.Tap) {}, time.Second},
	} {
		for range 5 { // Which node tells whom first is chance.
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
		slowDown(t, c) // All nodes name the same holder to whoever wants both.
		a, b := lockElsewhere(t, c, "a", time.Hour), lockElsewhere(t, c, "b", 2*time.Hour)
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

// far returns a client that is 20 ms from the nodes, one way.
func far(t *testing.T, c *testcluster.Cluster) *redlock.Redlock {
	t.Helper()
	nodes, way := ownWay(t, c)
	for _, p := range way {
		p.SetDelay(20*time.Millisecond, 20*time.Millisecond)
	}
	return newOver(t, nodes, redlock.WithNodeTimeout(time.Second))
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
	for i := range 9 { // Whom the nodes tell is chance.
		turned := i > 0
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			a, b := newRedlock(t, c), newRedlock(t, c)
			held := lockElsewhere(t, c, "x", time.Hour)
			// It fails fast where the lock is not merely taken, as WithRetryIf's words advise.
			first := startLock(t, a, []string{"x"}, append(slowly(), redlock.WithRetryIf(func(err error) bool { return errors.Is(err, redlock.ErrTaken) }))...)
			second := startLock(t, b, []string{"x"}, slowly()...)
			time.Sleep(time.Second)
			gate := testkit.AdmissionOf(a)
			for busy, _, limit := gate.Stats(); turned && busy < limit; busy, _, limit = gate.Stats() {
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
		first.cancel()
		time.Sleep(time.Millisecond)
		released := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		go func() { <-second.done; _ = second.lock.Unlock(context.Background()) }()
		require.NoError(t, third.got(t).Unlock(t.Context()))
		assert.Less(t, third.at.Sub(released), time.Second)
	})
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
