package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/examples/internal/stagetest"
	"github.com/seed6c881748/redlock/redlock"
)

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
		terminate, served := start(t, r, run("a"), run("b"), run("b"))
		time.Sleep(3 * ttl)
		told := time.Now()
		terminate()
		require.NoError(t, <-served)
		require.Equal(t, 10*time.Second, time.Since(told).Round(time.Second))
		require.ElementsMatch(t, []string{"a", "b"}, []string{<-wound, <-wound})
		require.Zero(t, s.Holding("a")+s.Holding("b"))
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
		require.Zero(t, s.Holding("a"))
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
