package redsync

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

// A testPool is of one node.
type testPool struct {
	client  any
	node    redlock.Node
	warning string
	err     error
}

func (p *testPool) Get(context.Context) (redis.Conn, error) { return nil, errors.New("it is not used") }
func (p *testPool) Client() any                             { return p.client }
func (p *testPool) Node() (redlock.Node, string, error)     { return p.node, p.warning, p.err }

// pools are new ones of the same clients each time.
func pools(c *redlocktest.Cluster) (all []redis.Pool) {
	for i, n := range c.Nodes() {
		all = append(all, &testPool{client: fmt.Sprintf("%p %d", c, i), node: n})
	}
	return all
}

// inPools runs a test with pools. What New has made is closed when it has returned for a while.
func inPools(t *testing.T, f func(t *testing.T, c *redlocktest.Cluster)) {
	t.Helper()
	t.Parallel()
	inPoolsAlone(t, f)
}

// inPoolsAlone is for a test that closes what others may have.
func inPoolsAlone(t *testing.T, f func(t *testing.T, c *redlocktest.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.New(t, nodes)
		f(t, c)
		time.Sleep(3 * time.Hour) // Releases may be repeated for as long as the longest ttl.
		synctest.Wait()
		assert.Empty(t, redlocks(c))
	})
}

// redlocks are the Redlocks of New on the nodes of c.
func redlocks(c *redlocktest.Cluster) (all []*redlock.Redlock) {
	open.mu.Lock()
	defer open.mu.Unlock()
	for _, s := range open.all {
		if id, ok := s.clients[0].(string); ok && strings.HasPrefix(id, fmt.Sprintf("%p ", c)) {
			all = append(all, s.r)
		}
	}
	return all
}

// New for each lock costs nothing: all have one Redlock, which is closed when nobody needs it, and made again.
func TestNewForEachLock(t *testing.T) {
	inPools(t, func(t *testing.T, c *redlocktest.Cluster) {
		withLock := func(name string) {
			m := New(pools(c)...).NewMutex(name)
			if assert.NoError(t, m.Lock()) {
				assert.NoError(t, success(m.Unlock()))
			}
		}
		assert.Empty(t, redlocks(c))
		withLock("x")
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for range 100 {
					withLock(fmt.Sprint(i % 4))
				}
			})
		}
		all.Wait()
		synctest.Wait()
		require.Len(t, redlocks(c), 1)
		first := redlocks(c)[0]
		for _, n := range first.Stats().Nodes {
			assert.Equal(t, int64(1), n.Connects)
		}

		for range 20 { // As long as it is used, it stays.
			withLock("x")
			time.Sleep(9 * time.Second)
		}
		assert.Equal(t, []*redlock.Redlock{first}, redlocks(c))
		time.Sleep(20 * time.Second)
		synctest.Wait()
		assert.Empty(t, redlocks(c))
		_, err := first.TryLock(t.Context(), []string{"x"}, time.Second)
		require.ErrorIs(t, err, redlock.ErrClosed)

		withLock("x")
		require.Len(t, redlocks(c), 1)
	})
}

// A program that makes a client for each call has the connections of a few. What is held, or has more to do, is not closed.
func TestAClientForEachCall(t *testing.T) { //nolint:paralleltest // It closes what others have.
	inPoolsAlone(t, func(t *testing.T, c *redlocktest.Cluster) {
		call := func(i int) *Mutex {
			all := pools(c)
			for _, p := range all {
				p.(*testPool).client = fmt.Sprint(p.(*testPool).client, i)
			}
			m := New(all...).NewMutex(fmt.Sprint(i), WithExpiry(time.Hour))
			require.NoError(t, m.Lock())
			return m
		}
		held := call(-1)
		for i := range 3 * most {
			m := call(i)
			require.NoError(t, success(m.Unlock()))
			synctest.Wait()
			require.LessOrEqual(t, len(redlocks(c)), most)
		}
		require.Len(t, redlocks(c), most)
		require.NoError(t, success(held.Extend()))

		busy := []*Mutex{held}
		for i := range 2 * most {
			busy = append(busy, call(10_000+i))
		}
		for _, m := range busy {
			require.NoError(t, success(m.Unlock()))
		}
		c.AssertFree()
	})
}

// As long as a lock is held, it can be extended and unlocked, however long nobody calls.
func TestARedlockIsOpenAsLongAsALockIsHeld(t *testing.T) {
	inPools(t, func(t *testing.T, c *redlocktest.Cluster) {
		rs := New(pools(c)...)
		m, long := rs.NewMutex("x", WithExpiry(time.Minute)), rs.NewMutex("long", WithExpiry(time.Hour))
		require.NoError(t, m.Lock())
		require.NoError(t, long.Lock())
		time.Sleep(50 * time.Second)
		require.NoError(t, success(m.Extend()))
		require.NoError(t, success(New(pools(c)...).NewMutex("x", WithExpiry(2*time.Minute), WithValue(m.Value())).Extend()))
		assert.Greater(t, time.Until(m.held.lock.Until()), 100*time.Second)
		require.NoError(t, success(m.Unlock()))
		time.Sleep(30 * time.Minute)
		require.NoError(t, success(long.Unlock()))
		c.AssertFree()
	})
}

// A node that is away is told of a release when it is back, so the Redlock is open until then.
func TestARedlockIsOpenAsLongAsAReleaseIsOwed(t *testing.T) {
	inPools(t, func(t *testing.T, c *redlocktest.Cluster) {
		m := New(pools(c)...).NewMutex("x", WithExpiry(time.Hour))
		require.NoError(t, m.Lock())
		c.StopMajority()
		require.ErrorAs(t, refusal(m.Unlock()), new(*RedisError))
		m = nil
		time.Sleep(10 * time.Minute)
		require.Len(t, redlocks(c), 1)
		c.Recover()
		time.Sleep(time.Minute)
		c.AssertFree()
	})
}

// A node that is away for good is owed nothing in the end.
func TestARedlockIsClosedThoughANodeStaysAway(t *testing.T) {
	inPools(t, func(t *testing.T, c *redlocktest.Cluster) {
		m := New(pools(c)...).NewMutex("x", WithExpiry(5*time.Second))
		require.NoError(t, m.Lock())
		c.StopMajority()
		require.ErrorAs(t, refusal(m.Unlock()), new(*RedisError))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.Empty(t, redlocks(c))
		c.Recover()
	})
}

// CloseIdle leaves nothing but what is needed.
func TestCloseIdle(t *testing.T) { //nolint:paralleltest // It closes what others have.
	inPoolsAlone(t, func(t *testing.T, c *redlocktest.Cluster) {
		rs := New(pools(c)...)
		m := rs.NewMutex("x")
		require.NoError(t, m.Lock())
		CloseIdle()
		require.NoError(t, success(m.Unlock()))
		synctest.Wait()
		CloseIdle()
		require.Empty(t, redlocks(c))
		require.NoError(t, m.Lock(), "made again")
		require.NoError(t, success(m.Unlock()))
	})
}

// Of calls that come as it is closed, each finds one that is open.
func TestCallsWhileARedlockIsClosed(t *testing.T) {
	inPools(t, func(t *testing.T, c *redlocktest.Cluster) {
		rs := New(pools(c)...)
		for round := range 30 {
			for i := range 10 {
				time.AfterFunc(time.Duration(i)*time.Microsecond, func() {
					m := rs.NewMutex(fmt.Sprint(i))
					if assert.NoError(t, m.Lock()) {
						assert.NoError(t, success(m.Unlock()))
					}
				})
			}
			time.Sleep(idle*time.Duration(1+round%2) - time.Duration(round%12)*time.Microsecond)
		}
	})
}

// Pools that cannot be used have each call fail, with an error that says what to do, and nothing else.
func TestPoolsThatCannotBeUsed(t *testing.T) {
	inPools(t, func(t *testing.T, c *redlocktest.Cluster) {
		for says, all := range map[string][]redis.Pool{
			"there is no pool":                nil,
			"pool 0 is a <nil>":               {nil},
			"pool 1: it is a cluster":         append(pools(c)[:1], &testPool{err: errors.New("it is a cluster")}),
			"both named":                      append(pools(c), pools(c)[0]),
			"give it the methods of redis.No": {struct{ redis.Pool }{}},
		} {
			m := New(all...).NewMutex("x", WithValue("0123456789abcdef0123456789abcdef"))
			for _, err := range []error{m.Lock(), m.TryLock(), refusal(m.Unlock()), refusal(m.Extend()), refusal(m.Valid())} {
				require.ErrorContains(t, err, "redsync: the pools of New cannot be used: ")
				require.ErrorContains(t, err, says)
				requireNoVerdict(t, err)
			}
		}
	})
}
