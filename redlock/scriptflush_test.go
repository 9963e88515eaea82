package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func TestScriptFlushAtAnyMoment(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		flush := func() {
			require.NoError(t, c.FlushScripts())
		}
		r := newRedlock(t, c)
		warm(t, r)
		flush()
		l, err := r.TryLock(t.Context(), []string{"a", "b"}, ttl)
		require.NoError(t, err)
		flush()
		require.NoError(t, l.Extend(t.Context(), ttl))
		flush()
		require.NoError(t, l.Unlock(t.Context()))
		synctest.Wait()
		requireNoKeys(t, c)
		flush()
		in, err := r.Inspect(t.Context(), "a")
		require.NoError(t, err)
		for _, n := range in.Nodes {
			require.NoError(t, n.Err)
		}
	})
}

// A lock that is answered NOSCRIPT and sent again after its release would leave
// an orphan: also where another client has brought back the scripts of a release.
func TestScriptFlushDuringACancelledAttemptLeavesNothing(t *testing.T) {
	for i := range 24 {
		ms, releases := i/2, i%2 == 1
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			warm(t, r)
			for _, n := range c.Nodes {
				require.NoError(t, n.FlushScripts())
				if releases {
					loadScripts(t, n, redlock.UndoScript.Source, redlock.UnlockScript.Source)
				}
				require.NoError(t, n.Slow(2*time.Millisecond, 3*time.Millisecond))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(ms)*time.Millisecond)
			defer cancel()
			_, err := r.TryLock(ctx, []string{"a", "b"}, time.Minute) // One resource would need no script.
			if ms < 8 {
				require.Error(t, err)
			}
			if err != nil {
				time.Sleep(time.Second)
				requireNoKeys(t, c)
			}
		})
	}
}

// loadScripts has a node know scripts.
func loadScripts(t *testing.T, n *testcluster.Node, sources ...any) {
	t.Helper()
	cn, err := n.Conn(t.Context())
	require.NoError(t, err)
	for _, source := range sources {
		_, err := cn.Do("SCRIPT", "LOAD", source)
		require.NoError(t, err)
	}
	require.NoError(t, cn.Close())
}

// Otherwise a node that always answers last would never get a script back that
// it has lost, and the lock would have no spare node.
func TestScriptFlushOfANodeThatAnswersLastIsMended(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.Nodes[2].Slow(time.Millisecond, time.Millisecond))
		require.NoError(t, c.Nodes[2].FlushScripts())
		l, err := r.TryLock(t.Context(), []string{"a", "b"}, ttl)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, 3, holders(t, c, l))
		require.NoError(t, l.Unlock(t.Context()))
	})
}
