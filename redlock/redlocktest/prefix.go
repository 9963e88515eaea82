package redlocktest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// probe is a resource that nobody locks.
const probe = "redlocktest-probe"

// prefixOf returns what opts have put in front of every key. An Option cannot be
// read; so a Redlock with opts, on a node of its own, is asked about a resource,
// and the key that arrives at the node tells. The user's hook and node timeout
// have no part in that.
func prefixOf(opts []redlock.Option) (string, error) {
	if len(opts) == 0 {
		return "", nil
	}
	cluster, err := testcluster.NewBubble(1)
	if err != nil {
		return "", err
	}
	defer func() { _ = cluster.Close() }()
	node := cluster.Nodes[0]
	var (
		mu     sync.Mutex
		prefix string
		found  bool
	)
	err = node.OnCommand(func(_ string, args []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, arg := range args {
			if p, ok := strings.CutSuffix(arg, probe); ok {
				prefix, found = p, true
			}
		}
	})
	if err != nil {
		return "", err
	}
	quiet := []redlock.Option{
		redlock.WithHook(func(context.Context, redlock.Event) {}),
		redlock.WithNodeTimeout(time.Minute),
	}
	r, err := redlock.New([]redlock.Node{{Name: node.Name(), Pool: node.Pool()}}, slices.Concat(opts, quiet)...)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close(context.Background()) }()
	if _, err = r.Inspect(context.Background(), probe); err != nil {
		return "", err
	}
	mu.Lock()
	defer mu.Unlock()
	if !found {
		return "", errors.New("cannot find out the prefix of the keys")
	}
	return prefix, nil
}
