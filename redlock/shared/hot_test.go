package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// The turnstile's label says whether a writer stands there. So it is not passed on within a process, under the label of
// the first, whatever options say: other processes would not see the writer, and keep it out for ever.
func TestTurnstileIsNotPassedOn(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a := process(t, c, redlock.WithTurn(500*time.Millisecond))
		b, other := process(t, c), process(t, c)
		w := lock(t, b)
		time.Sleep(2 * turn)
		rd := start(t.Context(), a.RLock)
		require.True(t, rd.waits())
		next := start(t.Context(), a.Lock)
		require.True(t, next.waits())
		unlock(t, w)
		first := rd.got(t)
		require.True(t, next.waits())
		time.Sleep(2 * turn)
		_, err := other.TryRLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrTaken, "a writer waits")
		unlock(t, first)
		unlock(t, next.got(t))
	})
}
