package nodetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// patiently is how a Redlock is set up, as the machine may be busy.
func patiently(opts []redlock.Option) []redlock.Option {
	return append([]redlock.Option{redlock.WithNodeTimeout(10 * time.Second), redlock.WithConnectTimeout(10 * time.Second)}, opts...)
}

// Connect returns a Redlock on servers.
func Connect(addrs []string, opts ...redlock.Option) (*redlock.Redlock, error) {
	nodes := make([]redlock.Node, len(addrs))
	for i, addr := range addrs {
		nodes[i] = redlock.NewNode(addr)
	}
	return redlock.New(nodes, patiently(opts)...)
}

// Redlock returns one that ends with the test.
func Redlock(t *testing.T, addrs []string, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	r, err := Connect(addrs, opts...)
	return ends(t, r, err)
}

// Open returns a Redlock on nodes that ends with the test.
func Open(t *testing.T, nodes ...redlock.Node) *redlock.Redlock {
	t.Helper()
	r, err := redlock.New(nodes, patiently(nil)...)
	return ends(t, r, err)
}

func ends(t *testing.T, r *redlock.Redlock, err error) *redlock.Redlock {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close(context.WithoutCancel(t.Context()))) })
	return r
}

// Example returns a Redlock on three servers in memory, for an example.
func Example() (r *redlock.Redlock, end func()) {
	c, err := testcluster.StartEmbedded(3)
	if err != nil {
		panic(err)
	}
	if r, err = Connect(c.Addrs()); err != nil {
		panic(err)
	}
	return r, func() { _ = errors.Join(r.Close(context.Background()), c.Close()) }
}
