package redlockmigrate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/stub"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

// A migration may take longer than the ttl.
func TestTheLockIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		d := New(&stub.Stub{}, cluster.Redlock, name, time.Minute)
		require.NoError(t, d.Lock())
		time.Sleep(time.Hour)
		require.Equal(t, []string{name}, cluster.Held())
		require.NoError(t, d.Unlock())
		cluster.AssertFree()
		require.NoError(t, d.Close())
	})
}

// A closing driver calls a function while it is closed.
type closing struct {
	database.Driver
	during func()
}

func (c closing) Close() error {
	c.during()
	return c.Driver.Close()
}

// A statement may be running until the driver is closed.
func TestCloseReleasesTheLockLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		closed := false
		d := New(closing{&stub.Stub{}, func() {
			closed = true
			assert.Equal(t, []string{name}, cluster.Held())
		}}, cluster.Redlock, name, time.Minute)
		require.NoError(t, d.Lock())
		require.NoError(t, d.Close())
		require.True(t, closed)
		cluster.AssertFree()
	})
}

// Migrate gives up a Lock after its LockTimeout, but does not end the call. Close does.
func TestCloseEndsALockThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		release := cluster.Take(name, 24*time.Hour)
		d := New(&stub.Stub{}, cluster.Redlock, name, time.Minute)
		d.Wait = time.Hour
		ended := make(chan error, 1)
		go func() { ended <- d.Lock() }()
		time.Sleep(time.Minute)
		require.Empty(t, ended)
		require.NoError(t, d.Close())
		synctest.Wait()
		require.Len(t, ended, 1)
		require.Error(t, <-ended)
		release()
		cluster.AssertFree()
	})
}

// Nobody would unlock what a Lock gets after Close.
func TestALockThatComesAfterCloseIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		var d *Driver
		d = wrap(&stub.Stub{}, func(ctx context.Context) (*redlock.Lock, error) {
			lock, err := cluster.Redlock.Lock(ctx, []string{name}, time.Minute)
			assert.NoError(t, d.Close(), "it comes between the last answer and what Lock does with it")
			return lock, err
		})
		require.ErrorIs(t, d.Lock(), context.Canceled)
		cluster.AssertFree()
		require.ErrorIs(t, d.Unlock(), database.ErrNotLocked)
	})
}

// A driver whose own lock somebody else has.
type refusing struct{ database.Driver }

func (refusing) Lock() error { return database.ErrLocked }

// The driver's own lock is taken after the redlock, which is given back if that fails.
func TestTheDriverHasALockOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		d := New(refusing{&stub.Stub{}}, cluster.Redlock, name, time.Minute)
		d.Both = true
		require.ErrorIs(t, d.Lock(), database.ErrLocked)
		cluster.AssertFree()
		d.Both = false
		require.NoError(t, d.Lock())
		require.NoError(t, d.Close())
		cluster.AssertFree()
	})
}
