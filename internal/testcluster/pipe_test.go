package testcluster

import (
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPipeBuffersWithoutAReader(t *testing.T) {
	a, b := Pipe()
	big := make([]byte, 1<<20)
	for range 3 {
		n, err := a.Write(big)
		require.NoError(t, err)
		require.Len(t, big, n)
	}
	require.NoError(t, a.Close())
	got, err := io.ReadAll(b)
	require.NoError(t, err, "what was written before the close still arrives, then EOF")
	require.Len(t, got, 3<<20)
	_, err = b.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
	_, err = a.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, b.Close())
}

func TestPipeDeadlines(t *testing.T) {
	requireTimeout := func(t *testing.T, err error) {
		t.Helper()
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var netErr net.Error
		require.ErrorAs(t, err, &netErr)
		require.True(t, netErr.Timeout())
	}
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		start := time.Now()
		buf := make([]byte, 8)

		require.NoError(t, a.SetReadDeadline(start.Add(time.Second)))
		_, err := a.Read(buf)
		requireTimeout(t, err)
		require.Equal(t, time.Second, time.Since(start))
		_, err = a.Write([]byte("x"))
		require.NoError(t, err, "the read deadline is not for writes")

		require.NoError(t, a.SetDeadline(time.Now().Add(-time.Second)))
		_, err = a.Write([]byte("x"))
		requireTimeout(t, err)
		_, err = a.Read(buf)
		requireTimeout(t, err)

		require.NoError(t, a.SetWriteDeadline(time.Time{}))
		_, err = a.Write([]byte("y"))
		require.NoError(t, err, "the zero time means no deadline")
		n, err := b.Read(buf)
		require.NoError(t, err)
		require.Equal(t, "xy", string(buf[:n]))

		// A deadline that moves also counts for a read in progress.
		start = time.Now()
		require.NoError(t, a.SetReadDeadline(start.Add(time.Second)))
		done := make(chan error, 1)
		go func() {
			_, err := a.Read(buf)
			done <- err
		}()
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, a.SetReadDeadline(start.Add(3*time.Second)))
		requireTimeout(t, <-done)
		require.Equal(t, 3*time.Second, time.Since(start))

		require.NoError(t, a.Close())
		require.ErrorIs(t, a.SetDeadline(time.Time{}), net.ErrClosed)
	})
}
