package redlock_test

import (
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

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// The nodes of these tests know DELEX.

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
			nodes := testkit.NodesOf(c)
			for i := range nodes {
				nodes[i].Pool = testcluster.WrapPool(nodes[i].Pool, func(conn redis.Conn) redis.Conn {
					return &cutConn{FullConn: conn.(testcluster.FullConn), cuts: &cuts[i]}
				})
			}
			r := testkit.NewOver(t, nodes)
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
		"a pool": testkit.NodesOf,
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
