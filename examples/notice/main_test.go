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
	"github.com/seed6c881748/redlock/test/testkit"
)

// A container sends by these times, which are long enough for one to stand still.
const minute = time.Minute

func sendBy(t *testing.T, r *redlock.Redlock, send func(context.Context) error) (bool, error) {
	t.Helper()
	return sendOnce(t.Context(), r, minute, minute/2, minute/5, send)
}

func done(context.Context) error { return nil }

func TestNoticeIsSentOncePerTick(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		clients := s.Clients(containers)
		require.Equal(t, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, play(t.Context(), s, clients, hold, 10))
		require.Equal(t, []int{containers, containers}, play(t.Context(), s, clients, 0, 2))
	})
}

func TestNoticeOfASenderThatFailsIsNotSentByAnother(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		clients := s.Clients(2)
		broken := errors.New("mail server is down")
		sent, err := sendBy(t, clients[0], func(context.Context) error { return broken })
		require.ErrorIs(t, err, broken)
		require.False(t, sent)
		require.False(t, stage.Got(sendBy(t, clients[1], done)))
		time.Sleep(minute - time.Second) // The next tick, a bit early.
		require.True(t, stage.Got(sendBy(t, clients[1], done)))
	})
}

func TestNoticeIsSentThoughTheFirstContainerGetsNoLock(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		clients := s.Clients(2)
		first := stage.Got(clients[0].TryLock(t.Context(), []string{"notice:daily"}, minute))
		unlocked := make(chan error, 1)
		time.AfterFunc(time.Second, func() { unlocked <- first.Unlock(t.Context()) }) // As an attempt that fails releases.
		require.True(t, stage.Got(sendBy(t, clients[1], done)))
		require.NoError(t, <-unlocked)
	})
}

func TestNoticeIsNotSentWithALockThatComesLate(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		r := s.Client(redlock.WithTracer(testkit.Standstill(minute / 4)))
		require.False(t, stage.Got(sendBy(t, r, func(context.Context) error { return errors.New("sent late") })))
	})
}

func TestNoticeEndsWithItsLock(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		start := time.Now()
		sent, err := sendBy(t, s.Client(), func(ctx context.Context) error { return stage.Sleep(ctx, time.Hour) })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, sent)
		require.Less(t, time.Since(start), minute*3/4)
	})
}

func TestNoticeRuns(t *testing.T) { stagetest.Runs(t, tell) }
