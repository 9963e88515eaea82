package compat

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// What the test suites of the other libraries ask for, and code that comes from them relies on.

// Whichever nodes others hold, a lock is got if and only if a quorum is free, and they keep theirs.
func TestAnyQuorumThatOthersLeaveIsEnough(t *testing.T) {
	t.Parallel()
	const all = 4
	c := testcluster.RunServers(t, all)
	r := newOurs()(t, c).(ours).r
	for held := range 1 << all {
		t.Run(fmt.Sprintf("%04b", held), func(t *testing.T) {
			key, free := fmt.Sprint("job", held), 0
			var theirs []*redsync.Mutex
			for i, n := range c.Nodes {
				if held&(1<<i) == 0 {
					free++
					continue
				}
				m := redsync.New(redigo.NewPool(n.Pool())).NewMutex(key, redsync.WithExpiry(longTTL), redsync.WithTimeoutFactor(0.5))
				require.NoError(t, m.Lock())
				theirs = append(theirs, m)
			}
			l, err := r.TryLock(t.Context(), []string{key}, longTTL)
			if free > all/2 {
				require.NoError(t, err)
				require.NoError(t, l.Extend(t.Context(), 2*longTTL))
				require.NoError(t, l.Unlock(t.Context()))
			} else {
				require.ErrorIs(t, err, redlock.ErrTaken)
			}
			for _, m := range theirs {
				ok, unlockErr := m.Unlock()
				require.NoError(t, unlockErr)
				assert.True(t, ok)
			}
			require.Eventually(t, func() bool { return !anyKey(t, c, key) }, 2*time.Minute, pollDelay, "nothing is left")
		})
	}
}
