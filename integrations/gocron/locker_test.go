package redlockgocron

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/redlock/ticks"
	"github.com/seed6c881748/redlock/test/testkit"
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

// A fleet goes over from gocron-redis-lock, which has the bare name locked for as long as the job runs, by one try.
func TestBareNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, _ := lockers(t, tick, tick/2)
		l := one.WithBareNames()
		release := cluster.Take("report", tick)
		start := time.Now()
		_, err := l.Lock(t.Context(), "report")
		require.ErrorIs(t, err, redlock.ErrTaken)
		assert.Less(t, time.Since(start), time.Millisecond, "the other one's run may be over in a moment, and this tick with it")
		release()

		lock, err := l.Lock(t.Context(), "report")
		require.NoError(t, err)
		assert.NotEmpty(t, cluster.Holder("report"))
		require.NoError(t, lock.Unlock(t.Context()))
		assert.NotEmpty(t, cluster.Holder("report"), "for the rest of the min hold")
		other, err := one.Lock(t.Context(), "report")
		require.NoError(t, err, "without it, the names are others")
		require.NoError(t, other.Unlock(t.Context()))
	})
}

// The winner of a tick may stall for longer than the node timeout, and give up. The others have not left out
// the tick by then: one of them runs it.
func TestATickIsRunThoughTheWinnerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, two := lockers(t, tick, tick/2)
		for _, stall := range []time.Duration{time.Millisecond, 400 * time.Millisecond, tick/4 - time.Millisecond} {
			stalls, err := cluster.Redlock.TryLock(t.Context(), []string{"gocron:report"}, tick)
			require.NoError(t, err)
			var runs, left atomic.Int64
			var asked sync.WaitGroup
			for _, l := range []*Locker{one, two} {
				asked.Go(func() {
					lock, err := l.Lock(t.Context(), "report")
					if err == nil {
						runs.Add(1)
						assert.NoError(t, lock.Unlock(t.Context()))
					} else if assert.ErrorIs(t, err, redlock.ErrTaken) {
						left.Add(1)
					}
				})
			}
			time.Sleep(stall)
			require.NoError(t, stalls.Unlock(t.Context())) // As an attempt that has failed releases.
			asked.Wait()
			require.EqualValues(t, 1, runs.Load(), "after %v", stall)
			require.EqualValues(t, 1, left.Load())
			time.Sleep(time.Minute)
		}
		cluster.AssertFree()
	})
}

// lockers returns one for each of two processes.
func lockers(t *testing.T, ttl, minHold time.Duration) (cluster *redlocktest.Cluster, one, two *Locker) {
	t.Helper()
	cluster = redlocktest.New(t, 3)
	return cluster, must(NewLocker(cluster.NewRedlock(), ttl, minHold)), must(NewLocker(cluster.NewRedlock(), ttl, minHold))
}

func TestATickIsRunAfterAShortOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, _ := lockers(t, tick, tick/2)
		cluster.StopMajority()
		var outage sync.WaitGroup
		defer outage.Wait()
		outage.Go(func() {
			time.Sleep(time.Second)
			cluster.Recover()
		})
		lock, err := one.Lock(t.Context(), "report")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
	})
}

// A process waits while the other one may fail yet, and no longer: gocron may let it run one job at a time.
func TestTheWaitOfALocker(t *testing.T) {
	for _, tt := range []struct {
		name                      string
		ttl, minHold, run, waited time.Duration
	}{
		{"short run", tick, tick / 2, 0, 0},
		{"run that ends meanwhile", tick, tick / 2, time.Second, time.Second},
		{"long run", tick, tick / 2, tick, tick / 4},
		{"ttl is min hold", tick, tick, 0, ticks.MaxWait},
		{"long min hold", 10 * time.Minute, 5 * time.Minute, time.Minute, ticks.MaxWait},
		{"short min hold", tick, 100 * time.Millisecond, tick, 50 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, one, two := lockers(t, tt.ttl, tt.minHold)
				lock, err := one.Lock(t.Context(), "report")
				require.NoError(t, err)
				var run sync.WaitGroup
				run.Go(func() {
					time.Sleep(tt.run)
					assert.NoError(t, lock.Unlock(t.Context()))
				})
				defer run.Wait()
				if tt.run == 0 {
					run.Wait()
				}
				start := time.Now()
				_, err = two.Lock(t.Context(), "report")
				require.ErrorIs(t, err, redlock.ErrTaken)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				assert.InDelta(t, tt.waited, time.Since(start), float64(300*time.Millisecond))
			})
		})
	}
}

// However late it comes within the time that NewLocker allows, a process never finds the lock of its tick free again.
func TestNobodyOutwaitsTheMinHold(t *testing.T) {
	for _, minHold := range []time.Duration{100 * time.Millisecond, time.Second, tick, 10 * tick} {
		synctest.Test(t, func(t *testing.T) {
			_, one, two := lockers(t, minHold, minHold) // It waits to the end.
			lock, err := one.Lock(t.Context(), "report")
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(t.Context()))
			time.Sleep(minHold - min(minHold/2, ticks.MaxWait) - time.Millisecond)
			_, err = two.Lock(t.Context(), "report")
			require.ErrorIs(t, err, redlock.ErrTaken)
			time.Sleep(time.Millisecond)
			lock, err = two.Lock(t.Context(), "report")
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(t.Context()))
		})
	}
}

// A process that has stood still may get its lock when the min hold of another one is over.
func TestALockThatComesLateIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		l := must(NewLocker(cluster.NewRedlock(redlock.WithTracer(testkit.Standstill(tick/4-time.Millisecond))), tick, tick/2))
		lock, err := l.Lock(t.Context(), "one")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))

		l = must(NewLocker(cluster.NewRedlock(redlock.WithTracer(testkit.Standstill(tick/4))), tick, tick/2))
		_, err = l.Lock(t.Context(), "two")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "2.5s")
		time.Sleep(tick)
		cluster.AssertFree()
	})
}

// What ends a wait is said: the context and Close are others than the end of the wait.
func TestWhatEndsTheWaitOfALocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, _ := lockers(t, tick, tick)
		r := cluster.NewRedlock()
		two := must(NewLocker(r, tick, tick))
		lock, err := one.Lock(t.Context(), "report")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = two.Lock(ctx, "report")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrTaken)

		go func() {
			time.Sleep(time.Second)
			assert.NoError(t, r.Close(t.Context()))
		}()
		_, err = two.Lock(t.Context(), "report")
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.NoError(t, lock.Unlock(t.Context()))

		cluster.StopMajority()
		_, err = must(NewLocker(cluster.NewRedlock(), tick, tick/2)).Lock(t.Context(), "other")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		cluster.Recover()
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
		l := must(NewLocker(r, tick, tick/2, append(opts, redlock.WithOwner("me"), redlock.WithMinHold(0), redlock.WithRetryCount(0))...))
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
