package main

import (
	"context"
	"testing"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// What docs/migrating.md says of libraries that lock on one server: on that server they and
// redlock exclude each other. The keys are as it says.

// migratingWait is far more than any step here takes.
const migratingWait = 2 * time.Minute

// single is a Redlock on one server, and the server's address.
func single(t *testing.T) (r *redlock.Redlock, addr string) {
	t.Helper()
	addr = testcluster.RunServers(t, 1).Addrs()[0]
	r, err := libraries.OpenRedlock([]string{addr}, redlock.WithNodeTimeout(migratingWait))
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return r, addr
}

// take locks as soon as it can.
func take(t *testing.T, r *redlock.Redlock, resources []string) *redlock.Lock {
	t.Helper()
	lock, err := r.Lock(t.Context(), resources, migratingWait, redlock.WithWait(migratingWait), redlock.WithOwner("bench"))
	require.NoError(t, err)
	return lock
}

func TestMigratingFromRedislock(t *testing.T) {
	r, addr := single(t)
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	old, job := redislock.New(client), []string{"job"}
	theirs, err := old.Obtain(t.Context(), "job", migratingWait, &redislock.Options{Metadata: "worker"})
	require.NoError(t, err)
	_, err = r.TryLock(t.Context(), job, migratingWait)
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.NoError(t, theirs.Release(t.Context()))
	ours := take(t, r, job)
	_, err = old.Obtain(t.Context(), "job", migratingWait, nil)
	require.ErrorIs(t, err, redislock.ErrNotObtained)
	require.NoError(t, ours.Unlock(t.Context()))
	_, err = old.Obtain(t.Context(), "job", migratingWait, nil)
	require.NoError(t, err)
}

func TestMigratingFromRueidislock(t *testing.T) {
	r, addr := single(t)
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		KeyValidity:  migratingWait,
		TryNextAfter: migratingWait,
	})
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	keys := []string{"rueidislock:0:job", "rueidislock:1:job", "rueidislock:2:job"}

	ours := take(t, r, keys)
	_, _, err = locker.TryWithContext(t.Context(), "job")
	require.ErrorIs(t, err, rueidislock.ErrNotLocked)
	// It hears of our release, as client-side caching tells it: it would ask again when this context has ended.
	unlocked := make(chan error, 1)
	time.AfterFunc(100*time.Millisecond, func() { unlocked <- ours.Unlock(context.Background()) })
	ctx, cancel := context.WithTimeout(t.Context(), migratingWait/2)
	defer cancel()
	_, release, err := locker.WithContext(ctx, "job")
	require.NoError(t, err)
	require.NoError(t, <-unlocked)
	_, err = r.TryLock(t.Context(), keys, migratingWait)
	require.ErrorIs(t, err, redlock.ErrTaken)
	release()
	require.NoError(t, take(t, r, keys).Unlock(t.Context()))
}
