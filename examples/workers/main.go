// Workers has three processes with a pool of workers each, of which at most five work at the same time,
// whatever becomes of the processes:
//
//	go run ./examples/workers
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
)

const (
	// permits is the same in all processes.
	permits = 5

	// ttl is how long the slot of a worker that has died is not used.
	ttl = 2 * time.Second
)

// A pool is the workers of a process. All of them use one semaphore: so they are served in their order.
type pool struct {
	s  *semaphore.Semaphore
	do func(ctx context.Context, slot int, job string) error
}

func newPool(r *redlock.Redlock, do func(ctx context.Context, slot int, job string) error) (*pool, error) {
	s, err := semaphore.New(r, "workers", permits, ttl)
	return &pool{s, do}, err
}

// work does jobs until there are no more.
func (p *pool) work(ctx context.Context, jobs <-chan string) error {
	for job := range jobs {
		err := p.s.Do(ctx, func(ctx context.Context, permit *semaphore.Permit) error {
			// ctx ends with the permit. The slot is nobody else's meanwhile: it may be the number of a
			// scratch folder, or of an account at the partner's.
			return p.do(ctx, permit.Slot, job)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", job, err) // It matches ErrNotAcquired if the job was not begun.
		}
	}
	return nil
}

func main() { stage.Main(tell) }

const (
	processes = 3
	workers   = 4 // of each process
	jobs      = 40
	jobTime   = 50 * time.Millisecond
)

// A floor is where the workers of all processes work.
type floor struct {
	mu   sync.Mutex
	busy [permits]string // by slot: the job
	now  int             // how many are at work
	most int
	done int
}

// do is a job that takes its time. Two at the same slot would be in each other's way.
func (f *floor) do(ctx context.Context, slot int, job string) error {
	f.mu.Lock()
	other := f.busy[slot]
	f.busy[slot] = job
	f.now++
	f.most = max(f.most, f.now)
	f.mu.Unlock()
	if other != "" {
		return fmt.Errorf("slot %d is used for %s, too", slot, other)
	}
	err := stage.Sleep(ctx, jobTime)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy[slot] = ""
	f.now--
	f.done++
	return err
}

// workAll has the workers of all processes do so many jobs.
func workAll(ctx context.Context, pools []*pool, number int) error {
	all := make(chan string, number)
	for i := range number {
		all <- fmt.Sprintf("job %d", i+1)
	}
	close(all)
	return errors.Join(stage.Together(len(pools)*workers, func(i int) error { return pools[i/workers].work(ctx, all) })...)
}

// open returns a pool of workers for every process.
func open(s *stage.Stage, f *floor) (pools []*pool) {
	for _, r := range s.Clients(processes) {
		pools = append(pools, stage.Got(newPool(r, f.do)))
	}
	return pools
}

func tell(ctx context.Context, s *stage.Stage) {
	f := &floor{}
	pools := open(s, f) //nolint:contextcheck // It does no I/O.
	play := func(pools []*pool) {
		stage.Must(workAll(ctx, pools, jobs))
		stage.Check(f.most <= permits, "%d at work at the same time", f.most)
		s.Say("%d jobs are done, and never more than %d workers were at work.", f.done, permits)
	}
	s.Say("%d processes with %d workers each share %d permits.", processes, workers, permits)
	play(pools)
	stage.Check(f.most == permits && f.done == jobs, "%d of %d jobs were done, by %d workers at a time", f.done, jobs, f.most)

	// The last process dies with a permit. Nobody releases that, and nobody has to.
	stage.Got(pools[processes-1].s.Acquire(ctx))
	s.Say("One process dies with a permit. The others go on with four, until its ttl of %v is over.", ttl)
	play(pools[:processes-1])

	s.Say("Two of five nodes die.")
	s.Kill(2)
	play(pools[:processes-1])
}
