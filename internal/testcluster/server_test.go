package testcluster

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// recorder is a TB that only notes what happened.
type recorder struct{ skipped, failed bool }

func (*recorder) Helper()                 {}
func (*recorder) Cleanup(func())          {}
func (r *recorder) Fatalf(string, ...any) { r.failed = true }
func (r *recorder) Skipf(string, ...any)  { r.skipped = true; runtime.Goexit() }

// A test that needs a server is not skipped in CI.
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

// What was written after the copy is lost.
func TestServerComesBackWithWhatItHadBefore(t *testing.T) {
	n := RunServers(t, 1, WithAppendOnly()).Nodes[0]
	require.NoError(t, n.Set("old", "v", time.Hour))
	require.NoError(t, n.Keep())
	require.NoError(t, n.Set("new", "v", time.Hour))
	for range 2 {
		keys, err := n.Keys()
		require.NoError(t, err)
		require.Len(t, keys, 2)
		require.NoError(t, n.Restart(true))
	}
	require.NoError(t, n.RestartKept())
	keys, err := n.Keys()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.Equal(t, "v", keys["old"].Value)
	require.NoError(t, n.Restart(false))
	keys, err = n.Keys()
	require.NoError(t, err)
	require.Empty(t, keys)
}
