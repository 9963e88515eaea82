package redlock

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// redigo reads nested arrays recursively. Without a bound, the stack overflows,
// and that ends the process.
func TestAnEndlessReplyCostsTheConnectionOnly(t *testing.T) {
	for _, chunk := range []string{strings.Repeat("*1\r\n", 1<<12), strings.Repeat("+x", 1<<13), "$100000000\r\n" + strings.Repeat("x", 1<<14)} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() {
			for {
				conn, ended := ln.Accept()
				if ended != nil {
					return
				}
				go func() {
					for ended == nil {
						_, ended = conn.Write([]byte(chunk))
					}
					_ = conn.Close()
				}()
			}
		}()
		r, err := New([]Node{NewNode(ln.Addr().String())}, WithNodeTimeout(10*time.Second))
		require.NoError(t, err)
		_, err = r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, errLongReply.Error())
		require.NoError(t, r.Close(t.Context()))
		require.NoError(t, ln.Close())
	}
}

// A countingConn counts the writes of a connection.
type countingConn struct {
	net.Conn

	writes *atomic.Int64
}

func (c countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

func TestASocketWritesABatchAtOnce(t *testing.T) {
	client, server := testcluster.Pipe()
	defer func() { _ = server.Close() }()
	var writes atomic.Int64
	s := &socket{Conn: countingConn{client, &writes}}
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
	w.abort()
	require.Error(t, w.Err())
	w.giveBack()
}

func TestDialOptionsMayBringTheSocket(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var nodes []Node
		for _, n := range c.Nodes {
			nodes = append(nodes, NewNode("redis.invalid:1", redis.DialContextFunc(
				func(ctx context.Context, _, _ string) (net.Conn, error) { return n.Dial(ctx) })))
			nodes[len(nodes)-1].Name = n.Name()
		}
		r, err := New(nodes)
		require.NoError(t, err)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, r.Close(t.Context()))
		requireNoKeys(t, c)
	})
}
