package redsync

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

// value is one that no lock has had, in this process, however often its tests run.
func value(name string) string { return fmt.Sprintf("%s %x", name, rand.Uint64()) }

// generated has Lock take this value.
func generated(value string) Option {
	return WithGenValueFunc(func() (string, error) { return value, nil })
}

// Another mutex of the process finds a lock by its value, also by one of the user's: it extends it by its own expiry, and
// unlocks it.
func TestALockIsFoundByItsValue(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		for _, opts := range [][]Option{nil, {generated(value("only here"))}} {
			m := rs.NewMutex("x", append(opts, WithExpiry(5*time.Second))...)
			require.NoError(t, m.Lock())
			longer := rs.NewMutex("x", WithExpiry(time.Minute), WithValue(m.Value()))
			require.NoError(t, success(longer.Extend()))
			assert.Greater(t, time.Until(longer.Until()), 50*time.Second)
			require.NoError(t, success(longer.Valid()))
			require.NoError(t, success(m.Extend()), "by its own")
			require.NoError(t, success(longer.Unlock()))
			c.AssertFree()
			require.NoError(t, rs.NewMutex("x").Lock()) // Which is another lock.
			for _, m := range []*Mutex{m, longer} {
				require.ErrorIs(t, refusal(m.Unlock()), ErrLockAlreadyExpired)
				requireTaken(t, refusal(m.Extend()), redlock.ErrLost)
				requireTaken(t, refusal(m.Valid()), redlock.ErrLost)
			}
			assert.NotEmpty(t, c.Holder("x"))
			time.Sleep(time.Minute)
		}
		err := refusal(rs.NewMutex("x", WithValue("nobody's")).Unlock())
		require.ErrorContains(t, err, "hand on what Token of the mutex returns")
	})
}

// A token is enough, wherever the lock was taken: the pools may come in another order.
func TestALockIsFoundByItsTokenElsewhere(t *testing.T) {
	inPools(t, func(t *testing.T, c *redlocktest.Cluster) {
		m := New(pools(c)...).NewMutex("x", generated(value("v")), WithExpiry(time.Second))
		require.NoError(t, m.Lock())
		turned := pools(c)
		slices.Reverse(turned)
		elsewhere := New(turned...)
		with := elsewhere.NewMutex("x", WithValue(m.Token()), WithExpiry(time.Minute))
		require.NoError(t, success(with.Extend()))
		require.NoError(t, success(with.Valid()))
		// By the user's value alone, it may be one of other servers.
		err := refusal(elsewhere.NewMutex("x", WithValue(m.Value())).Unlock())
		require.ErrorContains(t, err, "WithValue was given no value")
		require.NoError(t, success(with.Unlock()))
		c.AssertFree()
		require.ErrorIs(t, refusal(m.Unlock()), ErrLockAlreadyExpired)
	})
}

// In another process, a value of the user's names nothing, though it has the form of a token.
func TestAValueLikeAToken(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		const id = "00112233445566778899aabbccddeeff"
		_, err := c.NewRedlock().Lock(t.Context(), []string{"x"}, time.Minute, redlock.WithOwner(id)) // As the drop-in there does.
		require.NoError(t, err)
		m := rs.NewMutex("x", WithValue(id))
		for _, err := range []error{refusal(m.Unlock()), refusal(m.Extend()), refusal(m.Valid())} {
			require.ErrorContains(t, err, "hand on what Token of the mutex returns")
			requireNoVerdict(t, err)
		}
		require.NotEmpty(t, c.Holder("x"))
	})
}

// Of simultaneous calls that release another process's lock, one is told that it has done it.
func TestOneOfTheUnlocksOfAForeignLockReleases(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		for range 20 {
			theirs, err := c.NewRedlock().Lock(t.Context(), []string{"x"}, time.Minute)
			require.NoError(t, err)
			var released atomic.Int32
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					if ok, err := rs.NewMutex("x", WithValue(theirs.Token())).Unlock(); ok {
						released.Add(1)
					} else {
						assert.ErrorIs(t, err, ErrLockAlreadyExpired)
					}
				})
			}
			all.Wait()
			assert.EqualValues(t, 1, released.Load())
		}
	})
}

// Of all mutexes that unlock one lock, one is told that it has done it, also if that takes several calls.
func TestOneOfTwoMutexesReleases(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		for range 20 {
			m := rs.NewMutex("x", WithExpiry(time.Hour))
			require.NoError(t, m.Lock())
			with := rs.NewMutex("x", WithValue(m.Token()))
			c.StopMajority()
			released := func() int {
				var all sync.WaitGroup
				var n atomic.Int32
				for _, m := range []*Mutex{m, with, m} {
					all.Go(func() {
						if ok, err := m.Unlock(); assert.Equal(t, ok, err == nil) && ok {
							n.Add(1)
						}
					})
				}
				all.Wait()
				return int(n.Load())
			}
			assert.Zero(t, released())
			c.Recover()
			assert.Equal(t, 1, released())
			assert.Zero(t, released())
			c.AssertFree()
		}
	})
}

// A value that several locks have had names none of them, as a late release of the one would be that of the other.
func TestAValueOfTwoLocksNamesNone(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		same := value("same")
		first := rs.NewMutex("x", generated(same))
		require.NoError(t, first.Lock())
		handed := rs.NewMutex("x", WithValue(same))
		time.Sleep(time.Minute)
		second := rs.NewMutex("x", generated(same))
		require.NoError(t, second.Lock())
		for _, err := range []error{refusal(handed.Unlock()), refusal(handed.Extend()), refusal(handed.Valid())} {
			require.ErrorContains(t, err, "more than one lock of this process has had the value")
			requireNoVerdict(t, err)
		}
		assert.Equal(t, second.Token(), c.Holder("x"))
		require.NoError(t, success(rs.NewMutex("x", WithValue(second.Token())).Extend()))
		require.NoError(t, success(second.Unlock()))
		m := rs.NewMutex("c")
		require.NoError(t, m.Lock())
		require.NoError(t, rs.NewMutex("d", generated(m.Token())).Lock())
		require.NoError(t, success(rs.NewMutex("c", WithValue(m.Token())).Unlock()), "A token is one, whatever the user makes of it.")
	})
}

// What is remembered of locks and values is bounded.
func TestHoldingsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redlocktest.Cluster, rs *Redsync) {
		var h register
		ended := rs.NewMutex("x", WithExpiry(time.Second))
		require.NoError(t, ended.Lock())
		l := ended.held.lock
		time.Sleep(time.Minute)
		for i := range 3 * maxValues {
			h.add(&holding{lock: l, name: "x", own: fmt.Sprint(i)})
		}
		assert.LessOrEqual(t, len(h.shard("x").all), 4)
		assert.LessOrEqual(t, len(h.users.more)+len(h.users.before), 2*maxValues)
		h.add(&holding{lock: l, name: "x", own: fmt.Sprint(2*maxValues + 1)})
		_, err := h.find(nil, "x", fmt.Sprint(2*maxValues+1))
		require.ErrorIs(t, err, errManyHadIt)

		// All that are held are kept, and those whose release may have to be repeated.
		kept := map[*holding]bool{}
		for i := range 100 {
			m := rs.NewMutex(fmt.Sprint(i), WithExpiry(time.Hour))
			require.NoError(t, m.Lock())
			m.held.name = "y"
			h.add(m.held)
			kept[m.held] = true
			if i%2 == 0 {
				require.NoError(t, success(m.Unlock()))
			} else {
				defer func() { require.NoError(t, success(m.Unlock())) }()
			}
			h.add(&holding{lock: l, name: "y"})
		}
		for held := range kept {
			found, err := h.find(nil, "y", held.lock.Token())
			require.NoError(t, err)
			require.Same(t, held, found)
			h.remove(held)
			require.NotContains(t, h.shard("y").all, held)
		}
	})
}
