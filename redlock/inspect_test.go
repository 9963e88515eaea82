package redlock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

func TestInspectShowsWhoHoldsAResource(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithPrefix("p:"))
		in, err := r.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.False(t, in.Held)
		assert.Len(t, in.Nodes, 5)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		time.Sleep(time.Second)
		require.NoError(t, c.Nodes[0].Stop())
		require.NoError(t, c.Nodes[1].Del("p:a"))
		time.Sleep(10 * time.Millisecond)
		in, err = r.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, 3, in.Need)
		assert.True(t, in.Held)
		assert.Equal(t, tokens.Digest(l.Token()), in.Holder)
		assert.True(t, strings.HasPrefix(l.Token(), strings.TrimSuffix(in.TokenStart, "…")))
		assert.Len(t, strings.TrimSuffix(in.TokenStart, "…"), 8)
		assert.InDelta(t, ttl-time.Second, in.TTL, float64(20*time.Millisecond))
		require.Error(t, in.Nodes[0].Err)
		assert.Empty(t, in.Nodes[1].Holder)
		require.NoError(t, c.Nodes[2].Set("p:a", "x", 0))
		require.NoError(t, c.Nodes[3].Hang())
		start := time.Now()
		in, err = r.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, redlock.DefaultNodeTimeout, time.Since(start))
		assert.False(t, in.Held)
		assert.Equal(t, "x", in.Nodes[2].TokenStart)
		assert.Negative(t, in.Nodes[2].TTL)
		require.ErrorIs(t, in.Nodes[3].Err, redlock.ErrNodeTimeout)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = r.Inspect(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
