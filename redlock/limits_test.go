package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

func TestLimits(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ timeout, pace, want time.Duration }{
		{250 * ms, ms, 100 * ms},
		{250 * ms, 20 * ms, 160 * ms},
		{250 * ms, 100 * ms, 250 * ms},
		{50 * ms, 20 * ms, 50 * ms},
		{time.Minute, 20 * ms, 160 * ms},
	} {
		assert.Equal(t, c.want, splitLimit(c.timeout, c.pace), "node timeout %v, pace %v", c.timeout, c.pace)
	}
}

func TestADeadConnectionIsFoundWithinAboutASecond(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		c.Nodes[0].Proxy().BlackHole(true)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		c.Nodes[0].Proxy().BlackHole(false) // Only for connections made from now on.
		time.Sleep(1300 * time.Millisecond)
		require.True(t, r.Stats().Nodes[0].Up)
		require.EqualValues(t, 2, r.Stats().Nodes[0].Connects)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// One that asks when the oldest request has been unanswered for the node timeout
// would only time out, too.
func TestASilentNodeIsNotAskedOnceTheNodeTimeoutIsOver(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.Nodes[0].Hang())
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		vote := func() error {
			in, err := r.Inspect(t.Context(), "b")
			require.NoError(t, err)
			return in.Nodes[0].Err
		}
		time.Sleep(time.Millisecond)
		require.ErrorIs(t, vote(), ErrNodeTimeout, "it was asked: it was not late yet")
		require.ErrorIs(t, vote(), node.ErrSilent)
		require.NoError(t, c.Nodes[0].Resume())
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// Nodes that hang, and their subscriptions, too, cost Close the node timeout once.
func TestCloseWaitsForWhatHangsOnlyOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		holder, r := newRedlock(t, c), newRedlock(t, c)
		l, err := holder.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = r.Lock(ctx, []string{"a"}, ttl)
		require.ErrorIs(t, err, ErrTaken)
		synctest.Wait()
		require.True(t, r.Stats().Nodes[0].Listens)
		for _, n := range c.Nodes {
			require.NoError(t, n.Hang())
		}
		_, err = r.TryLock(t.Context(), []string{"b"}, ttl)
		require.ErrorIs(t, err, ErrNoQuorum)
		start := time.Now()
		require.NoError(t, r.Close(t.Context()))
		assert.LessOrEqual(t, time.Since(start), DefaultNodeTimeout)
		for _, n := range c.Nodes {
			require.NoError(t, n.Resume())
		}
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// The first extension of a hold meets nodes that hang for a while. It gives up early
// enough for others, and those come soon after another: the lock is not lost.
func TestAHoldHasTimeForFurtherExtensions(t *testing.T) {
	const ttl = 600 * time.Millisecond
	validity := Validity(ttl, DefaultDriftFactor)
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithNodeTimeout(10*time.Second))
		warm(t, r)
		start := time.Now()
		l, ctx := kept(t, r, ttl)
		for _, n := range c.Nodes {
			require.NoError(t, n.Hang())
		}
		time.Sleep(validity * 7 / 10) // From a third on, an extension waits for a third.
		for _, n := range c.Nodes {
			require.NoError(t, n.Resume())
		}
		time.Sleep(time.Until(start.Add(validity + time.Millisecond)))
		require.NoError(t, ctx.Err())
		require.EqualValues(t, 1, r.Stats().NoQuorum, "the extension that waited for a third")
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// Extensions that are refused at once are tried again soon, not when the next one
// would have been due.
func TestAFailedExtensionWaitsNoWholePace(t *testing.T) {
	const ttl = 3 * time.Second
	validity := Validity(ttl, DefaultDriftFactor)
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		start := time.Now()
		l, ctx := kept(t, r, ttl)
		for _, n := range c.Nodes {
			require.NoError(t, n.SetError("BUSY a script runs"))
		}
		time.Sleep(validity / 2)
		failed := r.Stats().NoQuorum
		assert.GreaterOrEqual(t, failed, int64(3), "a sixth of the validity has room for three")
		for _, n := range c.Nodes {
			require.NoError(t, n.SetError(""))
		}
		time.Sleep(validity/20 + time.Millisecond)
		require.EqualValues(t, 1, r.Stats().Extended)
		time.Sleep(time.Until(start.Add(validity + time.Millisecond)))
		require.NoError(t, ctx.Err())
		require.NoError(t, l.Unlock(t.Context()))
	})
}
