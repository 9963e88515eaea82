package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// TestLibraries has two clients of each library, as two processes would have them, want
// the same key: one that is set up wrongly would be fast and exclude nobody.
func TestLibraries(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		cluster := testcluster.RunServers(t, nodes)
		for _, l := range applicable(append(slices.Clone(compared), libraries.Fenced), nodes) {
			t.Run(l.Name, func(t *testing.T) {
				o := on(cluster.Addrs(), 8*time.Second, 2)
				testExclusion(t, openTest(t, l, o), openTest(t, l, o), l.Name)
			})
		}
	}
}

func openTest(t *testing.T, l library, o opening) client {
	t.Helper()
	c, err := l.Open(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// lockFree locks a key that was released. With fail-fast the release of the nodes that were not
// waited for may still be on its way, and the first attempts be refused there.
func lockFree(t *testing.T, w worker, key string) {
	t.Helper()
	var err error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if err = w.Try(context.Background(), key); err == nil {
			return
		}
	}
	t.Fatalf("a free key: %v", err)
}

// testExclusion has two workers lock in turn.
func testExclusion(t *testing.T, one, two client, key string) {
	t.Helper()
	ctx := context.Background()
	a, b := one.NewWorker(), two.NewWorker()
	for range 3 {
		lockFree(t, a, key)
		require.Error(t, b.Try(ctx, key), "two have locked the same key")
		// redsync with fail-fast cancels what a majority no longer needs, and now and then says so instead of nil.
		cancels := strings.HasSuffix(key, "-failfast")
		if err := a.Unlock(ctx); err != nil && (!cancels || !strings.Contains(err.Error(), context.Canceled.Error())) {
			t.Fatalf("unlock: %v", err)
		}
		a, b = b, a
	}
}
