// Package conntest tries pools: their connections do what redsync's do, on a real server, and mutexes lock on it.
package conntest

import (
	"crypto/sha1" //nolint:gosec // A server names scripts by it.
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/redsync"
	"github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/redlock"
)

// Run tries the connections of a pool, whose server must be empty.
func Run(t *testing.T, pool redis.Pool) {
	t.Helper()
	//nolint:staticcheck // redsync allows a nil context.
	c, err := pool.Get(nil)
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()

	value, err := c.Get("k")
	require.NoError(t, err)
	assert.Empty(t, value)
	for _, want := range []bool{true, false} {
		set, setErr := c.SetNX("k", "v", time.Minute)
		require.NoError(t, setErr)
		assert.Equal(t, want, set)
	}
	left, err := c.PTTL("k")
	require.NoError(t, err)
	assert.Greater(t, left, 30*time.Second)
	ok, err := c.Set("k", "w")
	require.NoError(t, err)
	assert.True(t, ok)
	value, err = c.Get("k")
	require.NoError(t, err)
	assert.Equal(t, "w", value)

	const text = `return {redis.call("GET", KEYS[1]), ARGV[1]}`
	sum := sha1.Sum([]byte(text)) //nolint:gosec // As above.
	script := redis.NewScript(1, text, hex.EncodeToString(sum[:]))
	for range 2 { // The second time by its hash.
		reply, evalErr := c.Eval(script, "k", "a")
		require.NoError(t, evalErr)
		assert.Len(t, reply, 2)
	}
	script.Hash = ""
	require.NoError(t, c.ScriptLoad(script))
	assert.Equal(t, hex.EncodeToString(sum[:]), script.Hash)
	nothing, err := c.Eval(redis.NewScript(0, "return nil", "0000"))
	require.NoError(t, err)
	assert.Nil(t, nothing)
	_, err = c.Eval(redis.NewScript(0, "return x.y", "0000"))
	require.Error(t, err)
}

// Locks has a mutex on a pool lock x, which value reads, and requires that it excludes one on another pool of the server.
func Locks(t *testing.T, pool, other redis.Pool, value func(name string) string) {
	t.Helper()
	m := redsync.New(pool).NewMutex("x")
	require.NoError(t, m.Lock())
	assert.Equal(t, m.Value(), value("x"))
	require.ErrorAs(t, redsync.New(other).NewMutex("x").TryLock(), new(*redsync.ErrTaken))
	_, err := m.Unlock()
	require.NoError(t, err)
	require.Empty(t, value("x"))
}

// Refused requires that a mutex on a pool fails, and not as on a lock that somebody else has.
func Refused(t *testing.T, pool redis.Pool, says string) {
	t.Helper()
	err := redsync.New(pool).NewMutex("x").Lock()
	require.ErrorContains(t, err, says)
	require.NotErrorIs(t, err, redsync.ErrFailed)
	require.NotErrorIs(t, err, redlock.ErrTaken)
}

// Warns requires that a pool warns of these of its two dangers, and of no other.
func Warns(t *testing.T, pool redis.Pool, sentinel, onConnect bool) {
	t.Helper()
	_, warning, err := pool.(redis.NodePool).Node()
	require.NoError(t, err)
	assert.Equal(t, sentinel, strings.Contains(warning, "two may hold one"), warning)
	assert.Equal(t, onConnect, strings.Contains(warning, "if it selects a database"), warning)
}
