package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

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
	r, err := redlock.New([]redlock.Node{redlock.NewNode(addr)}, redlock.WithNodeTimeout(migratingWait))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r, addr
}

// take locks, and fails the test if that fails.
func take(t *testing.T, r *redlock.Redlock, resources []string) *redlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), migratingWait)
	defer cancel()
	lock, err := r.Lock(ctx, resources, migratingWait, redlock.WithRetryCount(-1), redlock.WithOwner("bench"))
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func requireTaken(t *testing.T, r *redlock.Redlock, resources []string) {
	t.Helper()
	if _, err := r.TryLock(t.Context(), resources, migratingWait); !errors.Is(err, redlock.ErrTaken) {
		t.Fatalf("%v, want ErrTaken", err)
	}
}

func TestMigratingFromRedislock(t *testing.T) {
	r, addr := single(t)
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	old := redislock.New(client)
	theirs, err := old.Obtain(t.Context(), "job", migratingWait, &redislock.Options{Metadata: "worker"})
	if err != nil {
		t.Fatal(err)
	}
	requireTaken(t, r, []string{"job"})
	if err := theirs.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	ours := take(t, r, []string{"job"})
	if _, err := old.Obtain(t.Context(), "job", migratingWait, nil); !errors.Is(err, redislock.ErrNotObtained) {
		t.Fatalf("%v, want ErrNotObtained", err)
	}
	if err := ours.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Obtain(t.Context(), "job", migratingWait, nil); err != nil {
		t.Fatal(err)
	}
}

func TestMigratingFromRueidislock(t *testing.T) {
	r, addr := single(t)
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		KeyValidity:  migratingWait,
		TryNextAfter: migratingWait,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(locker.Close)
	keys := []string{"rueidislock:0:job", "rueidislock:1:job", "rueidislock:2:job"}

	ours := take(t, r, keys)
	if _, _, err := locker.TryWithContext(t.Context(), "job"); !errors.Is(err, rueidislock.ErrNotLocked) {
		t.Fatalf("%v, want ErrNotLocked", err)
	}
	// It hears of our release, as client-side caching tells it.
	type held struct {
		release context.CancelFunc
		err     error
	}
	waiting := make(chan held, 1)
	go func() {
		_, release, err := locker.WithContext(t.Context(), "job")
		waiting <- held{release, err}
	}()
	if err := ours.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case theirs := <-waiting:
		if theirs.err != nil {
			t.Fatal(theirs.err)
		}
		requireTaken(t, r, keys)
		theirs.release()
	case <-time.After(migratingWait):
		t.Fatal("it has not heard of the release")
	}
	if err := take(t, r, keys).Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}
