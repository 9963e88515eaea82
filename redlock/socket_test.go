package redlock_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// redigo reads nested arrays recursively. Without a bound, the stack overflows,
// and that ends the process.
func TestPoolLosesOnlyTheConnectionWithAnEndlessReply(t *testing.T) {
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
		r, err := redlock.New([]redlock.Node{redlock.NewNode(ln.Addr().String())}, redlock.WithNodeTimeout(10*time.Second))
		require.NoError(t, err)
		_, err = r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "the server's reply is too long")
		require.NoError(t, r.Close(t.Context()))
		require.NoError(t, ln.Close())
	}
}

func TestPoolDialOptionsMayBringTheSocket(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var nodes []redlock.Node
		for _, n := range c.Nodes {
			nodes = append(nodes, redlock.NewNode("redis.invalid:1", redis.DialContextFunc(
				func(ctx context.Context, _, _ string) (net.Conn, error) { return n.Dial(ctx) })))
			nodes[len(nodes)-1].Name = n.Name()
		}
		r, err := redlock.New(nodes)
		require.NoError(t, err)
		cycle(t, r, "a", ttl)
		require.NoError(t, r.Close(t.Context()))
		requireNoKeys(t, c)
	})
}
