package testcluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

func TestBubbleNodeHasAClockOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := RunBubble(t, 1).Nodes[0]
		conn, err := n.Conn(t.Context())
		require.NoError(t, err)
		isThere := func(want bool) {
			t.Helper()
			_, ok, failed := n.Get("k")
			require.NoError(t, failed)
			require.Equal(t, want, ok)
		}
		shows := func(want time.Duration, since time.Time) {
			t.Helper()
			at, failed := redis.Int64s(conn.Do("TIME"))
			require.NoError(t, failed)
			require.Equal(t, want, time.Unix(at[0], at[1]*1000).Sub(since))
		}
		start := time.Now()
		require.NoError(t, n.SetRate(1.25))
		require.NoError(t, n.Set("k", "v", 10*time.Second))
		time.Sleep(4 * time.Second)
		shows(5*time.Second, start)
		keys, err := n.Keys()
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, keys["k"].TTL)
		time.Sleep(4*time.Second - 1)
		isThere(true)
		time.Sleep(time.Nanosecond)
		isThere(false)

		// In a script, too; and it goes on from where it was.
		require.NoError(t, n.SetRate(0.5))
		shows(10*time.Second, start)
		_, err = conn.Do("EVAL", `redis.call("SET", KEYS[1], "v", "PX", 10000) return redis.call("TIME")`, 1, "k")
		require.NoError(t, err)
		require.NoError(t, n.LeapClock(9*time.Second))
		time.Sleep(2*time.Second - 1)
		isThere(true)
		time.Sleep(time.Nanosecond)
		isThere(false)
		shows(20*time.Second, start)
	})
}
