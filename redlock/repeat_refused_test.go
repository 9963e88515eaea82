package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// Releases that a node has refused are sent again as those are that something may come late of.

// Those of other processes' locks are sent again for as long as a node that is away is owed them. The
// minute in which something may come late begins when the node has carried one out.
func TestRepeatOfARefusedReleaseByAnotherProcessGoesOnForAnHour(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		first, worker := newRedlock(t, c), newRedlock(t, c)
		warm(t, worker)
		l, err := first.TryLock(t.Context(), []string{"a"}, 10*time.Hour)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, n.SetError("MISCONF Errors writing to the AOF file"))
		require.NoError(t, worker.Release(t.Context(), []string{"a"}, l.Token()))
		time.Sleep(redlock.UnknownLife - time.Minute)
		synctest.Wait()
		require.Equal(t, 1, worker.Stats().Nodes[0].PendingReleases)
		require.NoError(t, n.SetError(""))
		time.Sleep(2 * time.Second)
		requireNoKeys(t, c)
		assert.Zero(t, worker.Stats().Nodes[0].PendingReleases)
		time.Sleep(20 * time.Second)
		require.NoError(t, n.Set("a", l.Token(), time.Hour))
		time.Sleep(25 * time.Second)
		requireNoKeys(t, c)
		time.Sleep(2 * time.Minute)
		assert.Zero(t, worker.Stats().Nodes[0].Repeats)
	})
}

// The answer to a release that was sent again is lost. What the next Unlock finds is no loss.
func TestRepeatWithoutAnswerBeforeARepeatedUnlockIsNoLoss(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		n := c.Nodes[0]
		r := newRedlock(t, c)
		warm(t, r)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Hour)
		require.NoError(t, err)
		require.NoError(t, n.SetError("BUSY x"))
		require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrNoQuorum)
		require.NoError(t, n.SetError(""))
		require.NoError(t, n.OnCommand(func(cmd string, _ []string) {
			if cmd == "EVALSHA" { // The look was an EVAL.
				n.Proxy().DropReplies(true)
			}
		}))
		time.Sleep(time.Second)
		requireNoKeys(t, c)
		require.NoError(t, n.OnCommand(nil))
		n.Proxy().DropReplies(false)
		n.Proxy().Reset()
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A node that is being connected to, and has to be told something, gets its round when it is up.
func TestRepeatByCloseGoesOnTheNextConnection(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"b"}, time.Hour)
		require.NoError(t, err)
		synctest.Wait()
		breakLate(t, c, r, 11*time.Second)
		time.Sleep(12 * time.Second) // The next repetition comes after 20.46 s.
		requireLate(t, c)
		for _, n := range c.Nodes {
			n.Proxy().SetConnectDelay(10 * time.Millisecond)
			n.Proxy().Reset()
		}
		synctest.Wait()
		time.AfterFunc(time.Millisecond, func() { assert.NoError(t, r.Close(t.Context())) })
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(redlock.DefaultNodeTimeout)
		requireNoKeys(t, c)
	})
}
