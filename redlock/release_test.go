package redlock_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

func TestReleaseByAnotherProcess(t *testing.T) {
	for name, opts := range map[string][]redlock.Option{
		"plain": nil, "label": {redlock.WithOwner("api-7")}, "prefix": {redlock.WithPrefix("p:")}, "fencing": {redlock.WithFencing()},
		"min hold": {redlock.WithMinHold(ttl)},
	} {
		runInBubble(t, name, 5, func(t *testing.T, c *testcluster.Cluster) {
			prefix := []redlock.Option{}
			if name == "prefix" {
				prefix = opts
			}
			first, worker, other := newRedlock(t, c, opts...), newRedlock(t, c, prefix...), newRedlock(t, c, prefix...)
			warm(t, worker)
			l := lockOnAll(t, first, []string{"a", "b"}, ttl)
			w := startLock(t, other, []string{"b"}, slowly()...)
			time.Sleep(time.Second)

			// The process that took it may be gone by now.
			require.NoError(t, first.Close(t.Context()))
			start := time.Now()
			require.NoError(t, worker.Release(cancelled(t), []string{"b", "a", "b"}, l.Token()))
			require.NoError(t, w.got(t).Unlock(t.Context()))
			assert.Less(t, time.Since(start), 20*time.Millisecond, "who waits is told")
			synctest.Wait()
			requireNoKeys(t, c)
			assert.Equal(t, int64(2), worker.Stats().Unlocked, "with that of warm")

			err := worker.Release(t.Context(), []string{"a", "b"}, l.Token())
			require.ErrorIs(t, err, redlock.ErrLost, "released before")
			require.NotErrorIs(t, err, redlock.ErrNoQuorum)
			assert.NotContains(t, err.Error(), l.Token()[:8])
		})
	}
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
		synctest.Wait()
		requireNoKeys(t, c)
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

func TestReleaseChecksItsArgumentsBeforeAnyIO(t *testing.T) {
	r, err := redlock.New(forbiddenNodes(t, 3))
	require.NoError(t, err)
	good := tokens.New()
	ok := []string{"x"}
	for _, c := range []struct {
		want      string
		resources []string
		token     string
	}{
		{"empty token", ok, ""},
		{"malformed token of 31 bytes", ok, good[1:]},
		{"malformed token of 33 bytes", ok, good + "a"},
		{"malformed token of 32 bytes", ok, strings.Repeat("G", 32)},
		{"malformed token of 32 bytes", ok, strings.ToUpper(strings.Repeat("a", 32))},
		{"malformed token of 39 bytes", ok, good + tokens.LabelMark},
		{"malformed token of 41 bytes", ok, good + tokens.LabelMark + "\xffx"},
		{"malformed token", ok, good + tokens.LabelMark + strings.Repeat("x", tokens.MaxLabel+1)},
		{"malformed token", ok, "somebody's password"},
		{"no resources", nil, good},
		{"empty resource", []string{"x", ""}, good},
		{"are reserved", []string{"__redlock__:x"}, good},
		{"resources", many(0, 1<<17), good},
	} {
		err := r.Release(t.Context(), c.resources, c.token)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "redlock: ")
		require.NotErrorIs(t, err, redlock.ErrLost)
		if len(c.token) > 8 {
			require.NotContains(t, err.Error(), c.token[:8])
			require.NotContains(t, fmt.Sprintf("%#v", err), c.token)
		}
	}
	require.ErrorIs(t, r.Release(nil, ok, good), redlock.ErrNilContext) //nolint:staticcheck // That is the test.
	require.ErrorIs(t, (*redlock.Redlock)(nil).Release(t.Context(), ok, good), redlock.ErrNilRedlock)
	require.NoError(t, r.Close(t.Context()))
	require.ErrorIs(t, r.Release(t.Context(), ok, good), redlock.ErrClosed)
}

// A node that was down is told within an hour, or within quarantine's maxTTL, and not later.
func TestReleaseTellsANodeThatWasDownForAnHour(t *testing.T) {
	const maxTTL = 90 * time.Minute
	for name, c := range map[string]struct {
		opts []redlock.Option
		life time.Duration
	}{
		"plain": {nil, time.Hour}, "quarantine": {[]redlock.Option{redlock.WithQuarantine(maxTTL)}, maxTTL},
	} {
		t.Run(name, func(t *testing.T) {
			for _, away := range []time.Duration{c.life - time.Minute, c.life + time.Minute} {
				inBubble(t, 3, func(t *testing.T, cluster *testcluster.Cluster) {
					first, worker := newRedlock(t, cluster, c.opts...), newRedlock(t, cluster, c.opts...)
					if c.opts != nil {
						require.NoError(t, first.Admit(t.Context(), "node1", "node2", "node3"))
					}
					warm(t, worker)
					l := lockOnAll(t, first, []string{"a"}, maxTTL)
					time.Sleep(time.Millisecond)
					require.NoError(t, cluster.Nodes[0].Stop())
					time.Sleep(time.Second)
					require.NoError(t, worker.Release(t.Context(), []string{"a"}, l.Token()))
					require.NoError(t, first.Close(t.Context())) // Or it would release the lock as well, in time.
					require.Equal(t, 1, worker.Stats().Nodes[0].PendingReleases)
					time.Sleep(away)
					require.NoError(t, cluster.Nodes[0].Restart(true))
					time.Sleep(10 * time.Second)
					told := int64(0)
					if away < c.life {
						told = 1
						require.NotContains(t, keys(t, cluster.Nodes[0]), "a")
					}
					require.Equal(t, told, worker.Stats().Nodes[0].Cleaned)
					require.Zero(t, worker.Stats().Nodes[0].PendingReleases)
				})
			}
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

// The keys of what other processes have locked take a bounded amount of memory, however large
// they are and however long a node is down.
func TestReleasesOfLargeLocksTakeBoundedMemory(t *testing.T) {
	testkit.SkipUnderRace(t, "the race detector has a memory of its own")
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		worker := newRedlock(t, c)
		require.NoError(t, c.Nodes[0].Stop())
		large := strings.Repeat("x", 500<<10)
		const most = 32 // What is kept for each counts as four times its name, and 64 MiB may be kept.
		before := testkit.Heap()
		check := func(from int) {
			for i := range most + 10 {
				err := worker.Release(t.Context(), []string{strings.Clone(large)}, fmt.Sprintf("%032x", from+i))
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
			}
			assert.InDelta(t, most, worker.Stats().Nodes[0].PendingReleases, 1)
			assert.LessOrEqual(t, testkit.Heap(), before+node.MaxForeign)
		}
		check(0)
		time.Sleep(redlock.UnknownLife + time.Second) // All that is kept is of no use any more.
		check(1000)
		time.Sleep(redlock.UnknownLife + time.Second)
		require.NoError(t, c.Nodes[0].Restart(true))
		time.Sleep(10 * time.Second)
		assert.Zero(t, worker.Stats().Nodes[0].PendingReleases)
	})
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

// A cutConn ends at an answer to its first DELEX, or to what follows it.
type cutConn struct {
	testcluster.FullConn

	cuts *atomic.Int64 // after so many answers, once; 0: not
	left atomic.Int64
}

func (c *cutConn) Send(verb string, args ...any) error {
	if verb == "DELEX" {
		c.left.Store(c.cuts.Swap(0))
	}
	return c.FullConn.Send(verb, args...)
}

func (c *cutConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	reply, err := c.FullConn.ReceiveWithTimeout(d)
	if c.left.Load() > 0 && c.left.Add(-1) == 0 {
		return nil, io.EOF // The library closes it then: the pool's Close would flush beside the writer.
	}
	return reply, err
}

// The answer may be lost when the key was deleted. Who waits is told on the next connection.
func TestReleaseWithoutTheScriptWakesWhoWaitsThoughItsAnswerIsLost(t *testing.T) {
	for name, after := range map[string]int64{"the deletion's": 1, "the bell's": 2, "the script's": 3} {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			var cuts [3]atomic.Int64
			nodes := nodesOf(c)
			for i := range nodes {
				nodes[i].Pool = testcluster.WrapPool(nodes[i].Pool, func(conn redis.Conn) redis.Conn {
					return &cutConn{FullConn: conn.(testcluster.FullConn), cuts: &cuts[i]}
				})
			}
			r := newOver(t, nodes)
			warm(t, r)
			held := lockOnAll(t, r, []string{"x"}, time.Hour)
			w := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
			time.Sleep(time.Second)
			for i := range cuts {
				cuts[i].Store(after)
			}
			start := time.Now()
			require.ErrorIs(t, held.Unlock(t.Context()), redlock.ErrNoQuorum)
			require.NoError(t, w.got(t).Unlock(t.Context()))
			assert.Less(t, time.Since(start), time.Second)
			require.NoError(t, held.Unlock(t.Context()), "it was held")
		})
	}
}

// Who waits for what is free, as somebody else has come in between, is told by that one's release.
func TestReleaseWithoutTheScriptLeavesTheBellToWhoComesInBetween(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		held := tryLock(t, newWarm(t, c), []string{"x"}, time.Hour)
		w := startLock(t, newRedlock(t, c), []string{"x"}, slowly()...)
		time.Sleep(time.Second)
		between := newWarm(t, c)
		var once sync.Once
		got := make(chan *redlock.Lock, 1)
		require.NoError(t, n.OnCommand(func(cmd string, args []string) {
			if cmd == "PTTL" && slices.Contains(args, strings.TrimSuffix(redlock.LineKey("x"), "l")) {
				once.Do(func() { got <- tryLock(t, between, []string{"x"}, time.Hour) })
			}
		}))
		require.NoError(t, held.Unlock(t.Context()))
		time.Sleep(time.Second)
		require.Zero(t, w.at)
		start := time.Now()
		require.NoError(t, (<-got).Unlock(t.Context()))
		require.NoError(t, w.got(t).Unlock(t.Context()))
		assert.Less(t, time.Since(start), 20*time.Millisecond)
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
	for _, old := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			for _, n := range c.Nodes {
				require.NoError(t, n.SetOld(old))
			}
			r := newWarm(t, c)
			l := lockOnAll(t, r, []string{"a"}, time.Minute)
			require.NoError(t, c.Del("a"))
			other := lockOnAll(t, newRedlock(t, c, redlock.WithOwner("api-1")), []string{"a"}, time.Minute)
			err := l.Unlock(t.Context())
			require.ErrorIs(t, err, redlock.ErrLost)
			told := 0
			for _, v := range votesOf(t, err) {
				if v.Owner == "api-1" {
					told++
				}
			}
			assert.GreaterOrEqual(t, told, 2)
			require.NoError(t, other.Unlock(t.Context()))
		})
	}
}

// That the server has no such command is not why a connection ends on which nothing else was answered.
func TestOldServerThatHangsUpHasNotSaidWhy(t *testing.T) {
	for name, nodes := range map[string]func(c *testcluster.Cluster) []redlock.Node{
		"a pool": nodesOf,
		"an address": func(c *testcluster.Cluster) []redlock.Node {
			nodes, _ := testkit.ReadBy(c)
			return nodes
		},
	} {
		var rec recorder
		runInBubble(t, name, 1, func(t *testing.T, c *testcluster.Cluster) {
			n := c.Nodes[0]
			require.NoError(t, n.SetOld(true))
			warm(t, newOver(t, nodes(c), redlock.WithHook(rec.Hook)))
			for range 2 {
				n.Proxy().Kill()
				time.Sleep(time.Second)
			}
			downs := rec.TakeOf(redlock.EventNodeDown)
			require.Len(t, downs, 2)
			assert.NotContains(t, downs[1].Err.Error(), "the server said")
		})
	}
}
