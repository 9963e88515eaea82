package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// What these nodes do with servers, the tests of the integrations try, by package nodetest.

// A provider that fails leaves no connection behind.
func TestAConnectionWithoutCredentialsIsClosed(t *testing.T) {
	n := testcluster.RunEmbedded(t, 1).Nodes[0]
	var dialled net.Conn
	s := Server{
		Dial:        func(ctx context.Context) (c net.Conn, err error) { dialled, err = n.Dial(ctx); return dialled, err },
		Credentials: func(context.Context, net.Addr) (string, string, error) { return "", "", errors.New("no token") },
	}
	_, err := s.connect(t.Context())
	require.ErrorContains(t, err, "no token")
	_, err = dialled.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
}

type lingering struct {
	net.Conn

	seconds int
}

func (c *lingering) SetLinger(seconds int) error { c.seconds = seconds; return nil }

// The kernel would deliver what a connection with TLS has left when the network is back, too.
func TestTheKernelForgetsUnderTLS(t *testing.T) {
	client, server := testcluster.Pipe()
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	below := &lingering{client, -1}
	s := Server{
		Dial: func(context.Context) (net.Conn, error) {
			return tls.Client(below, &tls.Config{MinVersion: tls.VersionTLS12}), nil
		},
		Credentials: func(context.Context, net.Addr) (string, string, error) { return "", "", nil },
	}
	w, err := conn.NewSource(s.Node().Pool).Borrow(t.Context())
	require.NoError(t, err)
	w.Forget()
	assert.Zero(t, below.seconds)
}
