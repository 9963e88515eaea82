package redlocktusd

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/redlock"
)

// While nodes hang, an upload that another server has is waited for in vain. Whether that is an outage is told by the
// events of the Redlock, as tusd has one error for both.
func TestNodesThatHang(t *testing.T) {
	nodetest.Hang(t, func(t *testing.T, holder, other *redlock.Redlock, hang func(), outage bool) {
		held := newLock(t, New(holder, time.Hour))
		require.NoError(t, held.Lock(t.Context(), func() {}))
		hang()
		want, not := nodetest.Busy(outage)
		for range 5 {
			_, err := other.TryLock(t.Context(), []string{"tusd:" + id}, ttl)
			require.ErrorIs(t, err, want)
			require.NotErrorIs(t, err, not)
			ctx, cancel := context.WithTimeout(t.Context(), 1700*time.Millisecond)
			require.Equal(t, handler.ErrLockTimeout, newLock(t, New(other, ttl)).Lock(ctx, unasked))
			cancel()
		}
	})
}
