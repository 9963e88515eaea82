package redlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// startLock starts a Lock and returns when it waits.
func startLock(t *testing.T, r *redlock.Redlock, ctx context.Context, resources []string, opts ...redlock.Option) *waitingLock { //nolint:revive // As in the calls that it tests.
	t.Helper()
	w := &waitingLock{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lock, w.err = r.Lock(ctx, resources, ttl, opts...)
		w.at = time.Now()
	}()
	synctest.Wait()
	time.Sleep(50 * time.Millisecond) // It listens, and has looked again.
	synctest.Wait()
	return w
}

type waitingLock struct {
	done chan struct{}
	lock *redlock.Lock
	err  error
	at   time.Time
}

// got waits for the lock.
func (w *waitingLock) got(t *testing.T) *redlock.Lock {
	t.Helper()
	<-w.done
	require.NoError(t, w.err)
	return w.lock
}

// do runs a command on a node.
func do(t *testing.T, n *testcluster.Node, command string, args ...any) any {
	t.Helper()
	conn, err := n.Conn(context.Background())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	reply, err := conn.Do(command, args...)
	require.NoError(t, err)
	return reply
}

// A secondPool fails at every connection but the first one.
type secondPool struct {
	redlock.Pool

	fail func() error

	mu sync.Mutex
	n  int
}

func (p *secondPool) GetContext(ctx context.Context) (redis.Conn, error) {
	p.mu.Lock()
	p.n++
	first := p.n == 1
	p.mu.Unlock()
	if !first {
		return nil, p.fail()
	}
	return p.Pool.GetContext(ctx)
}
