package redlock_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

func TestReleaseByAnotherProcess(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		prefix := redlock.WithPrefix("p:")
		first := newRedlock(t, c, prefix, redlock.WithOwner("api-7"), redlock.WithFencing(), redlock.WithMinHold(ttl))
		worker, other := newWarm(t, c, prefix), newRedlock(t, c, prefix)
		l := lockOnAll(t, first, []string{"a", "b"}, ttl)
		w := startLock(t, other, []string{"b"}, slowly()...)
		time.Sleep(time.Second)
		require.NoError(t, first.Close(t.Context())) // The process that took it may be gone by now.
		start := time.Now()
		require.NoError(t, worker.Release(cancelled(t), []string{"b", "a", "b"}, l.Token()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.Less(t, time.Since(start), 20*time.Millisecond, "who waits is told")
		requireReleased(t, c)
		assert.Equal(t, int64(2), worker.Stats().Unlocked, "with that of warm")
		err := worker.Release(t.Context(), []string{"a", "b"}, l.Token())
		require.ErrorIs(t, err, redlock.ErrLost, "released before")
		assert.NotContains(t, err.Error(), l.Token()[:8])
	})
}

func TestReleaseTakesNobodyElsesLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		first, worker := newRedlock(t, c), newRedlock(t, c)
		old := tryLock(t, first, []string{"a"}, time.Second)
		time.Sleep(2 * time.Second)
		l := lockOnAll(t, first, []string{"a"}, ttl)
		require.ErrorIs(t, worker.Release(t.Context(), []string{"a"}, old.Token()), redlock.ErrLost)
		require.NoError(t, l.Extend(t.Context(), ttl))
		require.NoError(t, worker.Release(t.Context(), l.Resources(), l.Token()))
		require.NoError(t, l.Err(), "the first process does not hear of it")
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrLost, "nothing is created again")
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrLost)
		requireReleased(t, c)
		// A part of the resources is released, and no more.
		two := lockOnAll(t, first, []string{"b", "c"}, ttl)
		require.NoError(t, worker.Release(t.Context(), []string{"b"}, two.Token()))
		synctest.Wait()
		for _, n := range c.Nodes {
			assert.Len(t, keys(t, n), 1)
		}
		require.NoError(t, worker.Release(t.Context(), []string{"c"}, two.Token()))
		// Another part is another release, also while the first one is to be repeated.
		two = lockOnAll(t, first, []string{"b", "c"}, time.Minute)
		require.NoError(t, c.SetError("BUSY Redis is busy running a script."))
		require.ErrorIs(t, worker.Release(t.Context(), []string{"b"}, two.Token()), redlock.ErrNoQuorum)
		require.NoError(t, c.SetError(""))
		require.NoError(t, worker.Release(t.Context(), []string{"c"}, two.Token()))
		synctest.Wait()
		for _, n := range c.Nodes {
			assert.NotContains(t, keys(t, n), "c")
		}
	})
}

// Who waits in the process that releases the lock, and is in line on no node, has it next.
func TestReleaseWakesItsOwnProcess(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := withOneConnection(c, false) // Nothing to hear of a release with.
		worker := newOver(t, nodes)
		l := lockElsewhere(t, c, "a", time.Hour)
		w := startLock(t, worker, []string{"a"}, slowly()...)
		time.Sleep(20 * time.Second)
		released := time.Now()
		require.NoError(t, worker.Release(t.Context(), []string{"a"}, l.Token()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.Less(t, w.at.Sub(released), 10*time.Millisecond)
	})
}

func TestReleaseChecksItsTokenBeforeAnyIO(t *testing.T) {
	r := newOver(t, forbiddenNodes(t, 3))
	good := tokens.New()
	for token, want := range map[string]string{
		"":                                "empty token",
		good[1:]:                          "malformed token of 31 bytes",
		strings.Repeat("G", 32):           "malformed token of 32 bytes",
		good + tokens.LabelMark:           "malformed token of 39 bytes",
		good + tokens.LabelMark + "\xffx": "malformed token of 41 bytes",
	} {
		err := r.Release(t.Context(), []string{"x"}, token)
		require.ErrorContains(t, err, want)
		require.False(t, token != "" && strings.Contains(err.Error(), token), "it may be a password")
	}
	require.ErrorContains(t, r.Release(t.Context(), []string{"x", ""}, good), "empty resource")
	require.NoError(t, r.Close(t.Context()))
	require.ErrorIs(t, r.Release(t.Context(), []string{"x"}, good), redlock.ErrClosed)
}

// A node that was down is told within an hour, or within quarantine's maxTTL, and not later.
func TestReleaseTellsANodeThatWasDownForAnHour(t *testing.T) {
	const maxTTL = 90 * time.Minute
	for name, test := range map[string]struct {
		opts  []redlock.Option
		away  time.Duration
		tells int64
	}{
		"in time":             {nil, 59 * time.Minute, 1},
		"late":                {nil, 61 * time.Minute, 0},
		"quarantine, in time": {[]redlock.Option{redlock.WithQuarantine(maxTTL)}, maxTTL - time.Minute, 1},
		"quarantine, late":    {[]redlock.Option{redlock.WithQuarantine(maxTTL)}, maxTTL + time.Minute, 0},
	} {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			first, worker := newRedlock(t, c, test.opts...), newRedlock(t, c, test.opts...)
			if test.opts != nil {
				require.NoError(t, first.Admit(t.Context(), names(c)...))
			}
			warm(t, worker)
			l := lockOnAll(t, first, []string{"a"}, maxTTL)
			require.NoError(t, c.Nodes[0].Stop())
			time.Sleep(time.Second)
			require.NoError(t, worker.Release(t.Context(), []string{"a"}, l.Token()))
			require.NoError(t, first.Close(t.Context())) // Or it would release the lock as well, in time.
			time.Sleep(test.away)
			require.NoError(t, c.Nodes[0].Restart(true))
			time.Sleep(10 * time.Second)
			require.Equal(t, test.tells, worker.Stats().Nodes[0].Cleaned)
			require.Zero(t, worker.Stats().Nodes[0].PendingReleases)
		})
	}
}

// An extension that has reached one node only has its key outlive the lock, so that somebody else has
// the lock while one node says yes to the release.
func TestReleaseCountsNoNodeThatDidNotHaveTheLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		first, worker, other := newRedlock(t, c), newRedlock(t, c), newRedlock(t, c)
		warm(t, worker)
		warm(t, other)
		l := lockOnAll(t, first, []string{"a"}, 2*time.Second)
		for _, n := range c.Nodes[1:] {
			n.Proxy().BlackHole(true)
		}
		require.ErrorIs(t, l.Extend(t.Context(), 10*time.Second), redlock.ErrNoQuorum)
		for _, n := range c.Nodes[1:] {
			n.Proxy().Reset()
			n.Proxy().BlackHole(false)
		}
		time.Sleep(3 * time.Second)
		require.ErrorIs(t, l.Err(), redlock.ErrExpired)
		holder := lockOnAll(t, other, []string{"a"}, time.Minute)
		require.NoError(t, c.Nodes[2].Stop())
		err := worker.Release(t.Context(), []string{"a"}, l.Token())
		require.NoError(t, holder.Err())
		require.ErrorIs(t, err, redlock.ErrNoQuorum, "one yes, one another's, one that is down")
	})
}

// Of the same resources, and before the result is there. Each part of a lock's resources is a release of its own.
func TestReleasesAtTheSameTimeAreOne(t *testing.T) {
	for name, parts := range map[string][][]string{"all": {{"a", "b"}}, "each": {{"a"}, {"b"}}} {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			first, worker := newRedlock(t, c), newRedlock(t, c)
			require.NoError(t, c.Slow(5*time.Millisecond, 5*time.Millisecond))
			warm(t, worker)
			l := tryLock(t, first, []string{"a", "b"}, ttl)
			time.Sleep(time.Second)
			var wg sync.WaitGroup
			start := time.Now()
			for i := range 10 {
				wg.Go(func() {
					err := worker.Release(context.Background(), parts[i%len(parts)], l.Token())
					assert.Equal(t, 10*time.Millisecond, time.Since(start), "not before the result is there")
					assert.NoError(t, err)
				})
			}
			wg.Wait()
			assert.EqualValues(t, 1+len(parts), worker.Stats().Unlocked, "with that of warm")
			time.Sleep(time.Second)
			requireNoKeys(t, c)
		})
	}
}

// The nodes of the tests from here on know DELEX.

// A release without the script tells who waits by a script behind it. That of a lock that was waited for is the script.
func TestReleaseWithoutTheScriptWakesWhoWaits(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		held := lockOnAll(t, newWarm(t, c), []string{"x"}, time.Hour)
		first := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
		time.Sleep(time.Second)
		second := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
		time.Sleep(time.Second)
		take := commandsOf(t, c.Nodes[0])
		start := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		l := first.got(t)
		assert.Less(t, time.Since(start), 20*time.Millisecond)
		synctest.Wait()
		assert.Equal(t, "DELEX PTTL unlock queue", take())
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, second.got(t).Unlock(t.Context()))
		assert.Less(t, time.Since(start), 40*time.Millisecond)
		synctest.Wait()
		assert.Equal(t, "unlock queue unlock", take())
		requireNoKeys(t, c)
	})
}

// The answer may be lost when the key was deleted. Who waits is told on the next connection.
func TestReleaseWithoutTheScriptWakesWhoWaitsThoughItsAnswerIsLost(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, way := ownWay(t, c)
		r := newOver(t, nodes)
		held := lockOnAll(t, r, []string{"x"}, time.Hour)
		w := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
		time.Sleep(time.Second)
		for _, p := range way {
			p.DropReplies(true)
		}
		start := time.Now()
		require.ErrorIs(t, held.Unlock(t.Context()), redlock.ErrNoQuorum)
		for _, p := range way {
			p.DropReplies(false)
			p.Reset()
		}
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.Less(t, time.Since(start), time.Second)
		require.NoError(t, held.Unlock(t.Context()), "it was held")
	})
}

// A server that does not know the command any more is sent the script at once, and only that until the next connection.
func TestReleaseWithoutTheScriptFallsBackToIt(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		r := newWarm(t, c)
		take := commandsOf(t, n)
		release := func() {
			l := tryLock(t, r, []string{"a"}, ttl)
			take()
			require.NoError(t, l.Unlock(t.Context()))
			synctest.Wait()
		}
		require.NoError(t, n.SetOld(true))
		release()
		assert.Equal(t, "DELEX PTTL unlock", take())
		release()
		assert.Equal(t, "unlock", take())
		require.NoError(t, n.SetOld(false))
		n.Proxy().Reset()
		time.Sleep(time.Second)
		release()
		assert.Equal(t, "DELEX PTTL", take())
	})
}

// A lock that has ended is told from one that was held as by the script: by who holds the resource now.
func TestReleaseWithoutTheScriptSaysWhoHoldsTheLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newWarm(t, c)
		l := lockOnAll(t, r, []string{"a"}, time.Minute)
		require.NoError(t, c.Del("a"))
		other := lockOnAll(t, newRedlock(t, c, redlock.WithOwner("api-1")), []string{"a"}, time.Minute)
		err := l.Unlock(t.Context())
		require.ErrorIs(t, err, redlock.ErrLost)
		assert.True(t, slices.ContainsFunc(votesOf(t, err), func(v redlock.Vote) bool { return v.Owner == "api-1" }))
		require.NoError(t, other.Unlock(t.Context()))
	})
}
