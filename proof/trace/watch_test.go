package trace_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/trace"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A view is what was told of servers.
type view struct {
	*testcluster.Cluster
	stop func()

	mu    sync.Mutex
	steps []history.Event
	wrong []string
	story *trace.Story
}

// watch follows servers until the test ends, or stop is called.
func watch(t *testing.T, user string, opts ...testcluster.ServerOption) *view {
	t.Helper()
	if _, err := testcluster.ServerBinary(); err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	c, err := testcluster.StartServers(3, opts...)
	require.NoError(t, err)
	v := &view{Cluster: c}
	v.story = &trace.Story{Nodes: 3, Tell: func(_ int64, what string) { v.wrong = append(v.wrong, what) }}
	begin := time.Now()
	w := trace.Watcher{Now: func() int64 { return int64(time.Since(begin)) }, Step: func(e history.Event) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.steps = append(v.steps, e)
		v.story.Add(e)
	}}
	for _, n := range c.Nodes {
		w.Nodes = append(w.Nodes, "redis://"+user+n.DirectAddr())
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
		n := 0
		for _, e := range v.steps {
			if e.Op == op && strings.Contains(e.Detail, detail) {
				n++
			}
		}
		return n >= count
	}, 20*time.Second, 5*time.Millisecond, "%s %s: %v", op, detail, v.lines())
}

func (v *view) lines() (all []string) {
	for _, e := range v.steps {
		all = append(all, trace.Line(e))
	}
	return all
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
	v := watch(t, "")
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
		require.Contains(t, strings.Join(v.lines(), "\n"), op)
	}
	require.Equal(t, 1, v.story.Odd, "%v", v.lines())
	require.Zero(t, v.story.Orphans+v.story.Expired, "%v", v.wrong)
	for _, e := range v.steps {
		require.LessOrEqual(t, e.From, e.At)
		require.NotContains(t, trace.Line(e), lock.Token())
	}
}

// A server that restarts is seen again, and what it has is read.
func TestGapAtARestart(t *testing.T) {
	t.Parallel()
	v := watch(t, "", testcluster.WithAppendOnly())
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
	require.Zero(t, v.story.Odd, "%v", v.lines())
	runs := make(map[string]bool)
	for _, e := range v.steps {
		if e.Op == history.StepWatch {
			runs[e.Detail] = true
		}
	}
	require.Len(t, runs, 5)
}

func TestMonitorIsRefused(t *testing.T) {
	t.Parallel()
	v := watch(t, "guest:guest@")
	v.has(t, 3, history.StepGap, "")
	for i := range v.Nodes {
		v.do(t, i, "ACL", "SETUSER", "guest", "on", ">guest", "~*", "+@all", "-monitor")
	}
	v.has(t, 3, history.StepGap, "NOPERM")
}

// What other libraries leave behind is named: redsync's request that comes after its release, and a lock that nobody extends.
func TestOrphanOfAnotherLibrary(t *testing.T) {
	t.Parallel()
	v := watch(t, "", testcluster.WithProxy())
	v.has(t, 3, history.StepWatch, "")
	var addrs []string
	for _, n := range v.Nodes {
		addrs = append(addrs, n.ProxyAddr())
	}
	client, err := libraries.RedsyncOn("goredis").Open(libraries.Opening{Addrs: addrs, TTL: 2 * time.Second})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	worker := client.NewWorker()
	lock := func() {
		require.NoError(t, worker.Try(t.Context(), "a"))
		require.NoError(t, worker.Unlock(t.Context()))
	}
	lock()
	late := v.Nodes[0].Proxy()
	late.LateBytes(500*time.Millisecond, 500*time.Millisecond)
	for round := 1; ; round++ {
		late.SetDelays(5*time.Second, 5*time.Second, 0, 0)
		err := worker.Try(t.Context(), "a")
		late.SetDelay(0, 0)
		if err == nil {
			_ = worker.Unlock(t.Context())
		}
		time.Sleep(3 * time.Second) // Until the key has come and expired.
		v.mu.Lock()
		orphans := v.story.Orphans
		v.mu.Unlock()
		if orphans > 0 || round == 5 {
			break
		}
	}
	require.NoError(t, worker.Try(t.Context(), "b"))
	v.has(t, 2, history.StepExpire, "")
	require.Eventually(t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.story.Expired > 0
	}, 20*time.Second, 5*time.Millisecond)
	v.stop()
	require.Positive(t, v.story.Orphans, "%v", v.lines())
	require.True(t, slices.ContainsFunc(v.wrong, func(what string) bool {
		return strings.Contains(what, "key a of") && strings.Contains(what, "an orphan on node 0")
	}), "%v", v.wrong)
	require.True(t, slices.ContainsFunc(v.wrong, func(what string) bool {
		return strings.Contains(what, "key b of") && strings.Contains(what, "has expired")
	}), "%v", v.wrong)
	require.Zero(t, v.story.Odd, "%v", v.wrong)
}

// Who reads too slowly gives the connection up, and begins anew.
func TestTooManyLines(t *testing.T) {
	t.Parallel()
	v := watch(t, "")
	v.has(t, 3, history.StepWatch, "")
	v.mu.Lock() // Nothing goes on.
	v.do(t, 0, "SET", "a", "x", "NX", "PX", 60_000)
	conn, err := redis.Dial("tcp", v.Nodes[0].DirectAddr())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	for i := range 70_000 {
		require.NoError(t, conn.Send("ECHO", fmt.Sprint(i)))
	}
	_, err = conn.Do("")
	require.NoError(t, err)
	testkit.AwaitCalm(t)
	v.mu.Unlock()
	v.has(t, 1, history.StepGap, "too slowly")
	v.has(t, 4, history.StepWatch, "")
	var b bytes.Buffer
	_, _ = fmt.Fprintln(&b, v.story)
	require.Contains(t, b.String(), "0 changes that no rule explains")
}

// A node that is not seen may have what an attempt lacks, so nothing is said of it.
func TestStoryWithoutANode(t *testing.T) {
	for _, unseen := range []bool{false, true} {
		var wrong []string
		s := &trace.Story{Nodes: 3, Tell: func(_ int64, what string) { wrong = append(wrong, what) }}
		add := func(op string, node int) {
			s.Add(history.Event{Op: op, Node: &node, Resources: []string{"a\x1b[31m"}, Holder: "x"})
		}
		if unseen {
			add(history.StepGap, 1)
		}
		add(history.StepGrant, 0)
		add(history.StepExpire, 0)
		if require.Equal(t, unseen, len(wrong) == 0); !unseen {
			require.Contains(t, wrong[0], `a\x1b[31m`)
		}
		require.Zero(t, s.Locks)
	}
}
