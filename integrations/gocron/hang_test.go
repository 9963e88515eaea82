package redlockgocron

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/redlock"
)

// While two of three nodes hang, nobody is told that another process runs the job or leads; while one does, all are.
func TestNodesThatHang(t *testing.T) {
	nodetest.Hang(t, func(t *testing.T, holder, other *redlock.Redlock, hang func(), outage bool) {
		const long = time.Hour
		_, err := must(NewLocker(holder, long, long/2)).Lock(t.Context(), "report")
		require.NoError(t, err)
		elector := must(NewElector(holder, "leader", long))
		synctest.Wait()
		require.NoError(t, elector.IsLeader(t.Context()))
		hang()
		want, not := nodetest.Busy(outage)
		locker, second := must(NewLocker(other, tick, tick/2)), must(NewElector(other, "leader", long))
		for range 10 {
			_, err = locker.Lock(t.Context(), "report")
			require.ErrorIs(t, err, want)
			require.NotErrorIs(t, err, not)
			time.Sleep(700 * time.Millisecond)
			err = second.IsLeader(t.Context())
			require.ErrorIs(t, err, want)
			require.NotErrorIs(t, err, not)
		}
		_, _ = second.Close(t.Context()), elector.Close(t.Context())
	})
}
