package shared_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/shared"
	"github.com/seed6c881748/redlock/test/testkit"
)

const (
	ttl  = testkit.TTL
	turn = 10 * time.Millisecond // shared's

	patience = 5 * time.Minute // with what waits for nothing that comes
)

// process is a Mutex in a process of its own, which is connected.
func process(t *testing.T, c *testcluster.Cluster, opts ...redlock.Option) *shared.Mutex {
	t.Helper()
	return newMutex(t, testkit.NewWarm(t, c), opts...)
}

func newMutex(t *testing.T, r *redlock.Redlock, opts ...redlock.Option) *shared.Mutex {
	t.Helper()
	m, err := shared.New(r, "name", ttl, opts...)
	require.NoError(t, err)
	return m
}

// rlock gets a reader, which may have to wait.
func rlock(t *testing.T, m *shared.Mutex) *shared.Reader {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), patience)
	defer end()
	rd, err := m.RLock(ctx)
	require.NoError(t, err)
	require.NoError(t, rd.Err())
	return rd
}

// lock gets a writer, which may have to wait.
func lock(t *testing.T, m *shared.Mutex) *redlock.Lock {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), patience)
	defer end()
	w, err := m.Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, w.Err())
	return w
}

// unlock releases readers and writers.
func unlock(t *testing.T, all ...interface {
	Unlock(ctx context.Context) error
},
) {
	t.Helper()
	for _, held := range all {
		require.NoError(t, held.Unlock(t.Context()))
	}
}

// A call is one of Lock or RLock, on a goroutine of its own.
type call[H any] struct {
	done chan struct{}
	held H
	err  error
	at   time.Time // when it returned
}

func start[H any](ctx context.Context, do func(context.Context) (H, error)) *call[H] {
	c := &call[H]{done: make(chan struct{})}
	go func() {
		c.held, c.err = do(ctx)
		c.at = time.Now()
		close(c.done)
	}()
	return c
}

// waits reports whether the call has not returned when nothing happens any more but by time.
func (c *call[H]) waits() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// got waits for what the call gets.
func (c *call[H]) got(t *testing.T) H {
	t.Helper()
	select {
	case <-c.done:
		require.NoError(t, c.err)
	case <-time.After(patience):
		require.Fail(t, "it waits for ever")
	}
	return c.held
}

// slots returns on how many nodes each resource of the name has a key, once all that is on its way has arrived.
func slots(t *testing.T, c *testcluster.Cluster) map[string]int {
	t.Helper()
	synctest.Wait()
	found := map[string]int{}
	for _, n := range c.Nodes {
		for key := range testkit.Keys(t, n) {
			found[key]++
		}
	}
	return found
}

// requests counts the requests that all nodes get from now on.
func requests(t *testing.T, c *testcluster.Cluster) *atomic.Int64 {
	t.Helper()
	var n atomic.Int64
	for _, node := range c.Nodes {
		require.NoError(t, node.OnCommand(func(cmd string, _ []string) {
			if !strings.EqualFold(cmd, "PTTL") { // It goes with the SET of a lock.
				n.Add(1)
			}
		}))
	}
	return &n
}
