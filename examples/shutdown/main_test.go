package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/examples/internal/stagetest"
	"github.com/seed6c881748/redlock/redlock"
)

func requireHolding(t *testing.T, s *stage.Stage, want int, resources ...string) {
	t.Helper()
	for _, res := range resources {
		require.Equal(t, want, s.Holding(res), res)
	}
}

// start serves jobs. Its first result tells the process to end, the second one gets
// what serve returned.
func start(t *testing.T, r *redlock.Redlock, jobs ...func(context.Context) error) (context.CancelFunc, <-chan error) {
	t.Helper()
	stop, terminate := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- serve(stop, r, jobs...) }()
	return terminate, served
}

func TestShutdownLeavesNothing(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		r := s.Client()
		wound := make(chan string, 2)
		step := func(ctx context.Context) error { return stage.Sleep(ctx, time.Second) }
		run := func(name string) func(context.Context) error {
			return func(ctx context.Context) error {
				return job(ctx, r, name, step, func(ctx context.Context) error {
					if holding := s.Holding(name); holding != 5 {
						t.Errorf("%d nodes hold %s", holding, name)
					}
					if left := time.Until(deadline(ctx)); left < ttl*6/10 {
						t.Errorf("%v left", left)
					}
					wound <- name
					return stage.Sleep(ctx, 10*time.Second)
				})
			}
		}
		kept := func(ctx context.Context) error {
			lock, lockErr := r.Lock(ctx, []string{"kept"}, ttl)
			if lockErr != nil {
				return lockErr
			}
			held := lock.KeepAlive(ctx)
			<-held.Done()
			if cause := context.Cause(held); !errors.Is(cause, redlock.ErrClosed) {
				t.Errorf("ended by %v", cause)
			}
			return lock.Unlock(ctx)
		}
		terminate, served := start(t, r, run("a"), run("b"), run("b"), kept)
		time.Sleep(3 * ttl)
		requireHolding(t, s, 5, "a", "b", "kept")

		told := time.Now()
		terminate()
		require.NoError(t, <-served)
		require.Equal(t, 10*time.Second, time.Since(told).Round(time.Second))
		require.ElementsMatch(t, []string{"a", "b"}, []string{<-wound, <-wound})
		requireHolding(t, s, 0, "a", "b", "kept")
		_, err := r.TryLock(t.Context(), []string{"late"}, ttl)
		require.ErrorIs(t, err, redlock.ErrClosed)
	})
}

func TestShutdownDoesNotWaitForEver(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		r := s.Client()
		deaf := make(chan struct{})
		terminate, served := start(t, r, func(ctx context.Context) error {
			return r.Do(ctx, []string{"a"}, ttl, func(context.Context, *redlock.Lock) error {
				<-deaf
				return nil
			})
		})
		time.Sleep(ttl)
		told := time.Now()
		terminate()
		require.ErrorIs(t, <-served, context.DeadlineExceeded)
		require.Equal(t, grace, time.Since(told).Round(time.Second))
		time.Sleep(ttl) // What is left ends with its ttl, as nobody extends it.
		requireHolding(t, s, 0, "a")
		close(deaf)
	})
}

func TestShutdownRuns(t *testing.T) {
	stagetest.Runs(t, func(ctx context.Context, s *stage.Stage) {
		stop, terminate := context.WithCancel(ctx)
		defer terminate()
		tell(ctx, s, stop, terminate)
	})
}
