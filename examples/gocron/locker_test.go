package gocronlock

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

const (
	tick      = 10 * time.Second
	instances = 3
)

// run has schedulers with jobs of the same name for that long, and returns how often the job
// was run, and how many at the same time at most.
func run(t *testing.T, all, length time.Duration, options func(r *redlock.Redlock) []gocron.SchedulerOption) (total, most int64) {
	t.Helper()
	c := testcluster.RunBubble(t, 3)
	var runs, now, top atomic.Int64
	job := func() {
		runs.Add(1)
		if n := now.Add(1); n > top.Load() {
			top.Store(n)
		}
		time.Sleep(length)
		now.Add(-1)
	}
	for range instances {
		var nodes []redlock.Node
		for _, n := range c.Nodes {
			nodes = append(nodes, redlock.Node{Name: n.Name(), Pool: n.Pool()})
		}
		r, err := redlock.New(nodes)
		require.NoError(t, err)
		defer func() { assert.NoError(t, r.Close(t.Context())) }()
		s, err := gocron.NewScheduler(options(r)...)
		require.NoError(t, err)
		_, err = s.NewJob(gocron.DurationJob(tick), gocron.NewTask(job), gocron.WithName("report"))
		require.NoError(t, err)
		defer func() { assert.NoError(t, s.Shutdown()) }()
		s.Start()
		time.Sleep(time.Second) // Their clocks are apart.
	}
	time.Sleep(all - instances*time.Second)
	synctest.Wait()
	return runs.Load(), top.Load()
}

func withLocker(ttl time.Duration) func(r *redlock.Redlock) []gocron.SchedulerOption {
	return func(r *redlock.Redlock) []gocron.SchedulerOption {
		return []gocron.SchedulerOption{gocron.WithDistributedLocker(Locker{Redlock: r, TTL: ttl, Tick: tick / 2})}
	}
}

func TestOneInstanceRunsAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, most := run(t, 5*tick+5*time.Second, time.Millisecond, withLocker(tick))
		assert.Equal(t, int64(5), runs, "once per tick")
		assert.Equal(t, int64(1), most)
	})
}

// A job that runs for longer than the lock's ttl keeps others out all the same.
func TestALongJobKeepsOthersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// From 10 s to 25 s, 30 s to 45 s, 50 s to 65 s.
		runs, most := run(t, 68*time.Second, tick+tick/2, withLocker(tick/2))
		assert.Equal(t, int64(3), runs)
		assert.Equal(t, int64(1), most)
	})
}

// It is the locker that does it.
func TestWithoutALockerAllRunIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, most := run(t, 5*tick+9*time.Second, tick/2, func(*redlock.Redlock) []gocron.SchedulerOption { return nil })
		assert.Greater(t, runs, int64(5))
		assert.Equal(t, int64(instances), most)
	})
}
