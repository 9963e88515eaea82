package testcluster

import (
	"crypto/tls"
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

func TestProxyOverTLS(t *testing.T) {
	requireNoLeaks(t)
	e := &echo{}
	p := NewProxy(e.dial)
	defer p.Close()
	certificate, err := NewCertificate()
	require.NoError(t, err)
	addr, err := p.ListenTLS(certificate.Server())
	require.NoError(t, err)

	conn, err := tls.Dial("tcp", addr, certificate.Client())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	send(t, conn, "a")
	expect(t, conn, "a")
	p.Reset()
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, errConnReset)

	other, err := NewCertificate("other.example")
	require.NoError(t, err)
	_, err = tls.Dial("tcp", addr, other.Client())
	require.ErrorContains(t, err, "x509")
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
