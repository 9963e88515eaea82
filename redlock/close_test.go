package redlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func TestCloseEndsWaitsAndKeepsHeldLocks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithRetryCount(-1))
		l := tryLock(t, r, []string{"a"}, ttl)
		done := meanwhile(func() error { return lockError(r.Lock(context.Background(), []string{"a"}, ttl)) })
		time.Sleep(time.Second)
		start := time.Now()
		require.NoError(t, r.Close(t.Context()))
		assert.Zero(t, time.Since(start))
		err := <-done
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.ErrorIs(t, err, redlock.ErrTaken)
		assert.Equal(t, 3, holders(t, c, l), "a lock in use is not released")
		require.NoError(t, l.Err())
		err = givesUp(t, redlock.ErrClosed, r, []string{"b"})
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrNoQuorum)
		err = l.Unlock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, redlock.ErrClosed, "it says that it was Close")
		for _, v := range votesOf(t, err) {
			require.ErrorIs(t, v.Err, redlock.ErrClosed)
		}
		require.NoError(t, r.Close(t.Context()), "idempotent")
	})
}

// A release that is asked for when the last PINGs are on their way is still answered.
func TestCloseWaitsForAReleaseBehindItsLastPing(t *testing.T) {
	withWarm(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockOnAll(t, r, []string{"a"}, time.Hour)
		require.NoError(t, c.Slow(10*time.Millisecond, 10*time.Millisecond))
		closed := meanwhile(func() error { return r.Close(context.Background()) })
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, <-closed)
		requireNoKeys(t, c)
	})
}

// Nodes that hang, and their subscriptions, too, cost Close the node timeout once.
func TestCloseWaitsForWhatHangsOnlyOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		holder, r := newRedlock(t, c), newRedlock(t, c)
		tryLock(t, holder, []string{"a"}, ttl)
		ctx := within(t, time.Second)
		_, err := r.Lock(ctx, []string{"a"}, ttl)
		require.ErrorIs(t, err, redlock.ErrTaken)
		synctest.Wait()
		require.True(t, r.Stats().Nodes[0].Listens)
		require.NoError(t, c.Hang())
		refused(t, redlock.ErrNoQuorum, r, []string{"b"}, ttl)
		start := time.Now()
		require.NoError(t, r.Close(t.Context()))
		assert.LessOrEqual(t, time.Since(start), redlock.DefaultNodeTimeout)
	})
}

// The last PING of a connection that broke before it was sent must not go out on
// the next one, beside that one's own: each would wait for the other for ever.
func TestCloseSaysByeOnce(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		pings := countCommands(t, "PING", c.Nodes[0])
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
		pool := testcluster.WrapPool(c.Nodes[0].Pool(), func(conn redis.Conn) redis.Conn { return gatedConn{conn.(testcluster.FullConn), pass} })
		r := newOver(t, []redlock.Node{{Name: "n", Pool: pool}})
		l := tryLock(t, r, []string{"a"}, time.Minute)
		time.Sleep(2 * time.Second)
		require.NoError(t, c.Nodes[0].Slow(time.Millisecond, time.Millisecond))
		shut := make(chan struct{})
		mu.Lock()
		gate = shut
		mu.Unlock()
		go func() { _ = l.Unlock(context.Background()) }()
		synctest.Wait() // The writer hangs in Flush.
		start := time.Now()
		done := meanwhile(func() error { return r.Close(context.Background()) })
		synctest.Wait() // The last PING is queued.
		c.Nodes[0].Proxy().Reset()
		mu.Lock()
		gate = nil
		mu.Unlock()
		close(shut)
		require.NoError(t, <-done)
		assert.Less(t, time.Since(start), redlock.DefaultNodeTimeout)
		assert.LessOrEqual(t, pings.Load(), int64(4))
		requireNoKeys(t, c)
	})
}

// Close makes one round of repetitions within the node timeout, and waits for no more.
func TestCloseRepeatsOnce(t *testing.T) {
	for name, hang := range map[string]bool{"in time": false, "a node hangs": true} {
		runWithRedlock(t, name, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			breakLate(t, c, r, time.Hour, 11*time.Second)
			time.Sleep(12 * time.Second) // The next repetition comes after 20.46 s.
			require.NotEmpty(t, keys(t, c.Nodes[0]))
			if hang {
				require.NoError(t, c.Nodes[2].Hang())
			}
			start := time.Now()
			err := r.Close(t.Context())
			took := time.Since(start)
			for _, n := range c.Nodes[:2] {
				assert.Empty(t, keys(t, n))
			}
			require.NoError(t, err)
			if hang {
				assert.LessOrEqual(t, took, redlock.DefaultNodeTimeout)
				require.NoError(t, c.Nodes[2].Resume())
				return
			}
			assert.LessOrEqual(t, took, 3*trip)
			assert.Empty(t, keys(t, c.Nodes[2]))
		})
	}
}

// A node that is being connected to, and has to be told something, gets its round when it is up.
func TestCloseRepeatsOnceOnTheNextConnection(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := lockOnAll(t, r, []string{"b"}, time.Hour)
		breakLate(t, c, r, time.Hour, 11*time.Second)
		time.Sleep(12 * time.Second) // The next repetition comes after 20.46 s.
		requireLate(t, c)
		for _, n := range c.Nodes {
			n.Proxy().SetConnectDelay(10 * time.Millisecond)
			n.Proxy().Reset()
		}
		synctest.Wait()
		time.AfterFunc(time.Millisecond, func() { assert.NoError(t, r.Close(t.Context())) })
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(redlock.DefaultNodeTimeout)
		requireNoKeys(t, c)
	})
}
