package testcluster

import (
	"crypto/tls"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// requireNoLeaks fails the test if goroutines of this package outlive its
// cleanup. Bubbles check the same by themselves.
func requireNoLeaks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		var left []string
		// What was told to end may take a moment to do so.
		for wait := time.Millisecond; wait < 2*time.Second; wait *= 2 {
			if left = ownGoroutines(); len(left) == 0 {
				return
			}
			time.Sleep(wait)
		}
		t.Errorf("%d goroutines were left:\n%s", len(left), strings.Join(left, "\n\n"))
	})
}

// ownGoroutines returns the stacks of the goroutines that this package or the
// embedded server started.
func ownGoroutines() (own []string) {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		isTest := strings.Contains(stack, "testing.tRunner") || strings.Contains(stack, "testing.(*M)")
		if !isTest && (strings.Contains(stack, "testcluster.") || strings.Contains(stack, "miniredis")) {
			own = append(own, stack)
		}
	}
	return own
}

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
	for _, err := range []error{n.Slow(1, 2), n.SetError("ERR"), n.OnCommand(nil), n.SetRate(1), n.LeapClock(1)} {
		require.ErrorIs(t, err, ErrUnsupported)
	}

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

func TestServersSpeakTLS(t *testing.T) {
	t.Parallel()
	certificate, err := NewCertificate()
	require.NoError(t, err)
	n := RunServers(t, 1, WithTLS(certificate)).Nodes[0]
	for range 2 { // It has the same port after a restart.
		conn, err := tls.Dial("tcp", n.TLSAddr(), certificate.Client())
		require.NoError(t, err)
		send(t, conn, "PING\r\n")
		expect(t, conn, "+PONG\r\n")
		require.NoError(t, conn.Close())
		require.NoError(t, n.Restart(false))
	}
}

// No two servers have a port, whichever process starts them, until one has been closed.
func TestPortsAreGivenOnce(t *testing.T) {
	var one, other portPool
	t.Cleanup(func() {
		for _, ln := range slices.Concat(one.guard, other.guard) {
			_ = ln.Close()
		}
	})
	taken := map[int]bool{}
	for range blockSize + 10 {
		for _, pool := range []*portPool{&one, &other} {
			port, err := pool.take()
			require.NoError(t, err)
			require.False(t, taken[port], port)
			taken[port] = true
		}
	}
	for len(one.free) > 0 {
		_, err := one.take()
		require.NoError(t, err)
	}
	var port int
	for port = range taken {
		break
	}
	one.put(port)
	again, err := one.take()
	require.NoError(t, err)
	require.Equal(t, port, again)

	// Some other program listens on the next port.
	ln, err := listenOn(port)
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	one.put(port)
	again, err = one.take()
	require.NoError(t, err)
	require.NotEqual(t, port, again)
}
