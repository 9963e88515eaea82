package testcluster

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func dialTCP(t *testing.T, addr string) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestProxyOverTCP(t *testing.T) {
	requireNoLeaks(t)
	e := &echo{}
	p := NewProxy(e.dial)
	defer p.Close()
	addr, err := p.Listen()
	require.NoError(t, err)

	conn := dialTCP(t, addr)
	send(t, conn, "a")
	expect(t, conn, "a")

	p.SetDelay(time.Millisecond, 2*time.Millisecond)
	for range 10 {
		send(t, conn, "b")
	}
	expect(t, conn, "bbbbbbbbbb")
	p.SetDelay(0, 0)

	p.Hang()
	send(t, conn, "c")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, conn.SetReadDeadline(time.Time{}))
	p.Resume()
	expect(t, conn, "c")

	p.Reset()
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, errConnReset)

	p.Refuse(true)
	// The reset may come before the dialling has ended or after.
	var d net.Dialer
	if conn, err = d.DialContext(t.Context(), "tcp", addr); err == nil {
		_, err = conn.Read(make([]byte, 1))
		require.NoError(t, conn.Close())
	}
	require.ErrorIs(t, err, errConnReset)
	p.Refuse(false)

	conn = dialTCP(t, addr)
	send(t, conn, "d")
	expect(t, conn, "d")
	require.Equal(t, 1, p.Stats().Refused)
	p.Close()
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, errConnReset)
	_, err = p.Dial(t.Context())
	require.ErrorIs(t, err, ErrProxyClosed)
	_, err = p.Listen()
	require.Error(t, err)
}
