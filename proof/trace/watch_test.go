package trace_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

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

// What is left behind is named, as redsync's request that comes after its release. A node that is not seen may have what an
// attempt lacks, so nothing is said of it.
func TestWhatAStoryTells(t *testing.T) {
	type step struct {
		op   string
		node int
	}
	grant, expire := func(node int) step { return step{history.StepGrant, node} }, step{history.StepExpire, 0}
	for tells, tt := range map[string]struct {
		steps                  []step
		locks, expired, orphan int
	}{
		"an orphan on node 0: the attempt had no quorum":     {[]step{grant(0), expire}, 0, 0, 1},
		"an orphan on node 0: another node had deleted it":   {[]step{grant(0), grant(1), {history.StepRelease, 1}, expire}, 1, 0, 1},
		"a lock that a quorum had has expired":               {[]step{grant(0), grant(1), expire, {history.StepExpire, 1}}, 1, 1, 0},
		"nothing of an attempt while a node was not seen":    {[]step{{history.StepGap, 1}, grant(0), expire}, 0, 0, 0},
		"nothing of a min hold, which is left to its expiry": {[]step{grant(0), grant(1), {history.StepShorten, 0}, expire}, 1, 0, 0},
	} {
		t.Run(tells, func(t *testing.T) {
			var told []string
			s := &trace.Story{Nodes: 3, Tell: func(_ int64, what string) { told = append(told, what) }}
			for i, x := range tt.steps {
				s.Add(history.Event{
					At: 1 + int64(i)*int64(2*time.Second), Op: x.op, Node: &x.node, Resources: []string{"a\x1b[31m"}, Holder: "x",
				})
			}
			require.Equal(t, []int{tt.locks, tt.expired, tt.orphan}, []int{s.Locks, s.Expired, s.Orphans})
			if strings.HasPrefix(tells, "nothing") {
				require.Empty(t, told)
				return
			}
			require.Len(t, told, 1)
			require.Contains(t, told[0], `key a\x1b[31m of x: `+tells)
		})
	}
}
