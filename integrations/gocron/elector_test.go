package redlockgocron

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

// contend returns electors that contend, each with a Redlock of its own. In a bubble.
func contend(t *testing.T, opts ...redlock.Option) ([]*Elector, *redlocktest.Cluster) {
	t.Helper()
	cluster, electors := redlocktest.New(t, 3, opts...), make([]*Elector, instances)
	for i := range electors {
		electors[i] = must(NewElector(cluster.NewRedlock(), "leader", tick))
		t.Cleanup(func() { _ = electors[i].Close(context.Background()) })
	}
	return electors, cluster
}

// leader is who leads, or -1. It fails the test if two do.
func leader(t *testing.T, electors []*Elector) int {
	t.Helper()
	leader := -1
	for i, e := range electors {
		err := e.IsLeader(t.Context())
		if err != nil {
			require.ErrorIs(t, err, ErrNotLeader)
			continue
		}
		require.Equal(t, -1, leader, "two lead")
		leader = i
	}
	return leader
}

// await returns the leader that follows, and how long nobody has led.
func await(t *testing.T, electors []*Elector) (next int, took time.Duration) {
	t.Helper()
	start := time.Now()
	for leader(t, electors) < 0 {
		require.Less(t, time.Since(start), time.Minute)
		time.Sleep(10 * time.Millisecond)
	}
	return leader(t, electors), time.Since(start)
}

func TestALeaderThatClosesIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		electors, cluster := contend(t)
		for range electors {
			first, took := await(t, electors)
			assert.Less(t, took, time.Second, "it need not wait for the ttl")
			require.NoError(t, electors[first].Close(t.Context()))
			require.NoError(t, electors[first].Close(t.Context()), "again")
		}
		assert.Equal(t, -1, leader(t, electors))
		cluster.AssertFree()
	})
}

// Whoever leads goes on, until there is no quorum. Meanwhile, and then, each Elector says what it waits for.
func TestNobodyLeadsWithoutAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		electors, cluster := contend(t)
		first, _ := await(t, electors)
		for range 5 {
			time.Sleep(tick)
			require.Equal(t, first, leader(t, electors), "it goes on to lead")
			for i, e := range electors {
				if err := e.IsLeader(t.Context()); i != first {
					require.ErrorIs(t, err, redlock.ErrTaken)
					require.NotErrorIs(t, err, redlock.ErrNoQuorum)
				}
			}
		}
		cluster.HangMajority()
		time.Sleep(2 * tick)
		require.Equal(t, -1, leader(t, electors))
		for _, e := range electors {
			require.ErrorIs(t, e.IsLeader(t.Context()), redlock.ErrNoQuorum)
		}
		cluster.Recover()
		await(t, electors)
	})
}

// Who leads no more by the max hold or the stop time leaves the rest of its lock to the runs that have begun.
func TestTermsThatAreLimited(t *testing.T) {
	for name, tt := range map[string]struct {
		opt redlock.Option
		end func(c *redlocktest.Cluster)
	}{
		"max hold":  {redlock.WithMaxHold(2 * tick), func(*redlocktest.Cluster) {}},
		"stop time": {redlock.WithStopTime(3 * time.Second), (*redlocktest.Cluster).HangMajority},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				electors, cluster := contend(t, tt.opt)
				first, _ := await(t, electors)
				lock := electors[first].lock.Load()
				tt.end(cluster)
				for leader(t, electors) >= 0 {
					time.Sleep(10 * time.Millisecond)
				}
				end := lock.Until()
				require.Greater(t, time.Until(end), 2*time.Second)
				cluster.Recover()
				next, took := await(t, electors)
				require.NotEqual(t, first, next, "it stands behind those that waited")
				require.LessOrEqual(t, took, tick+time.Second)
				require.False(t, time.Now().Before(end))
			})
		})
	}
}

func TestAnElectorThatGivesUpSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := redlocktest.New(t, 3).NewRedlock()
		wrong := must(NewElector(r, "leader", 0))
		synctest.Wait()
		require.ErrorIs(t, wrong.IsLeader(t.Context()), ErrNotLeader)
		require.ErrorContains(t, wrong.IsLeader(t.Context()), "ttl")
		require.ErrorContains(t, wrong.Close(t.Context()), "ttl")
		_, err := NewElector(nil, "leader", tick)
		require.ErrorIs(t, err, errNoRedlock)

		e := must(NewElector(r, "leader", tick))
		await(t, []*Elector{e})
		require.Equal(t, `Elector of "leader" (the leader)`, fmt.Sprintf("%+v", e))
		require.NoError(t, r.Close(t.Context()))
		synctest.Wait()
		require.ErrorIs(t, e.IsLeader(t.Context()), ErrNotLeader)
		require.ErrorIs(t, e.IsLeader(t.Context()), redlock.ErrClosed)
		require.ErrorIs(t, e.Close(t.Context()), redlock.ErrClosed)
	})
}

// From the call of Close on, and from a loss on, an Elector says no, even before its campaign has heard of that.
func TestWhoLeadsNoMoreSaysSo(t *testing.T) {
	for name, end := range map[string]func(*redlocktest.Cluster, *Elector, *redlock.Lock){
		"loss": func(c *redlocktest.Cluster, _ *Elector, lock *redlock.Lock) { c.Lose(lock) },
		"Close": func(_ *redlocktest.Cluster, e *Elector, lock *redlock.Lock) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			require.ErrorIs(t, e.Close(ctx), context.Canceled)
			require.NoError(t, lock.Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := redlocktest.New(t, 3)
				lock, err := cluster.Redlock.Lock(t.Context(), []string{"leader"}, tick)
				require.NoError(t, err)
				e := &Elector{r: cluster.Redlock, cancel: func() {}, done: make(chan struct{})} // Its campaign does not end.
				e.lock.Store(lock)
				require.NoError(t, e.IsLeader(t.Context()))
				end(cluster, e, lock)
				require.ErrorIs(t, e.IsLeader(t.Context()), ErrNotLeader)
				_ = lock.Unlock(t.Context())
			})
		})
	}
}
