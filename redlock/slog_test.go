package redlock_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func TestEventSlogHookIsQuiet(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var out bytes.Buffer
		r := newRedlock(t, c, redlock.WithHook(redlock.SlogHook(slog.New(slog.NewTextHandler(&out, nil)))))
		warm(t, r)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Hour)
		require.NoError(t, err)
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrTaken)
		synctest.Wait()
		assert.Empty(t, out.String(), "nothing is wrong")

		require.NoError(t, c.Nodes[0].Stop())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
		assert.Contains(t, out.String(), "node lost")
		require.NoError(t, c.Nodes[0].Restart(true))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
		assert.Contains(t, out.String(), "node is back")

		out.Reset()
		require.NoError(t, c.SetError("LOADING x"))
		for range 100 {
			require.ErrorIs(t, l.Extend(t.Context(), time.Hour), redlock.ErrNoQuorum)
			time.Sleep(15 * time.Millisecond)
		}
		synctest.Wait()
		assert.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
		assert.Contains(t, out.String(), "left_out=")
		assert.NotContains(t, out.String(), l.Token())
	})
	require.NotNil(t, redlock.SlogHook(nil))
}

func TestEventSlogHookTellsOfReleasesThatCameTooLate(t *testing.T) {
	for name, late := range map[string]func(t *testing.T, c *testcluster.Cluster, l *redlock.Lock){
		"expired": func(_ *testing.T, _ *testcluster.Cluster, l *redlock.Lock) { time.Sleep(time.Until(l.Until())) },
		"stolen": func(t *testing.T, c *testcluster.Cluster, _ *redlock.Lock) {
			require.NoError(t, c.Del("a"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				var out bytes.Buffer
				r := newRedlock(t, c, redlock.WithHook(redlock.SlogHook(slog.New(slog.NewTextHandler(&out, nil)))))
				l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
				require.NoError(t, err)
				synctest.Wait()
				late(t, c, l)
				require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrLost)
				synctest.Wait()
				assert.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
				assert.Contains(t, out.String(), "level=WARN msg=\"redlock: a lock was not held to its release\"")
			})
		})
	}
}
