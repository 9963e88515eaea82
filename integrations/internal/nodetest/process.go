package nodetest

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/seed6c881748/redlock/integrations/internal/child"
	"github.com/seed6c881748/redlock/redlock"
)

// holderEnv has the addresses of the servers, for a process that is to hold a lock on them.
const holderEnv = "NODETEST_HOLD"

// Main runs the tests of a package, in whose TestMain it belongs. Started by [Run], it is the second
// process: it holds a lock until its input ends.
func Main(m *testing.M, node NodeFunc) {
	addrs := os.Getenv(holderEnv)
	if addrs == "" {
		os.Exit(m.Run())
	}
	if err := hold(strings.Split(addrs, ","), node); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func hold(addrs []string, node NodeFunc) error {
	ctx := context.Background()
	var nodes []redlock.Node
	for _, addr := range addrs {
		nodes = append(nodes, node(Server{Network: "tcp", Address: addr}))
	}
	r, err := redlock.New(nodes)
	if err != nil {
		return err
	}
	lock, err := r.Lock(ctx, []string{"x"}, ttl, redlock.WithRetryCount(-1))
	if err != nil {
		return err
	}
	fmt.Println("locked")
	if _, err = io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	if err = lock.Unlock(ctx); err != nil {
		return err
	}
	return r.Close(ctx)
}

// startHolder returns when the process has the lock.
func startHolder(t *testing.T, addrs string) *child.Process {
	t.Helper()
	p := child.Start(t, holderEnv, addrs)
	p.Says("locked", "")
	return p
}
