package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/examples/internal/recipetest"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

const tick = time.Minute

func TestNoticeIsSentOncePerTick(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		clients := recipetest.Clients(t, s, containers)
		sent, err := play(t.Context(), s, clients, tick, tick/2, tick/5, 10)
		require.NoError(t, err)
		require.Equal(t, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, sent)
	})
}

func TestNoticeIsSentByEachWithoutMinHold(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		clients := recipetest.Clients(t, s, containers)
		sent, err := play(t.Context(), s, clients, tick, 0, tick/5, 2)
		require.NoError(t, err)
		require.Equal(t, []int{containers, containers}, sent)
	})
}

func TestNoticeOfASenderThatFailsIsNotSentByAnother(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		clients := recipetest.Clients(t, s, 2)
		broken := errors.New("mail server is down")
		sent, err := sendOnce(t.Context(), clients[0], tick, tick/2, tick/5, func(context.Context) error { return broken })
		require.ErrorIs(t, err, broken)
		require.False(t, sent)

		send := func(context.Context) error { return nil }
		sent, err = sendOnce(t.Context(), clients[1], tick, tick/2, tick/5, send)
		require.NoError(t, err)
		require.False(t, sent)

		time.Sleep(tick - time.Second) // The next tick, a bit early.
		sent, err = sendOnce(t.Context(), clients[1], tick, tick/2, tick/5, send)
		require.NoError(t, err)
		require.True(t, sent)
	})
}

func TestNoticeIsSentThoughTheFirstContainerGetsNoLock(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		clients := recipetest.Clients(t, s, 2)
		first, err := clients[0].TryLock(t.Context(), []string{"notice:daily"}, tick)
		require.NoError(t, err)
		var stalls sync.WaitGroup
		defer stalls.Wait()
		stalls.Go(func() {
			time.Sleep(time.Second)
			assert.NoError(t, first.Unlock(t.Context())) // As an attempt that fails releases.
		})
		sent, err := sendOnce(t.Context(), clients[1], tick, tick/2, tick/5, func(context.Context) error { return nil })
		require.NoError(t, err)
		require.True(t, sent)
	})
}

func TestNoticeIsNotSentWithALockThatComesLate(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		r := recipetest.Client(t, s, redlock.WithTracer(testkit.Standstill(tick/4)))
		sent, err := sendOnce(t.Context(), r, tick, tick/2, tick/5, func(context.Context) error {
			t.Error("sent late")
			return nil
		})
		require.NoError(t, err)
		require.False(t, sent)
	})
}

func TestNoticeEndsWithItsLock(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, s *recipe.Stage) {
		r := recipetest.Client(t, s)
		start := time.Now()
		sent, err := sendOnce(t.Context(), r, tick, tick/2, tick/5, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, sent)
		require.Less(t, time.Since(start), tick*3/4)
	})
}

func TestNoticeRuns(t *testing.T) {
	recipetest.Runs(t, func(ctx context.Context, s *recipe.Stage) error {
		return tell(ctx, s, time.Second)
	})
}
