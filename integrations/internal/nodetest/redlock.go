package nodetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// patiently is how a Redlock is set up, as the machine may be busy.
func patiently(opts []redlock.Option) []redlock.Option {
	return append([]redlock.Option{redlock.WithNodeTimeout(10 * time.Second), redlock.WithConnectTimeout(10 * time.Second)}, opts...)
}

func nodesAt(addrs []string) (nodes []redlock.Node) {
	for _, addr := range addrs {
		nodes = append(nodes, redlock.NewNode(addr))
	}
	return nodes
}

// Connect returns a Redlock on servers.
func Connect(addrs []string, opts ...redlock.Option) (*redlock.Redlock, error) {
	return redlock.New(nodesAt(addrs), patiently(opts)...)
}

// Redlock returns one that ends with the test: its Close has to succeed.
func Redlock(t *testing.T, addrs []string, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	return closing(t, testkit.NewOver(t, nodesAt(addrs), patiently(opts)...))
}

// Open returns a Redlock on nodes that ends with the test, as Redlock does.
func Open(t *testing.T, nodes ...redlock.Node) *redlock.Redlock {
	t.Helper()
	return closing(t, testkit.NewOver(t, nodes, patiently(nil)...))
}

func closing(t *testing.T, r *redlock.Redlock) *redlock.Redlock {
	t.Helper()
	t.Cleanup(func() { assert.NoError(t, r.Close(context.Background())) })
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

// RequirePrinted requires that fmt prints a value so, whatever the verb, and that it is such a text in JSON.
func RequirePrinted(t *testing.T, want string, v any) {
	t.Helper()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
		require.Equal(t, want, fmt.Sprintf(verb, v), verb)
	}
	if text, err := json.Marshal(v); assert.NoError(t, err) {
		require.Equal(t, strconv.Quote(want), string(text))
	}
}
