package redlockgocron

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
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
	refused   []error
}

// newFleet starts the schedulers a second apart, as their clocks are. In a bubble.
func newFleet(t *testing.T, length time.Duration, option func(i int, r *redlock.Redlock) []gocron.SchedulerOption) *fleet {
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
		s, err := gocron.NewScheduler(option(i, f.cluster.NewRedlock())...)
		require.NoError(t, err)
		job, err := s.NewJob(gocron.DurationJob(tick), gocron.NewTask(f.run, i), gocron.WithName("report"),
			gocron.WithEventListeners(gocron.AfterLockError(f.refuse)))
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

func (f *fleet) refuse(_ uuid.UUID, _ string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = append(f.refused, err)
}

// after returns the runs until so long after the first scheduler's start.
func (f *fleet) after(d time.Duration) []int {
	time.Sleep(time.Until(f.start.Add(d)))
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]int(nil), f.runs...)
}
