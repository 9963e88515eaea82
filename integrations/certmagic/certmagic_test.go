package redlockcertmagic

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

const (
	ttl  = 10 * time.Second
	name = "issue_cert_example.com"
)

// newStorages returns storages over one folder, as two processes have them.
func newStorages(t *testing.T) (cluster *redlocktest.Cluster, one, two *Storage) {
	t.Helper()
	cluster = redlocktest.New(t, 3)
	folder := &certmagic.FileStorage{Path: t.TempDir()}
	return cluster, New(folder, cluster.NewRedlock(), ttl), New(folder, cluster.NewRedlock(), ttl)
}

// within is a context that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestOneProcessHasALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, two := newStorages(t)
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, one.Lock(ctx, name))
		cancel() // It does not end the lock.
		time.Sleep(5 * ttl)
		for _, s := range []*Storage{one, two} {
			require.ErrorIs(t, s.Lock(within(t, ttl), name), context.DeadlineExceeded)
			ok, err := s.TryLock(t.Context(), name)
			require.NoError(t, err)
			require.False(t, ok)
		}
		require.NoError(t, one.RenewLockLease(t.Context(), name, time.Hour))
		require.ErrorIs(t, two.RenewLockLease(t.Context(), name, time.Hour), ErrNotLocked)
		require.ErrorIs(t, two.Unlock(t.Context(), name), ErrNotLocked)

		var turns sync.WaitGroup
		for _, s := range []*Storage{one, two} {
			turns.Go(func() {
				if assert.NoError(t, s.Lock(t.Context(), name)) {
					time.Sleep(time.Second)
					assert.NoError(t, s.Unlock(t.Context(), name))
				}
			})
		}
		time.Sleep(ttl)
		released := time.Now()
		require.NoError(t, one.Unlock(ctx, name), "though the context has ended")
		turns.Wait()
		assert.InDelta(t, 2.5, time.Since(released).Seconds(), 0.5, "one after the other")
		synctest.Wait()
		assert.Empty(t, one.names)
		assert.Empty(t, two.names)
		cluster.AssertFree()
	})
}

func TestTryLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, two := newStorages(t)
		ok, err := one.TryLock(t.Context(), name)
		require.NoError(t, err)
		require.True(t, ok)
		ok, err = two.TryLock(t.Context(), name)
		require.NoError(t, err)
		require.False(t, ok)
		cluster.StopMajority() // The node that is left says that it is taken.
		ok, err = two.TryLock(t.Context(), name)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.False(t, ok)
		cluster.Recover()
		require.NoError(t, one.Unlock(t.Context(), name))
		assert.Empty(t, two.names)
		cluster.AssertFree()
	})
}

func TestALostLockIsTakenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, two := newStorages(t)
		require.NoError(t, one.Lock(t.Context(), name))
		cluster.Forget("certmagic:" + name) // The holder has not heard of it yet.
		require.NoError(t, two.Lock(t.Context(), name))
		require.ErrorIs(t, one.RenewLockLease(t.Context(), name, time.Hour), redlock.ErrTaken)
		require.NoError(t, two.Unlock(t.Context(), name))
		require.NoError(t, one.RenewLockLease(t.Context(), name, time.Hour))
		time.Sleep(5 * ttl)
		require.ErrorIs(t, two.Lock(within(t, ttl), name), context.DeadlineExceeded)
		require.NoError(t, one.Unlock(t.Context(), name))
		require.ErrorIs(t, one.RenewLockLease(t.Context(), name, time.Hour), ErrNotLocked)
		cluster.AssertFree()
	})
}

// While the one who has lost it works, nobody else of its process gets it: Unlock has the name only. Who waits there gets
// it then.
func TestUnlockOfALostLockPassesItsTurnOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, two := newStorages(t)
		require.NoError(t, one.Lock(t.Context(), name))
		cluster.Lose(one.names[name].lock)
		ok, err := one.TryLock(t.Context(), name)
		require.NoError(t, err)
		require.False(t, ok, "in its own process")
		require.NoError(t, two.Lock(t.Context(), name), "in another process")
		locked := make(chan error, 1)
		go func() { locked <- one.Lock(within(t, 2*ttl), name) }()
		synctest.Wait()
		require.NoError(t, one.Unlock(t.Context(), name), "there is nothing to release")
		time.Sleep(ttl)
		require.Empty(t, locked, "it is still the other's")
		require.NoError(t, two.Unlock(t.Context(), name))
		require.NoError(t, <-locked)
		require.NoError(t, one.Unlock(t.Context(), name))
		require.Empty(t, one.names)
		cluster.AssertFree()
	})
}

// certmagic repeats an Unlock that has failed when the process ends, so it fails only if something is left to release.
func TestUnlockFailsIfTheLockIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, _ := newStorages(t)
		for _, expired := range []bool{false, true} {
			require.NoError(t, one.Lock(t.Context(), name))
			cluster.StopMajority()
			if expired {
				time.Sleep(2 * ttl)
				require.NoError(t, one.Unlock(t.Context(), name))
			} else {
				require.ErrorIs(t, one.Unlock(t.Context(), name), redlock.ErrNoQuorum)
			}
			require.ErrorIs(t, one.Unlock(t.Context(), name), ErrNotLocked)
			require.Empty(t, one.names)
			cluster.Recover()
			time.Sleep(ttl)
		}
		cluster.AssertFree()
	})
}

// A wait that its context has ended says what it has waited for, also where another call of the process asks.
func TestAWaitSaysWhatItHasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, two := newStorages(t)
		require.NoError(t, one.Lock(t.Context(), name))
		require.ErrorIs(t, two.Lock(within(t, ttl), name), redlock.ErrTaken)
		require.ErrorContains(t, one.Lock(within(t, ttl), name), "locked by this process")
		require.NoError(t, one.Unlock(t.Context(), name))

		cluster.StopMajority()
		failed := make(chan error, 2)
		for _, patience := range []time.Duration{ttl, ttl / 2} {
			go func() { failed <- one.Lock(within(t, patience), name) }()
			time.Sleep(time.Second) // The first one has the turn.
		}
		for range 2 {
			err := <-failed
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		}
		synctest.Wait()
		require.Empty(t, one.names)
		cluster.Recover()
	})
}

// An Unlock that comes while a lost lock is taken anew leaves nothing locked.
func TestUnlockDuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, _ := newStorages(t)
		require.NoError(t, one.Lock(t.Context(), name))
		cluster.Forget("certmagic:" + name)
		cluster.Slow(time.Second)
		renewed := make(chan error, 1)
		go func() { renewed <- one.RenewLockLease(t.Context(), name, time.Hour) }()
		e := one.names[name]
		for len(cluster.Held()) == 0 { // It is taken anew, and the answers are on their way.
			time.Sleep(100 * time.Millisecond)
		}
		require.NoError(t, one.Unlock(t.Context(), name))
		require.Nil(t, e.lock)
		require.ErrorIs(t, <-renewed, ErrNotLocked)
		require.Empty(t, one.names)
		require.Nil(t, e.lock)
		cluster.Recover()
		cluster.AssertFree()
	})
}

// What one node still has of a lost lock does not keep out the new one, where there is no node to spare.
func TestTheRestOfALostLockIsInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, _ := newStorages(t)
		require.NoError(t, one.Lock(t.Context(), name))
		synctest.Wait() // All nodes have it.
		lock := one.names[name].lock
		do := func(node int, command string, args ...any) {
			c, err := cluster.Nodes()[node].Pool.GetContext(t.Context())
			require.NoError(t, err)
			_, err = c.Do(command, append([]any{"certmagic:" + name}, args...)...)
			require.NoError(t, err)
			require.NoError(t, c.Close())
		}
		do(0, "SET", "another's")
		do(1, "DEL")
		for lock.Err() == nil {
			time.Sleep(time.Second)
		}
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
		require.NoError(t, one.RenewLockLease(t.Context(), name, time.Hour))
		require.NoError(t, one.Unlock(t.Context(), name))
		do(0, "DEL")
		cluster.AssertFree()
	})
}

// A database is a storage as there are for Redis and SQL, which prints itself without its password.
type database struct {
	certmagic.Storage

	Host, Password string
}

func (d *database) String() string { return "database " + d.Host }

// Whatever logs it, a storage prints no secrets. Without a Format, fmt would iterate over a map that Lock writes, which
// ends the program.
func TestAStoragePrintsNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&database{Host: "db1", Password: "hunter2"}, redlocktest.New(t, 1).Redlock, ttl)
		nodetest.RequirePrinted(t, "database db1 with locks of redlock", s)
		require.NotContains(t, fmt.Sprintf("%+v", []certmagic.Storage{s}), "hunter2")
	})
}
