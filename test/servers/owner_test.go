package servers

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

// A lock with a label excludes clients that know nothing of labels, and shows its label to
// those that do.
func TestOwnerOfALock(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	r, other := newPatient(t, nodesOf(c)), newPatient(t, nodesOf(c))
	for _, opts := range [][]redlock.Option{nil, {redlock.WithFencing()}} {
		var l *redlock.Lock
		await(t, 30*time.Second, "all nodes have the lock", func() bool {
			var err error
			l, err = r.TryLock(t.Context(), []string{"a", "b"}, time.Minute, append(opts, redlock.WithOwner(oddOwner))...)
			require.NoError(t, err)
			if holders(t, c, l) == 3 {
				return true
			}
			require.NoError(t, l.Unlock(t.Context()))
			return false
		})
		for _, n := range c.Nodes {
			assert.Equal(t, "string", admin(t, n, "TYPE", "a"))
			assert.False(t, foreignLock(t, n, "a", time.Minute))
			for _, script := range []string{foreignUnlock, foreignExtend} {
				assert.Equal(t, int64(0), admin(t, n, "EVAL", script, 1, "a", l.Token()[:tokens.Length], 1))
			}
		}
		_, try := other.TryLock(t.Context(), []string{"a"}, time.Minute, opts...)
		_, wait := other.Lock(t.Context(), []string{"b"}, time.Minute, append(opts, redlock.WithRetryCount(1))...)
		for _, err := range []error{try, wait} {
			require.ErrorIs(t, err, redlock.ErrTaken)
			for _, v := range votesOf(t, err) {
				if errors.Is(v.Err, redlock.ErrTaken) {
					assert.Equal(t, oddOwner, v.Owner)
				}
			}
		}
		in, err := other.Inspect(t.Context(), "b")
		require.NoError(t, err)
		assert.Equal(t, oddOwner, in.Owner)
		require.NoError(t, l.Extend(t.Context(), time.Minute))
		require.NoError(t, l.Unlock(t.Context()))
		awaitNoKeys(t, c, 30*time.Second)
	}
	// What others store is theirs.
	for _, n := range c.Nodes {
		require.True(t, foreignLock(t, n, "a", time.Minute))
	}
	in, err := r.Inspect(t.Context(), "a")
	require.NoError(t, err)
	assert.True(t, in.Held)
	assert.Empty(t, in.Owner)
}
