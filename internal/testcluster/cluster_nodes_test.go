package testcluster

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClusterHasItsNodesDoWhatItDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := RunBubble(t, 3)
		require.NoError(t, c.Set("k", "v", time.Minute))
		for _, n := range c.Nodes {
			requireKey(t, n, "v")
		}
		require.NoError(t, c.Del("k"))
		for _, n := range c.Nodes {
			requireNoKey(t, n, "k")
		}
		require.NoError(t, c.SetError("LOADING x"))
		for _, n := range c.Nodes {
			_, err := get(t, n.Pool()).Do("PING")
			require.EqualError(t, err, "LOADING x")
		}
		require.NoError(t, c.SetError(""))
		require.NoError(t, c.Slow(time.Second, time.Second))
		for _, n := range c.Nodes {
			start := time.Now()
			_, err := get(t, n.Pool()).Do("PING")
			require.NoError(t, err)
			require.GreaterOrEqual(t, time.Since(start), 2*time.Second)
		}
		require.NoError(t, c.Slow(0, 0))
		require.NoError(t, c.Hang())
		time.AfterFunc(time.Minute, func() { _ = c.Resume() })
		for _, n := range c.Nodes {
			conn, err := n.Pool().GetContext(t.Context())
			require.NoError(t, err)
			_, err = conn.Do("PING")
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
		require.NoError(t, c.FlushScripts())
		require.NoError(t, c.Set("k", "v", time.Minute))
		require.NoError(t, c.Stop())
		require.NoError(t, c.Restart(true))
		for _, n := range c.Nodes {
			requireKey(t, n, "v")
		}
		asked := 0
		require.ErrorIs(t, c.each(func(*Node) error { asked++; return net.ErrClosed }), net.ErrClosed)
		require.Equal(t, 1, asked, "the first error ends it")
	})
}
