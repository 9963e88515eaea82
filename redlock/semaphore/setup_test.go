package semaphore_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/test/testkit"
)

const ttl = testkit.TTL

// process is a semaphore in a process of its own.
func process(t *testing.T, c *testcluster.Cluster, k int, opts ...redlock.Option) *semaphore.Semaphore {
	t.Helper()
	return newSemaphore(t, testkit.NewRedlock(t, c), k, opts...)
}

func newSemaphore(t *testing.T, r *redlock.Redlock, k int, opts ...redlock.Option) *semaphore.Semaphore {
	t.Helper()
	s, err := semaphore.New(r, "jobs", k, ttl, opts...)
	require.NoError(t, err)
	return s
}

// acquire acquires a permit, which must be there.
func acquire(t *testing.T, s *semaphore.Semaphore) *semaphore.Permit {
	t.Helper()
	p, err := s.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.Err())
	return p
}

func acquireAll(t *testing.T, s *semaphore.Semaphore, n int) []*semaphore.Permit {
	t.Helper()
	var all []*semaphore.Permit
	for range n {
		all = append(all, acquire(t, s))
	}
	return all
}

func unlock(t *testing.T, permits ...*semaphore.Permit) {
	t.Helper()
	for _, p := range permits {
		require.NoError(t, p.Unlock(t.Context()))
	}
}

// A call is one of Acquire, on a goroutine of its own.
type call struct {
	done   chan struct{}
	permit *semaphore.Permit
	err    error
	at     time.Time // when it returned
}

func start(ctx context.Context, s *semaphore.Semaphore) *call {
	c := &call{done: make(chan struct{})}
	go func() {
		c.permit, c.err = s.Acquire(ctx)
		c.at = time.Now()
		close(c.done)
	}()
	return c
}

func (c *call) waits() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// got waits for the permit.
func (c *call) got(t *testing.T) *semaphore.Permit {
	t.Helper()
	<-c.done
	require.NoError(t, c.err)
	return c.permit
}

// requireNothingLeft checks that no node has a lock, once all that is on its way has arrived.
func requireNothingLeft(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	synctest.Wait()
	testkit.RequireNoKeys(t, c)
}

// taken returns the slots of which any node has a key.
func taken(t *testing.T, c *testcluster.Cluster) map[string]bool {
	t.Helper()
	synctest.Wait()
	slots := map[string]bool{}
	for _, n := range c.Nodes {
		for key := range testkit.Keys(t, n) {
			slots[key] = true
		}
	}
	return slots
}

// A gauge counts the permits that are held at the same time.
type gauge struct {
	mu   sync.Mutex
	held map[*semaphore.Permit]bool
	most int
	used time.Duration // by all of them together
}

// hold holds a permit for a while and releases it.
func (g *gauge) hold(t *testing.T, p *semaphore.Permit, d time.Duration) {
	t.Helper()
	g.mu.Lock()
	if g.held == nil {
		g.held = map[*semaphore.Permit]bool{}
	}
	now := 1
	for other := range g.held {
		assert.NotEqual(t, other.Slot, p.Slot, "held twice")
		if other.Err() == nil {
			now++
		}
	}
	g.most = max(g.most, now)
	g.held[p] = true
	g.used += d
	g.mu.Unlock()
	time.Sleep(d)
	g.mu.Lock()
	delete(g.held, p)
	g.mu.Unlock()
	assert.NoError(t, p.Unlock(t.Context()))
}
