package redlockcron

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/redlock/ticks"
	"github.com/seed6c881748/redlock/test/testkit"
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

// told returns the lines that begin so, and their errors.
func (r *record) told(prefix string) (lines []string, errs []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, line := range r.lines {
		if strings.HasPrefix(line, prefix) {
			lines, errs = append(lines, line), append(errs, r.errs[i])
		}
	}
	return lines, errs
}

// requireTold requires so many lines that begin so, and that their errors match.
func (r *record) requireTold(t *testing.T, n int, prefix string, matches error) {
	t.Helper()
	lines, errs := r.told(prefix)
	require.Len(t, lines, n, r.lines)
	for _, err := range errs {
		require.ErrorIs(t, err, matches)
	}
}

// A process is a Cron with a Redlock and a Locker of its own, and what its logger was told.
type process struct {
	*cron.Cron
	r      *redlock.Redlock
	locker *Locker
	log    *record
}

// newProcess is to be called in a bubble. Its clock is late by as much as behind.
func newProcess(t *testing.T, cluster *redlocktest.Cluster, name string, behind time.Duration) *process {
	t.Helper()
	late := func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			time.Sleep(behind)
			job.Run()
		})
	}
	p := &process{r: cluster.NewRedlock(), log: &record{}}
	p.locker = must(NewLocker(p.r, p.log, ttl, minHold, redlock.WithOwner(name)))
	p.Cron = cron.New(cron.WithLogger(cron.DiscardLogger), cron.WithChain(cron.Recover(p.log), late))
	p.Start()
	t.Cleanup(func() { <-p.Stop().Done() })
	return p
}

func (p *process) every(t *testing.T, job cron.Job) {
	t.Helper()
	_, err := p.AddJob("* * * * *", job)
	require.NoError(t, err)
}

// runs counts the runs of a job.
type runs struct {
	count           atomic.Int64
	length          time.Duration
	endsWithContext bool
}

func (r *runs) run(ctx context.Context) error {
	r.count.Add(1)
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

func (r *runs) times() int { return int(r.count.Load()) }

// A job runs once per tick over three processes whose clocks are a second apart. The others' loggers hear who ran it.
func TestOneProcessRunsAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, r := redlocktest.New(t, 3), &runs{length: time.Millisecond}
		all := make([]*process, 3)
		for i := range all {
			all[i] = newProcess(t, cluster, fmt.Sprint("machine", i), time.Duration(i)*time.Second)
			all[i].every(t, all[i].locker.Wrapper("report")(r))
		}
		time.Sleep(5*time.Minute + minHold)
		assert.Equal(t, 5, r.times(), "once per tick")
		for _, p := range all {
			p.log.requireTold(t, 0, "error", nil)
		}
		for _, p := range all[1:] {
			p.log.requireTold(t, 5, "info skip job=report holder=machine0 for=", nil)
		}
		time.Sleep(minHold)
		cluster.AssertFree()
	})
}

// What a standstill has taken of the second since the tick comes off the wait, or a late process would find the lock of
// its own tick free again.
func TestAStandstillIsNoWait(t *testing.T) {
	const minHold = 900 * time.Millisecond
	for _, late := range []time.Duration{0, 290 * time.Millisecond, 590 * time.Millisecond, 740 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			cluster, r, log := redlocktest.New(t, 3), &runs{}, &record{}
			one := must(NewLocker(cluster.Redlock, log, ttl, minHold)).Func("report", r.run)
			two := must(NewLocker(cluster.NewRedlock(), log, minHold, minHold)).Func("report", r.run) // It waits to the end.
			one.Run()
			time.Sleep(late)
			two.Run()
			assert.Equal(t, 1, r.times(), "%v late", late)
			log.requireTold(t, 1, "info skip", nil)
		})
	}
}

// Whoever comes first may stand still, and give up: the others wait for two thirds of the min hold.
func TestATickIsRunThoughTheWinnerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, r := redlocktest.New(t, 3), &runs{}
		job := must(NewLocker(cluster.NewRedlock(), &record{}, ttl, 900*time.Millisecond)).Func("report", r.run)
		first, err := cluster.Redlock.TryLock(t.Context(), []string{"cron:report"}, ttl)
		require.NoError(t, err)
		time.AfterFunc(590*time.Millisecond, func() { _ = first.Unlock(t.Context()) })
		job.Run()
		assert.Equal(t, 1, r.times())
	})
}

// If all are late, somebody runs the job all the same.
func TestALateProcessRunsAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runs{}
		job := must(NewLocker(redlocktest.New(t, 3).Redlock, &record{}, ttl, 900*time.Millisecond)).Func("report", r.run)
		time.Sleep(999 * time.Millisecond)
		job.Run()
		assert.Equal(t, 1, r.times())
	})
}

// Without a quorum nobody runs a job. It is no skip, even if a node that answers says that another process has the lock.
func TestNobodyRunsAJobWithoutAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, r := redlocktest.New(t, 3), &runs{}
		p := newProcess(t, cluster, "", 0)
		p.every(t, p.locker.Func("report", r.run))
		release := cluster.Take("cron:report", time.Hour)
		cluster.StopMajority()
		time.Sleep(time.Minute + minHold)
		assert.Zero(t, r.times())
		p.log.requireTold(t, 1, "error job not run job=report", redlock.ErrNoQuorum)
		p.log.requireTold(t, 0, "info", nil)
		cluster.Recover()
		release()
		time.Sleep(time.Minute)
		assert.Equal(t, 1, r.times())
	})
}

// A job's context ends with its lock, and says why. A plain job goes on. The logger hears of both.
func TestALostLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		hears, deaf := &runs{length: time.Minute, endsWithContext: true}, &runs{length: 50 * time.Second}
		p := newProcess(t, cluster, "", 0)
		p.every(t, p.locker.Func("hears", hears.run))
		p.every(t, p.locker.Wrapper("deaf")(deaf))
		time.Sleep(time.Minute + time.Second)
		cluster.Forget("cron:hears")
		cluster.Forget("cron:deaf")
		time.Sleep(ttl)
		p.log.requireTold(t, 1, "error lock lost before the job was over job=hears", redlock.ErrLost)
		p.log.requireTold(t, 0, "error lock lost before the job was over job=deaf", nil) // It goes on.
		time.Sleep(25 * time.Second)
		p.log.requireTold(t, 1, "error lock lost before the job was over job=deaf", redlock.ErrLost)
		time.Sleep(time.Minute)
	})
}

// The logger hears of a job's error. A panic releases the lock, and goes on to what stands before the Locker.
func TestAJobThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		p := newProcess(t, cluster, "", 0)
		full := errors.New("the disk is full")
		p.every(t, p.locker.Func("report", func(ctx context.Context) error {
			_, held := redlock.FromContext(ctx)
			assert.True(t, held)
			return full
		}))
		p.every(t, p.locker.Func("broken", func(context.Context) error { panic("broken") }))
		time.Sleep(2*time.Minute + minHold)
		p.log.requireTold(t, 2, "error job failed job=report", full)
		panics, _ := p.log.told("error panic")
		assert.Len(t, panics, 2, "its lock was released each time")
		cluster.AssertFree()
	})
}

// Stop ends neither waits nor runs. Close ends waits, and the contexts of runs.
func TestStopAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		r := &runs{length: time.Minute, endsWithContext: true}
		p := newProcess(t, cluster, "", 0)
		p.every(t, p.locker.Func("runs", r.run))
		p.every(t, p.locker.Func("waits", r.run))
		release := cluster.Take("cron:waits", time.Hour)
		time.Sleep(time.Minute + time.Second)
		stopped := p.Stop()
		synctest.Wait()
		require.NoError(t, stopped.Err())
		release()
		time.Sleep(time.Second)
		assert.Equal(t, 2, r.times(), "what waited at Stop has run")

		require.NoError(t, p.r.Close(t.Context()))
		<-stopped.Done()
		p.log.requireTold(t, 2, "error job failed job=", redlock.ErrClosed)

		p = newProcess(t, cluster, "", 0)
		p.every(t, p.locker.Func("waits", r.run))
		defer cluster.Take("cron:waits", time.Hour)()
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second)))
		require.NoError(t, p.r.Close(t.Context()))
		synctest.Wait()
		p.log.requireTold(t, 1, "error job not run job=waits", redlock.ErrClosed)
		p.log.requireTold(t, 0, "info", nil)
	})
}

// A lock that comes when the wait is over is not used: another process may have run the job by then.
func TestALockThatComesLateIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, r := &record{}, &runs{}
		cluster := redlocktest.New(t, 3, redlock.WithTracer(testkit.Standstill(wait)))
		must(NewLocker(cluster.Redlock, log, ttl, minHold)).Func("report", r.run).Run()
		assert.Zero(t, r.times())
		log.requireTold(t, 1, "error job not run job=report", context.DeadlineExceeded)
		cluster.AssertFree() // Not for the min hold: the next tick is to be run.
	})
}

func TestArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, log := redlocktest.New(t, 1), &record{}
		cluster.StopMajority() // Nobody is asked.
		r := cluster.Redlock
		start := time.Now()
		for _, minHold := range []time.Duration{-1, 0, ttl + 1} {
			_, err := NewLocker(r, log, ttl, minHold)
			require.ErrorContains(t, err, minHold.String())
		}
		_, err := NewLocker(nil, log, ttl, minHold)
		require.ErrorContains(t, err, "no Redlock")
		_, err = NewLocker(r, nil, ttl, minHold)
		require.ErrorContains(t, err, "no logger")
		_, err = NewLocker(r, log, ttl, minHold, redlock.WithDriftFactor(2))
		require.ErrorContains(t, err, "drift factor 2")
		_, err = NewLocker(r, log, ttl, minHold, redlock.WithStopTime(ttl))
		require.ErrorContains(t, err, "stop time")

		l := must(NewLocker(r, log, ttl, minHold))
		l.Func("", func(context.Context) error { return nil }).Run()
		l.Func("report", nil).Run()
		told, _ := log.told("error job not run job=")
		require.Len(t, told, 2)
		require.Equal(t, start, time.Now())
		cluster.Recover()
	})
}

// A wrapper in the Cron's chain would have all jobs share a name.
func TestAWrapperIsForOneJob(t *testing.T) {
	log := &record{}
	wrapper := (&Locker{logger: log}).Wrapper("report")
	wrapper(cron.FuncJob(func() {}))
	require.Empty(t, log.lines)
	wrapper(cron.FuncJob(func() {}))
	require.Len(t, log.lines, 1)
	require.Contains(t, log.lines[0], "error job not alone job=report")
}

func TestHolder(t *testing.T) {
	taken := func(holder, owner string, left time.Duration) redlock.Vote {
		return redlock.Vote{Err: redlock.ErrTaken, Holder: holder, Owner: owner, HolderTTL: left}
	}
	who, left := holder([]redlock.Vote{{}, taken("b", "two", 2), taken("b", "two", 3), taken("a", "one", 1), {Err: redlock.ErrNodeTimeout}})
	assert.Equal(t, "two", who)
	assert.EqualValues(t, 3, left)
	who, _ = holder([]redlock.Vote{taken("a", "", 1)})
	assert.Equal(t, "a", who, "without a label")
	who, _ = holder([]redlock.Vote{taken("", "", 1)})
	assert.Equal(t, "another waiter", who)
}
