package redlockgoose

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

// Goose stops when its context ends, and then unlocks. Until that nobody else may migrate, however long it takes.
func TestTheLockOutlivesTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		l := New(cluster.Redlock, name, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, l.Lock(ctx, nil))
		cancel()
		time.Sleep(time.Hour)
		require.Equal(t, []string{name}, cluster.Held())
		require.NoError(t, l.Unlock(ctx, nil), "it was held to the end")
		cluster.AssertFree()
	})
}

// fmt would read what belongs to who has the lock.
func TestALockerPrintsItself(t *testing.T) {
	l := New(nil, name, time.Minute)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
		require.Equal(t, `Locker of "`+name+`"`, fmt.Sprintf(verb, l))
	}
}

// As goose's own lockers, one waits for about five minutes while somebody migrates, and no longer.
func TestALockerWaitsForFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 1)
		first, second := New(cluster.Redlock, name, time.Hour), New(cluster.NewRedlock(), name, time.Hour)
		require.NoError(t, first.Lock(t.Context(), nil))
		began := time.Now()
		require.ErrorIs(t, second.Lock(t.Context(), nil), redlock.ErrTaken)
		require.InDelta(t, 5*time.Minute, time.Since(began), float64(time.Minute))
		require.NoError(t, first.Unlock(t.Context(), nil))
		cluster.AssertFree()
	})
}

// A slowConn is a connection whose Close takes until the test lets it go on.
type slowConn struct{ closing, goOn chan struct{} }

func (c slowConn) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (c slowConn) Driver() driver.Driver                        { return nil }
func (c slowConn) Prepare(string) (driver.Stmt, error)          { return nil, errors.New("no statements") }

func (c slowConn) Begin() (driver.Tx, error) { return nil, errors.New("no transactions") }

func (c slowConn) Close() error {
	c.closing <- struct{}{}
	<-c.goOn
	return nil
}

// Goose gives the connection back to the pool after SessionUnlock, for somebody else. Nobody may be closing it then.
func TestSessionUnlockWaitsForTheEndOfTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		l := New(cluster.Redlock, name, time.Minute)
		below := slowConn{make(chan struct{}, 2), make(chan struct{})}
		db := sql.OpenDB(below)
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.SessionLock(t.Context(), conn))
		cluster.Lose(l.held)
		<-below.closing
		unlocked := make(chan error, 1)
		go func() { unlocked <- l.SessionUnlock(t.Context(), conn) }()
		time.Sleep(time.Minute)
		assert.Empty(t, unlocked, "the connection is still in use")
		close(below.goOn)
		require.ErrorIs(t, <-unlocked, redlock.ErrLost)
		require.NoError(t, conn.Close())
		require.NoError(t, db.Close())
	})
}
