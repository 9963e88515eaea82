package testcluster

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

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
