package redlockgocron

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/redlock/ticks"
)

const (
	tick      = 10 * time.Second
	instances = 3
)

// A fleet is several schedulers with a job of the same name, each with a Redlock of its own.
type fleet struct {
	t          *testing.T
	cluster    *redlocktest.Cluster
	start      time.Time
	schedulers []gocron.Scheduler
	jobs       []gocron.Job
	length     time.Duration // of a run
	over       chan struct{} // ends runs: Shutdown waits for them in a loop without sleep, which would stop a bubble's clock

	mu        sync.Mutex
	runs      []int // instances
	now, most int   // how many run at the same time
}

// newFleet starts the schedulers a second apart, as their clocks are. In a bubble.
func newFleet(t *testing.T, length, ttl time.Duration) *fleet {
	t.Helper()
	f := &fleet{t: t, cluster: redlocktest.New(t, 3), start: time.Now(), length: length, over: make(chan struct{})}
	t.Cleanup(func() {
		close(f.over)
		synctest.Wait()
		for _, s := range f.schedulers {
			assert.NoError(t, s.Shutdown())
		}
	})
	for i := range instances {
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(must(NewLocker(f.cluster.NewRedlock(), ttl, ttl/2))))
		require.NoError(t, err)
		job, err := s.NewJob(gocron.DurationJob(tick), gocron.NewTask(f.run, i), gocron.WithName("report"))
		require.NoError(t, err)
		f.schedulers, f.jobs = append(f.schedulers, s), append(f.jobs, job)
		s.Start()
		time.Sleep(time.Second)
	}
	return f
}

func (f *fleet) run(i int) {
	f.mu.Lock()
	f.runs = append(f.runs, i)
	f.now++
	f.most = max(f.most, f.now)
	f.mu.Unlock()
	select {
	case <-time.After(f.length):
	case <-f.over:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
}

// after returns the runs until so long after the first scheduler's start.
func (f *fleet) after(d time.Duration) []int {
	time.Sleep(time.Until(f.start.Add(d)))
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]int(nil), f.runs...)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A tick is run once, and those that a run outlasts are left out, even if it takes longer than the lock's ttl.
func TestOneInstanceRunsAJob(t *testing.T) {
	for _, tt := range []struct{ length, ttl, until time.Duration }{
		{time.Millisecond, tick, 5*tick + 5*time.Second},
		{tick + tick/2, tick / 2, 10*tick + 5*time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, tt.length, tt.ttl)
			assert.Len(t, f.after(tt.until), 5, "once per tick, or per two")
			assert.Equal(t, 1, f.most)
		})
	}
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
				time.AfterFunc(tt.run, func() { assert.NoError(t, lock.Unlock(t.Context())) })
				if tt.run == 0 {
					time.Sleep(time.Millisecond)
				}
				start := time.Now()
				_, err = two.Lock(t.Context(), "report")
				require.ErrorIs(t, err, redlock.ErrTaken)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				assert.InDelta(t, tt.waited, time.Since(start), float64(300*time.Millisecond))
				time.Sleep(tt.run)
			})
		})
	}
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

		time.AfterFunc(time.Second, func() { assert.NoError(t, r.Close(t.Context())) })
		_, err = two.Lock(t.Context(), "report")
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.NoError(t, lock.Unlock(t.Context()))

		cluster.StopMajority()
		_, err = one.Lock(t.Context(), "other")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		cluster.Recover()
	})
}

// gocron ends the context of a job that is removed, or whose scheduler is shut down, while it runs.
func TestTheLockOutlivesTheJobsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4*tick, tick/2)
		runs := f.after(tick + time.Second)
		require.Len(t, runs, 1)
		require.NoError(t, f.schedulers[runs[0]].RemoveJob(f.jobs[runs[0]].ID()))
		assert.Len(t, f.after(4*tick), 1, "the first run goes on")
		assert.Len(t, f.after(7*tick), 2)
		assert.Equal(t, 1, f.most)
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
		require.ErrorContains(t, err, "no Redlock")

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
