package redlockgocron

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

// The cases of gocron's own test of distributed schedulers, TestScheduler_WithDistributed, with this package
// in place of its mocks: three schedulers start a job that is limited to one run.
func TestGocronsOwnCases(t *testing.T) {
	locker := func(r *redlock.Redlock) gocron.Locker { return must(NewLocker(r, tick, tick)) }
	tests := []struct {
		name      string
		runs      int64
		scheduler func(t *testing.T, r *redlock.Redlock) []gocron.SchedulerOption
		job       func(r *redlock.Redlock) []gocron.JobOption
	}{
		{"3 schedulers with elector", 1, func(t *testing.T, r *redlock.Redlock) []gocron.SchedulerOption {
			e := must(NewElector(r, "leader", tick))
			t.Cleanup(func() { _ = e.Close(context.Background()) })
			return []gocron.SchedulerOption{gocron.WithDistributedElector(e)}
		}, nil},
		{"3 schedulers with locker", 1, func(_ *testing.T, r *redlock.Redlock) []gocron.SchedulerOption {
			return []gocron.SchedulerOption{gocron.WithDistributedLocker(locker(r))}
		}, nil},
		{"3 schedulers and job with Distributed locker", 1, nil, func(r *redlock.Redlock) []gocron.JobOption {
			return []gocron.JobOption{gocron.WithDistributedJobLocker(locker(r))}
		}},
		{"3 schedulers and job with disabled Distributed locker", 3, func(_ *testing.T, r *redlock.Redlock) []gocron.SchedulerOption {
			return []gocron.SchedulerOption{gocron.WithDistributedLocker(locker(r))}
		}, func(*redlock.Redlock) []gocron.JobOption {
			return []gocron.JobOption{gocron.WithDisabledDistributedJobLocker(true)}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := redlocktest.New(t, 3)
				var runs atomic.Int64
				for range 3 {
					r := cluster.NewRedlock()
					var options []gocron.SchedulerOption
					if tt.scheduler != nil {
						options = tt.scheduler(t, r)
					}
					s := must(gocron.NewScheduler(options...))
					t.Cleanup(func() { assert.NoError(t, s.Shutdown()) })
					synctest.Wait() // The first elector leads, not the one that happens to.
					jobOptions := []gocron.JobOption{
						gocron.WithName("job"), gocron.WithStartAt(gocron.WithStartImmediately()), gocron.WithLimitedRuns(1),
					}
					if tt.job != nil {
						jobOptions = append(jobOptions, tt.job(r)...)
					}
					_, err := s.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(func() { runs.Add(1) }), jobOptions...)
					require.NoError(t, err)
					s.Start()
				}
				time.Sleep(tick / 2)
				assert.Equal(t, tt.runs, runs.Load())
			})
		})
	}
}
