package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

func TestOneCallersShortTimeoutDoesNotFailOthers(t *testing.T) {
	for name, short := range map[string]func(r *Redlock) (*Lock, error){
		"node timeout": func(r *Redlock) (*Lock, error) {
			return r.TryLock(context.Background(), []string{"x"}, ttl, WithNodeTimeout(time.Millisecond))
		},
		"ttl": func(r *Redlock) (*Lock, error) {
			return r.TryLock(context.Background(), []string{"x"}, 5*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				r := newRedlock(t, c)
				warm(t, r)
				for _, n := range c.Nodes {
					require.NoError(t, n.Slow(10*time.Millisecond, 10*time.Millisecond))
				}
				go func() {
					_, err := short(r)
					assert.ErrorIs(t, err, ErrNoQuorum)
				}()
				time.Sleep(15 * time.Millisecond)
				l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
				require.NoError(t, err)
				require.NoError(t, l.Unlock(t.Context()))
			})
		})
	}
}

func TestOneCallersLongTimeoutKeepsNoDeadConnection(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		c.Nodes[0].Proxy().BlackHole(true)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Hour, WithNodeTimeout(time.Minute))
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		assert.True(t, r.Stats().Nodes[0].Up, "nobody else has asked")
		c.Nodes[0].Proxy().BlackHole(false)
		start := time.Now()
		for {
			in, err := r.Inspect(t.Context(), "b")
			require.NoError(t, err)
			if in.Nodes[0].Err == nil {
				break
			}
			require.Less(t, time.Since(start), 3*time.Second)
			time.Sleep(50 * time.Millisecond)
		}
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestALongTimeoutIsWaitedFor(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.Nodes[0].Slow(2*time.Second, 2*time.Second))
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Hour, WithNodeTimeout(10*time.Second))
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// Otherwise a node that always answers last would never get a script back that
// it has lost, and the lock would have no spare node.
func TestANodeThatAnswersLastGetsItsScriptsBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.Nodes[2].Slow(time.Millisecond, time.Millisecond))
		require.NoError(t, c.Nodes[2].FlushScripts())
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, 3, holders(t, c, l))
		require.NoError(t, l.Unlock(t.Context()))
	})
}
