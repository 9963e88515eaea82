package redlockcron

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/redlock/ticks"
)

const (
	ttl     = 30 * time.Second
	minHold = 10 * time.Second
	wait    = ticks.MaxWait
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A record is a logger that keeps what it is told.
type record struct {
	mu    sync.Mutex
	lines []string
	errs  []error
}

func (r *record) Info(msg string, keysAndValues ...any) { r.add("info", nil, msg, keysAndValues) }

func (r *record) Error(err error, msg string, keysAndValues ...any) {
	r.add("error", err, msg, keysAndValues)
}

func (r *record) add(level string, err error, msg string, keysAndValues []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line := level + " " + msg
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		line += fmt.Sprintf(" %v=%v", keysAndValues[i], keysAndValues[i+1])
	}
	r.lines, r.errs = append(r.lines, line), append(r.errs, err)
}

// with returns the lines that begin so, and their errors.
func (r *record) with(prefix string) (lines []string, errs []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, line := range r.lines {
		if strings.HasPrefix(line, prefix) {
			lines, errs = append(lines, line), append(errs, r.errs[i])
		}
	}
	return lines, errs
}

// told returns the lines that begin so.
func (r *record) told(prefix string) []string {
	lines, _ := r.with(prefix)
	return lines
}

// A process is a Cron with a Redlock and a Locker of its own, and what its logger was told.
type process struct {
	*cron.Cron
	r      *redlock.Redlock
	locker *Locker
	log    *record
}

// newProcess is to be called in a bubble. Its clock is late by as much as behind.
func newProcess(t *testing.T, cluster *redlocktest.Cluster, name string, behind time.Duration, wrappers ...cron.JobWrapper) *process {
	t.Helper()
	late := func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			time.Sleep(behind)
			job.Run()
		})
	}
	p := &process{r: cluster.NewRedlock(), log: &record{}}
	p.locker = must(NewLocker(p.r, p.log, ttl, minHold, redlock.WithOwner(name)))
	p.Cron = cron.New(cron.WithLogger(cron.DiscardLogger), cron.WithChain(append(wrappers, cron.Recover(p.log), late)...))
	p.Start()
	t.Cleanup(func() { <-p.Stop().Done() })
	return p
}

func (p *process) every(t *testing.T, job cron.Job) {
	t.Helper()
	_, err := p.AddJob("* * * * *", job)
	require.NoError(t, err)
}

// runs counts runs of a job, and how many there are at a time.
type runs struct {
	mu              sync.Mutex
	all, now, most  int
	length          time.Duration
	endsWithContext bool
}

func (r *runs) run(ctx context.Context) error {
	r.count(1)
	defer r.count(-1)
	ended := ctx.Done()
	if !r.endsWithContext {
		ended = nil
	}
	select {
	case <-ended:
		return context.Cause(ctx)
	case <-time.After(r.length):
		return nil
	}
}

func (r *runs) Run() { _ = r.run(context.Background()) }

func (r *runs) count(by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now += by
	r.all += max(by, 0)
	r.most = max(r.most, r.now)
}

func (r *runs) times() int {
	all, _ := r.counted()
	return all
}

func (r *runs) counted() (all, most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all, r.most
}
