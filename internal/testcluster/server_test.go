package testcluster

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

func TestServers(t *testing.T) {
	requireNoLeaks(t)
	c := RunServers(t, 3)
	for _, n := range c.Nodes {
		require.Equal(t, n.Addr(), n.DirectAddr())
		_, err := get(t, n.Pool()).Do("SET", "k", n.Name(), "PX", 60_000)
		require.NoError(t, err)
		keys, err := n.Keys()
		require.NoError(t, err)
		require.Len(t, keys, 1)
		require.Equal(t, n.Name(), keys["k"].Value)
		require.InDelta(t, time.Minute, keys["k"].TTL, float64(10*time.Second))
	}
	n := c.Nodes[0]
	require.ErrorIs(t, n.Slow(1, 2), ErrUnsupported)
	require.ErrorIs(t, n.SetError("ERR"), ErrUnsupported)
	require.ErrorIs(t, n.OnCommand(nil), ErrUnsupported)
	require.ErrorIs(t, n.SetRate(1), ErrUnsupported)
	require.ErrorIs(t, n.LeapClock(1), ErrUnsupported)

	conn := get(t, n.Pool())
	_, err := conn.Do("PING")
	require.NoError(t, err)
	require.NoError(t, n.Stop())
	_, err = conn.Do("PING")
	require.Error(t, err)
	_, err = n.Conn(t.Context())
	require.Error(t, err)
	_, err = n.Keys()
	require.Error(t, err)
	require.NoError(t, n.Stop(), "a second stop does no harm")

	require.Error(t, n.Restart(true), "nothing was written to disk")
	require.NoError(t, n.Restart(false))
	requireNoKey(t, n)
	requireKey(t, c.Nodes[1], "node2")
}

func TestServerKeepsDataOnDisk(t *testing.T) {
	requireNoLeaks(t)
	c := RunServers(t, 1, WithAppendOnly(), WithUnixSocket(), WithArgs("--maxclients", "77"))
	n := c.Nodes[0]
	conn, err := redis.Dial("unix", n.Socket())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.Do("SET", "k", "v")
	require.NoError(t, err)
	limit, err := redis.Strings(conn.Do("CONFIG", "GET", "maxclients"))
	require.NoError(t, err)
	require.Equal(t, []string{"maxclients", "77"}, limit)
	require.NoError(t, n.Restart(true))
	requireKey(t, n, "v")
	require.NoError(t, n.Stop())
	require.NoError(t, n.Restart(false))
	requireNoKey(t, n)

	dir := n.backend.(*realServer).dir
	require.NoError(t, c.Close())
	_, err = os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// What was written after the copy is lost, and keys that had an end keep it.
func TestServerComesBackWithWhatItHadBefore(t *testing.T) {
	requireNoLeaks(t)
	n := RunServers(t, 1, WithAppendOnly()).Nodes[0]
	require.NoError(t, n.Set("old", "v", time.Hour))
	require.NoError(t, n.Keep())
	require.NoError(t, n.Set("old", "w", 2*time.Hour))
	require.NoError(t, n.Set("new", "v", time.Hour))
	require.NoError(t, n.RestartKept())
	keys, err := n.Keys()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.Equal(t, "v", keys["old"].Value)
	require.LessOrEqual(t, keys["old"].TTL, time.Hour)
	require.Error(t, n.RestartKept(), "the copy is used up")

	require.ErrorIs(t, RunServers(t, 1).Nodes[0].Keep(), ErrUnsupported)
	embedded := RunEmbedded(t, 1).Nodes[0]
	require.ErrorIs(t, embedded.Keep(), ErrUnsupported)
	require.ErrorIs(t, embedded.RestartKept(), ErrUnsupported)
}

func TestServerBinary(t *testing.T) {
	t.Setenv("REDIS_SERVER", "/nonexistent/redis-server")
	_, err := ServerBinary()
	require.ErrorIs(t, err, ErrNoServer)
	_, err = StartServers(1)
	require.ErrorIs(t, err, ErrNoServer)
	t.Setenv("REDIS_SERVER", "")
	t.Setenv("PATH", t.TempDir())
	_, err = ServerBinary()
	require.ErrorIs(t, err, ErrNoServer)
	require.NotContains(t, err.Error(), "\n")
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv("REDIS_SERVER", self)
	path, err := ServerBinary()
	require.NoError(t, err)
	require.Equal(t, self, path)
}

func TestServerThatCannotStart(t *testing.T) {
	requireNoLeaks(t)
	if _, err := ServerBinary(); err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	_, err := StartServers(2, WithArgs("--no-such-option", "1"))
	require.ErrorContains(t, err, "no-such-option", "the server's own words")
}

// recorder is a TB that only notes what happened.
type recorder struct{ skipped, failed bool }

func (*recorder) Helper()                 {}
func (*recorder) Cleanup(func())          {}
func (r *recorder) Fatalf(string, ...any) { r.failed = true }
func (r *recorder) Skipf(string, ...any)  { r.skipped = true; runtime.Goexit() }

func TestRunServersWithoutABinary(t *testing.T) {
	t.Setenv("REDIS_SERVER", "/nonexistent/redis-server")
	for ci, want := range map[string]recorder{"": {skipped: true}, "true": {failed: true}} {
		t.Setenv("CI", ci)
		got := &recorder{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			RunServers(got, 1)
		}()
		<-done
		require.Equal(t, want, *got)
	}
}
