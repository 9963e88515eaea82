package redlock

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

func TestFencesGrow(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithFencing())
		last := int64(0)
		for range 5 {
			l, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			require.NoError(t, err)
			assert.Greater(t, l.Fence(), last)
			last = l.Fence()
			require.NoError(t, l.Extend(t.Context(), ttl))
			assert.Equal(t, last, l.Fence())
			require.NoError(t, l.Unlock(t.Context()))
		}
		assert.Zero(t, r.Stats().Raised)
	})
}
