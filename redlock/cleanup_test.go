package redlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// fillBacklog has a node that hangs owe as many answers as it may.
func fillBacklog(t *testing.T, n *node.Node) {
	t.Helper()
	for n.Status().Backlog < node.MaxBacklog {
		require.NoError(t, n.Enqueue(&node.Request{Task: &node.Task{Kind: node.Ask, Limit: n.Timeout}}, time.Now()))
	}
}

func TestUnlockCleansUpUnknownOutcomesBeforeAnythingElse(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, redlock.WithHook(rec.Hook))
		warm(t, r)
		time.Sleep(2 * time.Second)
		rec.Take()
		// The lock is granted, nobody hears of it, and the connection breaks.
		proxy := c.Nodes[0].Proxy()
		proxy.DropReplies(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := r.TryLock(ctx, []string{"a"}, time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		proxy.DropReplies(false)
		var commands []string
		require.NoError(t, c.Nodes[0].OnCommand(func(cmd string, args []string) { commands = append(commands, cmd) }))
		proxy.Reset()
		synctest.Wait()
		requireNoKeys(t, c)
		events := rec.Take()
		require.Len(t, events, 4) // decided, settled, up, cleaned
		var cleaned redlock.Event
		for _, e := range events {
			if e.Kind == redlock.EventNodeCleaned {
				cleaned = e
			}
		}
		assert.Equal(t, 1, cleaned.Unknown)
		assert.Equal(t, 1, cleaned.Cleaned)
		// The scripts, then the release, and no other request.
		asked := strings.Join(commands, " ")
		assert.Regexp(t, "SCRIPT .* EVALSHA$", asked)
		assert.Equal(t, 1, strings.Count(asked, "EVAL"))
		s := r.Stats().Nodes[0]
		assert.Equal(t, int64(1), s.Unknown)
		assert.Equal(t, int64(1), s.Cleaned)
		assert.Zero(t, s.PendingReleases)
	})
}

// However many releases are owed: a connection that takes them is not given up for it.
func TestUnlockOwesManyReleases(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		var locks []*redlock.Lock
		for i := range rounds(150, 15) {
			var res []string
			for j := range 200 {
				res = append(res, fmt.Sprint(i, "/", j))
			}
			l, err := r.TryLock(t.Context(), res, time.Hour)
			require.NoError(t, err)
			locks = append(locks, l)
		}
		synctest.Wait()
		require.NoError(t, c.Nodes[0].Slow(10*time.Millisecond, 10*time.Millisecond))
		require.NoError(t, c.Nodes[0].Stop())
		time.Sleep(3 * time.Second)
		for _, l := range locks {
			require.NoError(t, l.Unlock(t.Context()))
		}
		require.Equal(t, len(locks), r.Stats().Nodes[0].PendingReleases)
		require.NoError(t, c.Nodes[0].Restart(true))
		time.Sleep(10 * time.Second)
		s := r.Stats().Nodes[0]
		assert.True(t, s.Up, "%+v", s)
		assert.Equal(t, int64(len(locks)), s.Cleaned)
		requireNoKeys(t, c)
	})
}

func TestUnlockIsNotRefusedByAFullBacklog(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		require.NoError(t, c.Nodes[0].Hang())
		ctx, cancel := context.WithCancel(t.Context())
		givenUp := make(chan error)
		go func() {
			_, cancelled := r.TryLock(ctx, []string{"given up"}, time.Minute)
			givenUp <- cancelled
		}()
		synctest.Wait()
		fillBacklog(t, redlock.NodesIn(r)[0])
		_, err = r.TryLock(t.Context(), []string{"b"}, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.Equal(t, node.ErrBacklog, votesOf(t, err)[0].Err)
		cancel()
		require.ErrorIs(t, <-givenUp, context.Canceled)
		time.AfterFunc(10*time.Millisecond, func() { assert.NoError(t, c.Nodes[0].Resume()) })
		require.Greater(t, r.Stats().Nodes[0].Backlog, node.MaxBacklog)
		require.NoError(t, l.Unlock(t.Context()), "all of them wait, and it waits behind them")
		requireNoKeys(t, c)
	})
}

// What settles the requests of a lock that is held must not look at what Unlock writes.
func TestUnlockSettlesBesideAHeldLock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		for range 3 {
			cycle(t, r, "warm", ttl)
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, c.Nodes[2].Slow(20*time.Millisecond, 20*time.Millisecond))
			l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			require.NoError(t, err)
			time.Sleep(5 * time.Millisecond)
			c.Nodes[2].Proxy().Reset()
			require.NoError(t, c.Nodes[2].Slow(0, 0))
			time.Sleep(300 * time.Millisecond)
			require.NoError(t, l.Unlock(t.Context()))
		}
	})
}
