package redlock_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// The raise script on every kind of state, on a real server. It never lowers a
// counter, and gives those that it sets their life.
func TestRealRaises(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	conn := adminConn(t, n)
	for _, tc := range []struct {
		token, counter string
		fence, answer  int64
	}{
		{"t", "8", 9, 9},
		{"t", "9", 9, 9}, // A raise that comes late is harmless.
		{"t", "9007199254740990", redlock.MaxFence, redlock.MaxFence},
		{"t", "1760000000000001", 1760000000000002, 1760000000000002}, // Lua shows 14 digits.
		{"t", "10", 9, 0},
		{"t", "x", 9, 0},
		{"other", "8", 9, 0},
		{"", "8", 9, 0},
	} {
		require.NoError(t, n.Flush())
		if tc.token != "" {
			require.NoError(t, n.Set("x", tc.token, time.Minute))
		}
		require.NoError(t, n.Set(redlock.CounterKey("x"), tc.counter, time.Minute))
		answer, err := redis.Int64(conn.Do("EVAL", redlock.RaiseScript.Source, 2, "x", redlock.CounterKey("x"), "t", tc.fence, time.Hour.Milliseconds()))
		require.NoError(t, err)
		assert.Equal(t, tc.answer, answer, tc)
		text, _, err := n.Get(redlock.CounterKey("x"))
		require.NoError(t, err)
		left, err := redis.Int64(conn.Do("PTTL", redlock.CounterKey("x")))
		require.NoError(t, err)
		if tc.answer == 0 {
			assert.Equal(t, tc.counter, text, tc)
			assert.Less(t, left, 2*time.Minute.Milliseconds())
		} else {
			assert.Equal(t, strconv.FormatInt(tc.fence, 10), text, tc)
			assert.Greater(t, left, 59*time.Minute.Milliseconds())
		}
	}
}

// A user that may read the counters but not write them gets no lock, and no key is left.
func TestRealCountersThatMayNotBeWritten(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	nodes := make([]redlock.Node, len(c.Nodes))
	for i, n := range c.Nodes {
		_, err := adminConn(t, n).Do("ACL", "SETUSER", "reader", "on", ">pw", "resetkeys", "+@all", "~x", "~*:s:*", "%R~*:f:*")
		require.NoError(t, err)
		nodes[i] = redlock.NewNode("redis://reader:pw@" + n.Addr())
	}
	r := newRealRedlock(t, nodes)
	for _, opts := range [][]redlock.Option{{redlock.WithRetryCount(0)}, {redlock.WithRetryCount(1), redlock.WithRetryDelay(time.Millisecond)}} {
		_, err := r.Lock(t.Context(), []string{"x"}, time.Hour, append(opts, redlock.WithFencing())...)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "NOPERM")
		for _, n := range c.Nodes {
			assert.Empty(t, keys(t, n))
		}
	}
}

// A server that is out of memory keeps a lock and its counters.
func TestRealServersOutOfMemoryKeepFences(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	r := newRealRedlock(t, nodesOf(c), redlock.WithFencing())
	l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
	require.NoError(t, err)
	await(t, 30*time.Second, "all nodes have it", func() bool {
		for _, n := range c.Nodes {
			if len(keys(t, n)) == 0 {
				return false
			}
		}
		return true
	})
	for _, ttl := range []time.Duration{2 * time.Minute, 30 * time.Second} { // Longer than what is left, and shorter.
		for _, n := range c.Nodes {
			require.NoError(t, n.Del(redlock.CounterKey("a")))
			_, err := adminConn(t, n).Do("CONFIG", "SET", "maxmemory", "1")
			require.NoError(t, err)
		}
		require.NoError(t, l.Extend(t.Context(), ttl))
	}
	require.NoError(t, l.Unlock(t.Context()))
}
