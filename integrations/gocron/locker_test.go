package redlockgocron

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

func withLocker(ttl time.Duration) func(int, *redlock.Redlock) []gocron.SchedulerOption {
	return func(_ int, r *redlock.Redlock) []gocron.SchedulerOption {
		return []gocron.SchedulerOption{gocron.WithDistributedLocker(must(NewLocker(r, ttl, ttl/2)))}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestOneInstanceRunsAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, time.Millisecond, withLocker(tick))
		assert.Len(t, f.after(5*tick+5*time.Second), 5, "once per tick")
		assert.Equal(t, 1, f.most)
		assert.Len(t, f.refused, 2*5)
		for _, err := range f.refused {
			require.ErrorIs(t, err, redlock.ErrTaken)
		}
		f.cluster.AssertFree()
	})
}

// A job that runs for longer than the lock's ttl keeps others out all the same.
func TestALongJobKeepsOthersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// From 10 s to 25 s, 30 s to 45 s, 50 s to 65 s.
		f := newFleet(t, tick+tick/2, withLocker(tick/2))
		assert.Len(t, f.after(68*time.Second), 3)
		assert.Equal(t, 1, f.most)
	})
}

// It is the Locker that does it.
func TestWithoutALockerAllRunIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, tick/2, func(int, *redlock.Redlock) []gocron.SchedulerOption { return nil })
		assert.Len(t, f.after(5*tick+9*time.Second), 5*instances)
		assert.Equal(t, instances, f.most)
	})
}

// gocron ends the context of a job that is removed, or whose scheduler is shut down, while it runs.
func TestTheLockOutlivesTheJobsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4*tick, withLocker(tick/2))
		runs := f.after(tick + time.Second)
		require.Len(t, runs, 1)
		require.NoError(t, f.schedulers[runs[0]].RemoveJob(f.jobs[runs[0]].ID()))
		assert.Len(t, f.after(4*tick), 1, "the first run goes on")
		assert.Len(t, f.after(7*tick), 2)
		assert.Equal(t, 1, f.most)
	})
}

func TestNobodyRunsAJobWithoutAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, time.Millisecond, withLocker(tick))
		f.cluster.StopMajority()
		assert.Empty(t, f.after(2*tick+5*time.Second))
		require.Len(t, f.refused, 2*instances)
		for _, err := range f.refused {
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		}
		f.cluster.Recover()
		assert.Len(t, f.after(4*tick+5*time.Second), 2, "a run for each tick since")
	})
}

// What the documentation says of a lost lock: the job goes on, and the hook is told.
func TestALostLockDoesNotEndTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended error
		cluster := redlocktest.New(t, 3, redlock.WithHook(func(_ context.Context, e redlock.Event) {
			if e.Kind == redlock.EventHoldEnded {
				ended = e.Err
			}
		}))
		s := must(gocron.NewScheduler(gocron.WithDistributedLocker(must(NewLocker(cluster.Redlock, tick, tick/2)))))
		finished := false
		_, err := s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(func(ctx context.Context) {
			cluster.Forget("gocron:report")
			time.Sleep(tick)
			finished = ctx.Err() == nil
		}), gocron.WithName("report"))
		require.NoError(t, err)
		s.Start()
		time.Sleep(2 * tick)
		require.NoError(t, s.Shutdown())
		assert.True(t, finished)
		assert.ErrorIs(t, ended, redlock.ErrLost)
	})
}

func TestArgumentsOfLockers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := redlocktest.New(t, 1).Redlock
		for _, minHold := range []time.Duration{-1, 0, tick + 1} {
			_, err := NewLocker(r, tick, minHold)
			require.ErrorContains(t, err, minHold.String())
		}
		_, err := NewLocker(nil, tick, tick)
		require.ErrorIs(t, err, errNoRedlock)

		// The options are the callers', but for the min hold.
		opts := make([]redlock.Option, 0, 9)
		l := must(NewLocker(r, tick, tick/2, append(opts, redlock.WithOwner("me"), redlock.WithMinHold(0))...))
		_ = append(opts, redlock.WithOwner("somebody else"))
		lock, err := l.Lock(t.Context(), "report")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
		_, err = l.Lock(t.Context(), "report")
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.ErrorContains(t, err, "me")

		_, err = must(NewLocker(r, tick, tick, redlock.WithDriftFactor(2))).Lock(t.Context(), "other")
		require.ErrorContains(t, err, "drift")
	})
}
