package redsync

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/redlock"
)

// While two of three nodes hang, an error is none of a lock that is taken; while one does, it is.
func TestNodesThatHang(t *testing.T) {
	nodetest.Hang(t, func(t *testing.T, holder, other *redlock.Redlock, hang func(), outage bool) {
		require.NoError(t, Over(holder).NewMutex("x", WithExpiry(time.Hour)).TryLock())
		hang()
		want, not := nodetest.Busy(outage)
		for range 5 {
			err := Over(other).NewMutex("x", WithTries(3)).Lock()
			require.ErrorIs(t, err, want)
			require.NotErrorIs(t, err, not)
			if outage {
				require.NotErrorAs(t, err, new(*ErrTaken))
			} else {
				require.ErrorAs(t, err, new(*ErrTaken))
			}
			time.Sleep(700 * time.Millisecond)
		}
	})
}
