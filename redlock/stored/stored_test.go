package stored_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/redlock/stored"
)

const ttl = 10 * time.Second

// No more is stored than what the names stand for; see ExampleKeys for what they have.
func TestKeysOfTheLibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.New(t, 1, redlock.WithPrefix("locks:"), redlock.WithFencing(), redlock.WithQuarantine(ttl))
		require.NoError(t, c.Redlock.Admit(t.Context(), "node1"))
		_, err := c.Redlock.Lock(t.Context(), []string{"x"}, ttl)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), ttl/2)
		defer cancel()
		go func() { _, _ = c.NewRedlock().Lock(ctx, []string{"x"}, ttl, redlock.WithRetryCount(-1)) }()
		time.Sleep(ttl / 10)
		k := stored.Keys{Prefix: "locks:"}
		conn, err := c.Nodes()[0].Pool.GetContext(t.Context())
		require.NoError(t, err)
		line, err := redis.Strings(conn.Do("ZRANGE", k.Line("x"), 0, -1))
		require.NoError(t, err)
		require.Len(t, line, 1)
		assert.Regexp(t, "^[0-9a-f]{16}$", k.Waiter(line[0]))
		all, err := redis.Strings(conn.Do("KEYS", "*"))
		require.NoError(t, err)
		for _, key := range all {
			resource, ok := k.Resource(key)
			assert.Equal(t, key == k.Lock("x"), ok, key)
			assert.Equal(t, ok, resource == "x", key)
			assert.True(t, ok || strings.HasPrefix(key, "locks:"+stored.Reserved), key)
		}
		require.NoError(t, conn.Close())
	})
}

func TestResourceOfAKey(t *testing.T) {
	k := stored.Keys{Prefix: "p:"}
	for key, want := range map[string]string{"p:x": "x", "p:": "", "x": "", "": "", "p:a" + stored.Reserved: "", "p:p:x": "p:x"} {
		resource, ok := k.Resource(key)
		assert.Equal(t, want, resource, key)
		assert.Equal(t, want != "", ok, key)
	}
}

// What is read was stored by anybody.
func TestValuesOfAnybody(t *testing.T) {
	assert.Zero(t, stored.ParseMarker("nonsense"))
	assert.Equal(t, "no clients", stored.Marker{}.String())
	three := stored.Marker{Nodes: 3} // As no client has come with another number, one node more or less will do.
	assert.Equal(t, []bool{false, true, true, true, false}, []bool{three.Fits(1), three.Fits(2), three.Fits(3), three.Fits(4), three.Fits(5)})
	assert.Empty(t, stored.Owner(""))
	assert.Len(t, stored.Holder(""), 12)
	longest := strings.Repeat("0", 32) + " owner=" + strings.Repeat("x", stored.MaxToken-39)
	require.NoError(t, stored.CheckToken(longest))
	require.Error(t, stored.CheckToken(longest+"x"))
	assert.Empty(t, stored.SetDifferences("", []string{"a", "b"}, nil))
	assert.Empty(t, stored.SetDifferences("", []string{"a"}, []string{"nonsense", "more of it"}))
}
