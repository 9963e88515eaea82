package testcluster

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo is an in-memory upstream that answers every chunk with itself and
// remembers what it received.
type echo struct {
	mu    sync.Mutex
	got   string
	dials int
}

func (e *echo) dial(context.Context) (net.Conn, error) {
	client, server := newPipe()
	e.mu.Lock()
	e.dials++
	e.mu.Unlock()
	go func() {
		defer func() { _ = server.Close() }()
		buf := make([]byte, 64)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			e.mu.Lock()
			e.got += string(buf[:n])
			e.mu.Unlock()
			_, _ = server.Write(buf[:n])
		}
	}()
	return client, nil
}

func (e *echo) received() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got
}

// startEcho returns a proxy in front of an echo server.
func startEcho(t *testing.T) (*Proxy, *echo) {
	t.Helper()
	e := &echo{}
	p := NewProxy(e.dial)
	t.Cleanup(p.Close)
	return p, e
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := p.Dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func send(t *testing.T, conn net.Conn, msg string) {
	t.Helper()
	_, err := conn.Write([]byte(msg))
	require.NoError(t, err)
}

func expect(t *testing.T, conn net.Conn, msg string) {
	t.Helper()
	buf := make([]byte, len(msg))
	_, err := io.ReadFull(conn, buf)
	require.NoError(t, err)
	require.Equal(t, msg, string(buf))
}

// expectSilence checks that nothing, not even an error, comes for a while.
func expectSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, conn.SetReadDeadline(time.Time{}))
}
