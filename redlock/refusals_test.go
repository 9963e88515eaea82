package redlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A lock request that the server has refused has left nothing, so that there is
// nothing to release, to repeat, or to owe.
func TestARefusedLockLeavesNothingToDo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		for _, n := range c.Nodes {
			require.NoError(t, n.SetError("MISCONF x"))
		}
		for range 100 {
			_, err := r.TryLock(t.Context(), []string{"a"}, time.Hour)
			require.ErrorIs(t, err, ErrNoQuorum)
		}
		synctest.Wait()
		var commands atomic.Int64
		for i, n := range c.Nodes {
			require.NoError(t, n.OnCommand(func(string, []string) { commands.Add(1) }))
			assert.Zero(t, r.Stats().Nodes[i].Backlog)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Zero(t, commands.Load())
	})
}

// Behind another error, such as a proxy's, it may have been carried out.
func TestAnErrorOfUnknownOriginIsNoRefusal(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.Nodes[0].SetError("ERR upstream timeout"))
		_, err := r.TryLock(t.Context(), []string{"a"}, time.Hour)
		require.ErrorIs(t, err, ErrNoQuorum)
		synctest.Wait()
		assert.Equal(t, 1, r.Stats().Nodes[0].Backlog, "its release is to be repeated")
		require.NoError(t, c.Nodes[0].SetError(""))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, r.Stats().Nodes[0].Backlog)
	})
}

func TestTheEndOfALongTTLIsReckonedRight(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, 20*time.Hour)
		require.NoError(t, err)
		require.NoError(t, c.Nodes[0].SetError("MISCONF"))
		require.Error(t, l.Unlock(t.Context()))
		time.Sleep(21 * time.Hour)
		synctest.Wait()
		assert.Zero(t, r.Stats().Nodes[0].Backlog)
		require.NoError(t, c.Nodes[0].SetError(""))
		l, err = r.TryLock(t.Context(), []string{"b"}, math.MaxInt64/2)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A node that was away for longer than anything can have lasted owes nothing.
func TestPendingReleasesEndWithTheKeys(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, 5*time.Minute)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Nodes[0].Stop())
		time.Sleep(2 * time.Second)
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(4 * time.Minute)
		assert.Equal(t, 1, r.Stats().Nodes[0].PendingReleases)
		time.Sleep(2 * time.Minute)
		var cleaned atomic.Int64
		require.NoError(t, c.Nodes[0].OnCommand(func(cmd string, _ []string) {
			if cmd == "EVAL" {
				cleaned.Add(1)
			}
		}))
		require.NoError(t, c.Nodes[0].Restart(true))
		time.Sleep(5 * time.Second)
		assert.True(t, r.Stats().Nodes[0].Up)
		assert.Zero(t, r.Stats().Nodes[0].PendingReleases)
		assert.Zero(t, cleaned.Load())
	})
}

// A wrapErrors wraps the errors of a connection, in which errors.As finds them.
type wrapErrors struct{ testcluster.FullConn }

func (c wrapErrors) ReceiveWithTimeout(d time.Duration) (any, error) {
	reply, err := c.FullConn.ReceiveWithTimeout(d)
	if err != nil {
		err = fmt.Errorf("traced: %w", err)
	}
	return reply, err
}

func TestANoScriptInAWrappedErrorIsRecognised(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var nodes []Node
		for _, n := range c.Nodes {
			nodes = append(nodes, Node{Name: n.Name(), Pool: testcluster.WrapPool(n.Pool(), func(conn redis.Conn) redis.Conn { return wrapErrors{conn.(testcluster.FullConn)} })})
		}
		r, err := New(nodes)
		require.NoError(t, err)
		warm(t, r)
		for _, n := range c.Nodes {
			require.NoError(t, n.FlushScripts())
		}
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, r.Close(t.Context()))
	})
}

// The Pool of NewNode is exported, so somebody may wrap it.
func TestTheWrappedPoolOfNewNodeLasts(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r, err := New([]Node{{Name: "a", Pool: testcluster.WrapPool(dialerOf(c.Nodes[0]), func(conn redis.Conn) redis.Conn { return wrapErrors{conn.(testcluster.FullConn)} })}})
		require.NoError(t, err)
		warm(t, r)
		const longest = 1 << 20 // bytes, of one reply
		long := "ERR " + strings.Repeat("x", longest/64)
		require.NoError(t, c.Nodes[0].SetError(long))
		for range 2 * 64 { // Together twice that.
			_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.ErrorContains(t, err, long)
		}
		require.NoError(t, c.Nodes[0].SetError(""))
		assert.Equal(t, int64(1), r.Stats().Nodes[0].Connects)
		require.NoError(t, r.Close(t.Context()))
	})
}

func TestAHookMayEndItsGoroutine(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		var heard atomic.Int64
		r, err := New(nodesOf(c), WithHook(func(context.Context, Event) {
			heard.Add(1)
			runtime.Goexit()
		}))
		require.NoError(t, err)
		warm(t, r)
		require.NoError(t, r.Close(t.Context()))
		assert.Equal(t, int64(7), heard.Load())
	})
}

func TestTheEventOfAShortExtensionHasTheEndOfTheLock(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, WithHook(rec.hook))
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		synctest.Wait()
		rec.take()
		require.NoError(t, l.Extend(t.Context(), time.Second))
		synctest.Wait()
		for _, e := range rec.take() {
			assert.Equal(t, l.Until(), e.Until, e.Kind)
		}
	})
}

// A lostPool has a nil pointer for every call.
type lostPool struct{}

func (*lostPool) GetContext(context.Context) (redis.Conn, error) { return nil, errors.New("x") }

func TestANilPointerIsNoPool(t *testing.T) {
	_, err := New([]Node{{"a", (*lostPool)(nil)}})
	require.ErrorContains(t, err, "nil Pool")
	_, err = New([]Node{{"a", &lostPool{}}})
	require.NoError(t, err)
}

func TestUnlockTakesNoContextForGranted(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, WithHook(rec.hook))
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		var none context.Context
		require.NoError(t, l.Unlock(none))
	})
}

func TestAHostWithAnAtIsNone(t *testing.T) {
	for _, addr := range []string{"s3cret@redis.invalid:6379", "u:s3cret@redis.invalid:6379", "redis://h%40s3cret:1"} {
		_, err := New([]Node{NewNode(addr)})
		require.ErrorContains(t, err, "malformed address", addr)
		require.NotContains(t, err.Error(), "s3cret")
	}
}
