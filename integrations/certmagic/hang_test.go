package redlockcertmagic

import (
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/redlock"
)

// While two of three nodes hang, TryLock has an error; while one does, it only says that another process has the lock.
func TestNodesThatHang(t *testing.T) {
	nodetest.Hang(t, func(t *testing.T, holder, other *redlock.Redlock, hang func(), outage bool) {
		folder := files{&certmagic.FileStorage{Path: t.TempDir()}, t}
		require.NoError(t, New(folder, holder, time.Hour).Lock(t.Context(), name))
		hang()
		storage := New(folder, other, ttl)
		for range 5 {
			ok, err := storage.TryLock(t.Context(), name)
			require.False(t, ok)
			if outage {
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				require.NotErrorIs(t, err, redlock.ErrTaken)
			} else {
				require.NoError(t, err)
			}
			time.Sleep(700 * time.Millisecond)
		}
	})
}
