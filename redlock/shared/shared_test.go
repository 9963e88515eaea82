package shared_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
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

// What is held is a reader's or a writer's.
type held interface {
	Until() time.Time
	Err() error
	Unlock(ctx context.Context) error
}

func unlock(t *testing.T, all ...held) {
	t.Helper()
	for _, lock := range all {
		require.NoError(t, lock.Unlock(t.Context()))
	}
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

// all returns the errors of all calls, none of which may get what it wants.
func all(ctx context.Context, m *shared.Mutex) []error {
	_, lock := m.Lock(ctx)
	_, tryLock := m.TryLock(ctx)
	_, rlock := m.RLock(ctx)
	_, tryRLock := m.TryRLock(ctx)
	do := m.Do(ctx, func(context.Context, *redlock.Lock) error { panic("called") })
	rdo := m.RDo(ctx, func(context.Context, *shared.Reader) error { panic("called") })
	return []error{lock, tryLock, rlock, tryRLock, do, rdo}
}

// What no lock could have is an error of New, which names it, and no node is asked.
func TestNewRefuses(t *testing.T) {
	r := testkit.NewOver(t, testkit.ForbiddenNodes(t, 3))
	for _, c := range []struct {
		r    *redlock.Redlock
		name string
		ttl  time.Duration
		want string
	}{
		{r, "", ttl, "shared: empty name"},
		{r, "name", time.Millisecond, `shared "name": redlock: ttl 1ms: nothing is left of it after the drift allowance of 2.01ms`},
		{r, "a__redlock__:b", ttl, `shared "a__redlock__:b": redlock: resource "a__redlock__:b#r#0": keys with "__redlock__:" are reserved`},
		{nil, "name", ttl, `shared "name": redlock: nil *Redlock`},
		{new(redlock.Redlock), "name", ttl, `shared "name": redlock: this Redlock is a zero value`},
	} {
		m, err := shared.New(c.r, c.name, c.ttl)
		require.Error(t, err, c.want)
		assert.Nil(t, m)
		assert.True(t, strings.HasPrefix(err.Error(), c.want), "%.200v, want %s", err, c.want)
	}
}

// A call that cannot begin is an error like that of a lock, and no panic.
func TestCallsOnNothing(t *testing.T) {
	made, err := shared.New(testkit.NewOver(t, testkit.ForbiddenNodes(t, 1)), "name", ttl)
	require.NoError(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		m    *shared.Mutex
		ctx  context.Context //nolint:containedctx // It is an argument.
		want string
	}{
		{nil, t.Context(), `redlock: not acquired: shared: make it with New`},
		{new(shared.Mutex), t.Context(), `redlock: not acquired: shared: make it with New`},
		{made, nil, `redlock: not acquired: shared "name": nil context`},
		{made, ended, `redlock: not acquired: shared "name": context canceled`},
	} {
		for _, err := range all(c.ctx, c.m) {
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, redlock.ErrNotAcquired)
		}
	}
	require.EqualError(t, made.Do(t.Context(), nil), `redlock: not acquired: shared "name": nil function`)
	require.EqualError(t, made.RDo(t.Context(), nil), `redlock: not acquired: shared "name": nil function`)
}

// Readers of all processes read at a time, those of one by one lock; and a writer is alone.
func TestManyReadersOrOneWriter(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := process(t, c), process(t, c)
		a1, a2, b1 := rlock(t, a), rlock(t, a), rlock(t, b)
		assert.Len(t, slots(t, c), 2, "a permit for each process")
		assert.Equal(t, `shared "name"`, fmt.Sprint(a))
		for _, m := range []*shared.Mutex{a, b} {
			_, err := m.TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrTaken)
		}
		unlock(t, a1)
		assert.Len(t, slots(t, c), 2)
		require.ErrorIs(t, a1.Err(), redlock.ErrLost)
		require.NoError(t, a2.Err())
		unlock(t, a1, a2, b1, b1)
		require.Empty(t, slots(t, c))

		w := lock(t, a)
		assert.Len(t, slots(t, c), shared.MaxReaders, "all slots, and the turnstile is free")
		for _, m := range []*shared.Mutex{a, b} {
			_, err := m.TryRLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.ErrorIs(t, err, redlock.ErrNotAcquired)
			_, err = m.TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrTaken)
		}
		unlock(t, w)
		require.Empty(t, slots(t, c))
		w, err := b.TryLock(t.Context())
		require.NoError(t, err)
		unlock(t, w)
	})
}

// What calls cost, in requests to a node and in round trips of 2 ms.
func TestWhatCallsCost(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		m := process(t, c)
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		n := requests(t, c)
		cost := func(what string, requests int64, trips int, do func()) {
			t.Helper()
			slots(t, c)
			before, began := n.Load(), time.Now()
			do()
			assert.Equal(t, time.Duration(trips)*2*time.Millisecond, time.Since(began), what)
			slots(t, c)
			time.Sleep(time.Second / 2) // All has been answered, the last look is long ago, and no extension is due.
			assert.Equal(t, requests*3, n.Load()-before, what)
		}
		var rd, second, third *shared.Reader
		cost("a reader alone", 2, 2, func() { rd = rlock(t, m) })
		cost("one that joins after a look", 1, 1, func() { second = rlock(t, m); third = rlock(t, m) })
		cost("not the last to go", 0, 0, func() { unlock(t, second, third) })
		cost("the last to go", 1, 1, func() { unlock(t, rd) })
		var w *redlock.Lock
		cost("a writer", 3, 2, func() { w = lock(t, m) })
		cost("a writer that goes", 1, 1, func() { unlock(t, w) })
		cost("a try", 1, 1, func() { w, _ = m.TryLock(t.Context()) })
		unlock(t, w)
		time.Sleep(time.Second)
		cost("a try to read", 2, 2, func() { rd, _ = m.TryRLock(t.Context()) })
		unlock(t, rd)
	})
}

// Whoever has the name in the context of a call would wait for itself.
func TestNoUpgradeAndNoReentrancy(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		m := process(t, c)
		refused := func(ctx context.Context) {
			t.Helper()
			for _, err := range all(ctx, m) {
				require.ErrorIs(t, err, redlock.ErrAlreadyHeld)
				require.ErrorIs(t, err, redlock.ErrNotAcquired)
			}
		}
		require.NoError(t, m.RDo(t.Context(), func(ctx context.Context, _ *shared.Reader) error { refused(ctx); return nil }))
		require.NoError(t, m.Do(t.Context(), func(ctx context.Context, _ *redlock.Lock) error { refused(ctx); return nil }))
		rd := rlock(t, m)
		other := rlock(t, m)
		within := rd.Context(t.Context())
		refused(within)
		unlock(t, rd)
		again, err := m.RLock(context.WithoutCancel(within))
		require.NoError(t, err, "that reader is no more, though the permit is")
		unlock(t, again, other)
		w := lock(t, m)
		within = w.KeepAlive(t.Context())
		refused(within)
		unlock(t, w)
		unlock(t, lock(t, m))

		elsewhere, err := shared.New(testkit.NewRedlock(t, c), "another", ttl)
		require.NoError(t, err)
		require.NoError(t, m.RDo(t.Context(), func(ctx context.Context, _ *shared.Reader) error {
			return elsewhere.Do(ctx, func(context.Context, *redlock.Lock) error { return nil })
		}), "another name is no upgrade")
	})
}

// Do and RDo return what their function does, and say how the lock has ended.
func TestDo(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		m := process(t, c)
		oops := fmt.Errorf("oops: %w", redlock.ErrNotAcquired) // Of another lock.
		for _, err := range []error{
			m.RDo(t.Context(), func(context.Context, *shared.Reader) error { return oops }),
			m.Do(t.Context(), func(context.Context, *redlock.Lock) error { return oops }),
		} {
			require.ErrorContains(t, err, "oops")
			require.NotErrorIs(t, err, redlock.ErrNotAcquired)
		}
		assert.Panics(t, func() { _ = m.RDo(t.Context(), func(context.Context, *shared.Reader) error { panic("!") }) })
		require.Empty(t, slots(t, c))

		require.ErrorIs(t, m.RDo(t.Context(), func(ctx context.Context, rd *shared.Reader) error {
			for _, n := range c.Nodes {
				require.NoError(t, n.Flush())
			}
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
			require.ErrorIs(t, rd.Err(), redlock.ErrLost)
			return nil
		}), redlock.ErrLost)

		require.NoError(t, m.RDo(t.Context(), func(ctx context.Context, rd *shared.Reader) error {
			require.NoError(t, rd.Unlock(ctx))
			require.ErrorIs(t, context.Cause(ctx), context.Canceled)
			assert.Equal(t, `shared "name": reader, error: redlock: lock lost`, fmt.Sprint(rd))
			assert.Panics(t, func() { rd.Context(nil) }) //nolint:staticcheck // That is what is tested.
			return nil
		}), "it may unlock by itself")
	})
}

// Fences of writers grow, and those of readers are between those of the writers before and after.
func TestFences(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := process(t, c, redlock.WithFencing()), process(t, c, redlock.WithFencing())
		var last int64
		for range 20 {
			w := lock(t, a)
			assert.Greater(t, w.Fence(), last)
			unlock(t, w)
			one, other := rlock(t, a), rlock(t, b)
			assert.Greater(t, min(one.Fence(), other.Fence()), w.Fence())
			last = max(one.Fence(), other.Fence())
			unlock(t, one, other)
			a, b = b, a
		}
		for _, n := range c.Nodes {
			keys, err := n.Keys()
			require.NoError(t, err)
			assert.NotContains(t, keys, testkit.CounterKey("name#t"), "the turnstile has no counter")
		}
	})
}
