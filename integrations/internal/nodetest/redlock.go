package nodetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// patient is how a Redlock is set up, as the machine may be busy.
var patient = []redlock.Option{redlock.WithNodeTimeout(10 * time.Second), redlock.WithConnectTimeout(10 * time.Second)}

func nodesAt(addrs []string) (nodes []redlock.Node) {
	for _, addr := range addrs {
		nodes = append(nodes, redlock.NewNode(addr))
	}
	return nodes
}

// Redlock returns one on servers that ends with the test: its Close has to succeed.
func Redlock(t *testing.T, addrs []string, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	return open(t, nodesAt(addrs), append(patient[:2:2], opts...)...)
}

// Open returns a Redlock on nodes that ends with the test, as Redlock does.
func Open(t *testing.T, nodes ...redlock.Node) *redlock.Redlock {
	t.Helper()
	return open(t, nodes, patient...)
}

func open(t *testing.T, nodes []redlock.Node, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	r := testkit.NewOver(t, nodes, opts...)
	t.Cleanup(func() { assert.NoError(t, r.Close(context.Background())) })
	return r
}

// Example returns a Redlock on three servers in memory, for an example.
func Example() (r *redlock.Redlock, end func()) {
	r, err := redlock.New(nodesAt(Addrs()), patient...)
	if err != nil {
		panic(err)
	}
	return r, func() { _ = r.Close(context.Background()) }
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
