package conn

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A countingConn counts the writes of a connection.
type countingConn struct {
	net.Conn

	writes *atomic.Int64
}

func (c countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

func TestSocketWritesABatchAtOnce(t *testing.T) {
	client, server := testcluster.Pipe()
	defer func() { _ = server.Close() }()
	var writes atomic.Int64
	s := newSocket(countingConn{client, &writes})
	w := newWire(&socketConn{fullConn: redis.NewConn(s, 0, 0).(fullConn), socket: s})
	var want strings.Builder
	for range 1000 {
		require.NoError(t, w.Send("ECHO", "0123456789"))
		want.WriteString("*2\r\n$4\r\nECHO\r\n$10\r\n0123456789\r\n")
	}
	require.NoError(t, w.Flush())
	assert.Equal(t, int64(1), writes.Load())
	got := make([]byte, want.Len())
	for n := 0; n < len(got); {
		m, err := server.Read(got[n:])
		require.NoError(t, err)
		n += m
	}
	require.Equal(t, want.String(), string(got))

	writes.Store(0) // More than is held back.
	for range 10000 {
		require.NoError(t, w.Send("ECHO", "0123456789"))
	}
	require.NoError(t, w.Flush())
	assert.InDelta(t, 10000*34/maxHeld, writes.Load(), 1)

	require.NoError(t, w.Send("ECHO", strings.Repeat("x", 512<<10)))
	require.NoError(t, w.Flush())
	assert.LessOrEqual(t, cap(w.link.(*socketLink).held), 2*maxHeld, "the space of a large command is not kept")
	w.Abort()
	require.Error(t, w.Err())
	w.GiveBack()
}
