package trace_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/trace"
	"github.com/seed6c881748/redlock/redlock"
)

// A view is what was told of servers.
type view struct {
	*testcluster.Cluster
	stop func()

	mu    sync.Mutex
	steps []history.Event
}

// watch follows servers until the test ends, or stop is called.
func watch(t *testing.T, opts ...testcluster.ServerOption) *view {
	t.Helper()
	if _, err := testcluster.ServerBinary(); err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	c, err := testcluster.StartServers(3, opts...)
	require.NoError(t, err)
	v := &view{Cluster: c}
	begin := time.Now()
	w := trace.Watcher{Now: func() int64 { return int64(time.Since(begin)) }, Step: func(e history.Event) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.steps = append(v.steps, e)
	}}
	for _, n := range c.Nodes {
		w.Nodes = append(w.Nodes, n.DirectAddr())
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.Watch(ctx)
	}()
	v.stop = func() {
		cancel()
		<-over
	}
	t.Cleanup(func() {
		v.stop()
		require.NoError(t, c.Close())
	})
	return v
}

// has waits until so many steps of a kind were told.
func (v *view) has(t *testing.T, count int, op, detail string) {
	t.Helper()
	require.Eventually(t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.count(op, detail) >= count
	}, 20*time.Second, 5*time.Millisecond, "%s %s: %v", op, detail, v.steps)
}

// count is how many steps of a kind were told.
func (v *view) count(op, detail string) (n int) {
	for _, e := range v.steps {
		if e.Op == op && strings.Contains(e.Detail, detail) {
			n++
		}
	}
	return n
}

func (v *view) do(t *testing.T, node int, command string, args ...any) {
	t.Helper()
	conn, err := v.Nodes[node].Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.Do(command, args...)
	require.NoError(t, err)
}

func (v *view) lib(t *testing.T) *redlock.Redlock {
	t.Helper()
	var nodes []redlock.Node
	for _, n := range v.Nodes {
		nodes = append(nodes, redlock.NewNode(n.DirectAddr()))
	}
	lib, err := redlock.New(nodes, redlock.WithOwner("me"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lib.Close(context.Background())) })
	return lib
}

func TestStepsOfTheLibrary(t *testing.T) {
	t.Parallel()
	v := watch(t)
	v.has(t, 3, history.StepWatch, "")
	lib := v.lib(t)
	for range 2 { // The keys are not known before.
		lock, err := lib.Lock(t.Context(), []string{"a", "b"}, 10*time.Second, redlock.WithFencing())
		require.NoError(t, err)
		require.NoError(t, lock.Extend(t.Context(), 20*time.Second))
		require.NoError(t, lock.Unlock(t.Context()))
		v.has(t, 3, history.StepFound, "")
	}
	lock, err := lib.Lock(t.Context(), []string{"a"}, 10*time.Second)
	require.NoError(t, err)
	v.do(t, 1, "DEL", "a")
	v.has(t, 1, history.StepOdd, "does not name its token")
	v.do(t, 2, "CONFIG", "SET", "maxmemory", "1") // What nobody shows: keys that are evicted.
	v.do(t, 2, "CONFIG", "SET", "maxmemory", "0")
	require.NoError(t, lock.Unlock(t.Context()))
	v.stop()
	for _, op := range []string{history.StepGrant, history.StepExtend, history.StepRelease} {
		require.Positive(t, v.count(op, ""), op)
	}
	require.Equal(t, 1, v.count(history.StepOdd, ""), "%v", v.steps)
	for _, e := range v.steps {
		require.LessOrEqual(t, e.From, e.At)
		require.NotContains(t, fmt.Sprint(e), lock.Token())
	}
}

// A server that restarts is seen again, and what it has is read.
func TestGapAtARestart(t *testing.T) {
	t.Parallel()
	v := watch(t, testcluster.WithAppendOnly())
	v.has(t, 3, history.StepWatch, "")
	_, err := v.lib(t).Lock(t.Context(), []string{"a"}, time.Minute)
	require.NoError(t, err)
	v.has(t, 3, history.StepFound, "")
	require.NoError(t, v.Nodes[0].Restart(true))
	v.has(t, 1, history.StepGap, "")
	v.has(t, 4, history.StepWatch, "")
	v.has(t, 4, history.StepFound, "")
	require.NoError(t, v.Nodes[1].Restart(false))
	v.has(t, 5, history.StepFound, "")
	v.stop()
	require.Zero(t, v.count(history.StepOdd, ""), "%v", v.steps)
	runs := make(map[string]bool)
	for _, e := range v.steps {
		if e.Op == history.StepWatch {
			runs[e.Detail] = true
		}
	}
	require.Len(t, runs, 5)
}
