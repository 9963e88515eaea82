package compat

import (
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A user of redsync has the right to its mutexes' keys, and to no other. What these keys begin with
// is the prefix of redlock, whose own keys are then among them.
func TestTheUserOfRedsyncSufficesWithAPrefix(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, nodes)
	login := []redis.DialOption{redis.DialUsername("app"), redis.DialPassword("pw")}
	var pools []redsyncredis.Pool
	var ours []redlock.Node
	for _, n := range c.Nodes {
		conn, err := n.Conn(t.Context())
		require.NoError(t, err)
		_, err = conn.Do("ACL", "SETUSER", "app", "on", ">pw", "resetchannels", "~account:*", "+@all")
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		pools = append(pools, redigo.NewPool(n.Pool(login...)))
		ours = append(ours, redlock.NewNode(n.Addr(), login...))
	}
	client := func(opts ...redlock.Option) *redlock.Redlock {
		return testkit.NewOver(t, ours, append(opts, redlock.WithNodeTimeout(10*time.Second))...)
	}
	mutex := redsync.New(pools...).NewMutex("account:1", redsync.WithExpiry(longTTL), redsync.WithTries(1), redsync.WithTimeoutFactor(0.5))

	_, err := client().TryLock(t.Context(), []string{"account:1"}, longTTL)
	require.ErrorIs(t, err, redlock.ErrNoQuorum, "its own keys are not account:…")
	require.ErrorContains(t, err, "NOPERM")

	r := client(redlock.WithPrefix("account:"))
	require.NoError(t, mutex.Lock())
	_, err = r.TryLock(t.Context(), []string{"1"}, longTTL)
	require.ErrorIs(t, err, redlock.ErrTaken)
	ok, err := mutex.Unlock()
	require.NoError(t, err)
	require.True(t, ok)
	lock, err := r.TryLock(t.Context(), []string{"1"}, longTTL)
	require.NoError(t, err)
	taken := new(redsync.ErrTaken)
	require.ErrorAs(t, mutex.Lock(), &taken)
	require.NoError(t, lock.Extend(t.Context(), 2*longTTL))

	// Who waits polls, as the user has no channels.
	got := make(chan error, 1)
	go func() {
		l, waitErr := client(redlock.WithPrefix("account:")).Lock(t.Context(), []string{"1"}, longTTL, redlock.WithRetryCount(-1))
		if waitErr == nil {
			waitErr = l.Unlock(t.Context())
		}
		got <- waitErr
	}()
	require.NoError(t, lock.Unlock(t.Context()))
	require.NoError(t, <-got)
	require.NoError(t, mutex.Lock())
}
