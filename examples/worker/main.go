// Worker does a long job step by step, and stops cleanly when its lock is lost in
// the middle:
//
//	go run ./examples/worker
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

const (
	job = "import"
	ttl = 2 * time.Second
)

// A worker does what is left of the job. There is one in every process.
type worker struct {
	r        *redlock.Redlock
	progress *stage.Store[int] // the steps that are done
	steps    int
	step     func(ctx context.Context, n int) error
}

// work goes on where the last worker has stopped. It returns nil only if the job is
// done and the lock was held to the end.
func (w *worker) work(ctx context.Context) error {
	return w.r.Do(ctx, []string{job}, ttl, func(ctx context.Context, _ *redlock.Lock) error {
		done, err := w.progress.Get(ctx, job) // Under the lock, never before it.
		if err != nil {
			return err
		}
		for ; done < w.steps; done++ {
			// Between two steps is the place to stop. ctx ends when the lock does, and its
			// cause says why: ErrLost (somebody else may have it), ErrExpired (the nodes
			// cannot be reached), ErrClosed (this process shuts down), or the caller's.
			if ctx.Err() != nil {
				return fmt.Errorf("stopped after %d of %d steps: %w", done, w.steps, context.Cause(ctx))
			}
			// A step gets the context, too, and so do the requests that it makes.
			if err := w.step(ctx, done); err != nil {
				return err
			}
			// The lock may have been lost during the step. The store does not write then, and
			// the next worker repeats the step: it must bear that. What does not needs a
			// fence, for the same reason: a lock cannot take back what is on its way.
			if err := w.progress.Set(ctx, job, done+1); err != nil {
				return err
			}
		}
		return nil
	})
}

func main() { stage.Main(tell) }

func tell(ctx context.Context, s *stage.Stage) {
	clients := s.Clients(2, redlock.WithRetryCount(-1))
	const steps, robbery = 40, 8
	progress := stage.NewStore[int](10 * time.Millisecond)
	first := &worker{r: clients[0], progress: progress, steps: steps, step: func(ctx context.Context, n int) error {
		if n == robbery {
			s.Say("A mishap: on three of five nodes, the key is somebody else's now.")
			s.Rob(3, job)
		}
		return stage.Sleep(ctx, 100*time.Millisecond)
	}}
	s.Say("The first worker begins: %d steps.", steps)
	err := first.work(ctx)
	done := stage.Got(progress.Get(ctx, job))
	stage.Check(done >= robbery && errors.Is(err, redlock.ErrLost), "the lock should have been lost: %w", err)
	s.Say("The first worker has noticed that the lock is lost, and has stopped after %d steps.", done)

	for _, n := range s.Nodes[:3] {
		stage.Must(n.Del(job))
	}
	next := done
	second := &worker{r: clients[1], progress: progress, steps: steps, step: func(ctx context.Context, n int) error {
		stage.Check(n == next, "step %d comes after %d", n, next-1)
		next++
		return stage.Sleep(ctx, 20*time.Millisecond)
	}}
	s.Say("The key is free again, and the second worker begins.")
	stage.Must(second.work(ctx))
	stage.Check(next == steps && done < steps, "%d steps were done before, and then those before %d", done, next)
	s.Say("The second worker has done the steps from %d to %d.", done+1, steps)
}
