package redlock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// However many releases are owed: a connection that takes them is not given up for it.
func TestManyReleasesAreOwed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		var locks []*Lock
		for i := range rounds(150, 15) {
			var res []string
			for j := range 200 {
				res = append(res, fmt.Sprint(i, "/", j))
			}
			l, err := r.TryLock(t.Context(), res, time.Hour)
			require.NoError(t, err)
			locks = append(locks, l)
		}
		synctest.Wait()
		require.NoError(t, c.Nodes[0].Slow(10*time.Millisecond, 10*time.Millisecond))
		require.NoError(t, c.Nodes[0].Stop())
		time.Sleep(3 * time.Second)
		for _, l := range locks {
			require.NoError(t, l.Unlock(t.Context()))
		}
		require.Equal(t, len(locks), r.Stats().Nodes[0].PendingReleases)
		require.NoError(t, c.Nodes[0].Restart(true))
		time.Sleep(10 * time.Second)
		s := r.Stats().Nodes[0]
		assert.True(t, s.Up, "%+v", s)
		assert.Equal(t, int64(len(locks)), s.Cleaned)
		requireNoKeys(t, c)
	})
}

// A gatedConn holds up every Flush while the gate is shut.
type gatedConn struct {
	redis.Conn

	gate func()
}

func (c gatedConn) Flush() error { c.gate(); return c.Conn.Flush() }

func (c gatedConn) DoWithTimeout(d time.Duration, cmd string, args ...any) (any, error) {
	return redis.DoWithTimeout(c.Conn, d, cmd, args...)
}

func (c gatedConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, d)
}

func (c gatedConn) DoContext(ctx context.Context, cmd string, args ...any) (any, error) {
	return redis.DoContext(c.Conn, ctx, cmd, args...)
}

func (c gatedConn) ReceiveContext(ctx context.Context) (any, error) {
	if err := ctx.Err(); err != nil { // As a wrapper that traces calls may do.
		return nil, err
	}
	return redis.ReceiveContext(c.Conn, ctx)
}

// The last PING of a connection that broke before it was sent must not go out on
// the next one, beside that one's own: each would wait for the other for ever.
func TestCloseSaysByeOnce(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		var pings atomic.Int64
		require.NoError(t, c.Nodes[0].OnCommand(func(cmd string, _ []string) {
			if cmd == "PING" {
				pings.Add(1)
			}
		}))
		var mu sync.Mutex
		var gate chan struct{}
		pass := func() {
			mu.Lock()
			g := gate
			mu.Unlock()
			if g != nil {
				<-g
			}
		}
		pool := testcluster.WrapPool(c.Nodes[0].Pool(), func(conn redis.Conn) redis.Conn { return gatedConn{conn, pass} })
		r, err := New([]Node{{Name: "n", Pool: pool}})
		require.NoError(t, err)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.NoError(t, c.Nodes[0].Slow(time.Millisecond, time.Millisecond))
		shut := make(chan struct{})
		mu.Lock()
		gate = shut
		mu.Unlock()
		go func() { _ = l.Unlock(context.Background()) }()
		synctest.Wait() // The writer hangs in Flush.
		start := time.Now()
		done := make(chan error)
		go func() { done <- r.Close(context.Background()) }()
		synctest.Wait() // The last PING is queued.
		c.Nodes[0].Proxy().Reset()
		mu.Lock()
		gate = nil
		mu.Unlock()
		close(shut)
		require.NoError(t, <-done)
		assert.Less(t, time.Since(start), DefaultNodeTimeout)
		assert.LessOrEqual(t, pings.Load(), int64(4))
		requireNoKeys(t, c)
	})
}

func TestCloseRightAfterABreakIsFast(t *testing.T) {
	for range rounds(100, 10) {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r, err := New(nodesOf(c))
			require.NoError(t, err)
			l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
			require.NoError(t, err)
			time.Sleep(2 * time.Second)
			for _, n := range c.Nodes {
				require.NoError(t, n.Slow(time.Millisecond, time.Millisecond))
			}
			go func() { _ = l.Unlock(context.Background()) }()
			for _, n := range c.Nodes {
				n.Proxy().Kill()
			}
			start := time.Now()
			require.NoError(t, r.Close(context.Background()))
			require.Less(t, time.Since(start), DefaultNodeTimeout)
		})
	}
}

func TestAWrappedConnectionIsAborted(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		pool := testcluster.WrapPool(c.Nodes[0].Pool(), func(conn redis.Conn) redis.Conn { return gatedConn{conn, func() {}} })
		r, err := New([]Node{{Name: "n", Pool: pool}})
		require.NoError(t, err)
		warm(t, r)
		c.Nodes[0].Proxy().BlackHole(true)
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, ErrNoQuorum)
		c.Nodes[0].Proxy().BlackHole(false)
		time.Sleep(3 * time.Second)
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		require.NoError(t, r.Close(t.Context()))
	})
}

// A getPool is a Pool around redigo's Get, which has no error of its own.
type getPool struct{ *redis.Pool }

func (p getPool) GetContext(context.Context) (redis.Conn, error) { return p.Get(), nil }

func TestThePoolsErrorConnectionIsTheVote(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Nodes[0].Stop())
		r, err := New([]Node{{Name: "a", Pool: getPool{c.Nodes[0].Pool()}}})
		require.NoError(t, err)
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "connection refused")
		require.NoError(t, r.Close(t.Context()))
	})
}

// A lock request whose release has overtaken it in the caller's mind, though not
// on the wire: it is dropped, and the round hears of it at once.
func TestALockRequestThatWasGivenUpIsNotSent(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		cl := newClaim([]string{"a"}, []any{"a"}, "", time.Minute, 1)
		rd := r.newRound(t.Context(), OpLock, cl, cl.lockCommand(), node.LockRequest, decideLock, 1)
		NodesIn(r)[0].Release(&cl.Token, 0)
		rd.ask(time.Now(), time.Second)
		<-rd.decided
		assert.Equal(t, node.ErrWithdrawn, rd.copyVotes()[0].Err)
		requireNoKeys(t, c)
	})
}
