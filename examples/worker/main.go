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

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/redlock"
)

const (
	job = "import"
	ttl = 2 * time.Second
)

// A worker does what is left of the job. There is one in every process.
type worker struct {
	r        *redlock.Redlock
	progress *recipe.Store[int] // the steps that are done
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

func main() { recipe.Main(tell) }

func tell(ctx context.Context, s *recipe.Stage) error {
	clients, err := s.Clients(2, redlock.WithRetryCount(-1))
	if err != nil {
		return err
	}
	const steps, robbery = 40, 8
	progress := recipe.NewStore[int](10 * time.Millisecond)
	robbed := false
	first := &worker{r: clients[0], progress: progress, steps: steps, step: func(ctx context.Context, n int) error {
		if n == robbery {
			s.Say("A mishap: on three of five nodes, the key is somebody else's now.")
			robbed = true
			if robErr := rob(s, 3); robErr != nil {
				return robErr
			}
		}
		return recipe.Sleep(ctx, 100*time.Millisecond)
	}}
	s.Say("The first worker begins: %d steps.", steps)
	err = first.work(ctx)
	if !robbed || !errors.Is(err, redlock.ErrLost) {
		return fmt.Errorf("the lock should have been lost: %w", err)
	}
	done, err := progress.Get(ctx, job)
	if err != nil {
		return err
	}
	s.Say("The first worker has noticed that the lock is lost, and has stopped after %d steps.", done)

	for _, n := range s.Nodes[:3] {
		if err := n.Del(job); err != nil {
			return err
		}
	}
	var rest []int
	second := &worker{r: clients[1], progress: progress, steps: steps, step: func(ctx context.Context, n int) error {
		rest = append(rest, n)
		return recipe.Sleep(ctx, 20*time.Millisecond)
	}}
	s.Say("The key is free again, and the second worker begins.")
	if err := second.work(ctx); err != nil {
		return err
	}
	if len(rest) != steps-done || len(rest) == 0 || rest[0] != done {
		return fmt.Errorf("%d steps were done before, then %v", done, rest)
	}
	s.Say("The second worker has done the steps from %d to %d.", done+1, steps)
	return nil
}

// rob gives the lock on n nodes to somebody else.
func rob(s *recipe.Stage, n int) error {
	for _, node := range s.Nodes[:n] {
		if err := node.Set(job, "somebody else", time.Hour); err != nil {
			return err
		}
	}
	return nil
}
