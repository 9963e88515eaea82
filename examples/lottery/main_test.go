package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/examples/internal/stagetest"
)

func TestLotteryAnswersAtOnceWhileTheLockIsTaken(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		handlers, _ := open(t.Context(), s, time.Second)
		first := make(chan *httptest.ResponseRecorder)
		go func() { first <- post(t.Context(), handlers[0]) }()
		synctest.Wait() // The first one has the lock and waits for the store.
		start := time.Now()
		require.Equal(t, http.StatusConflict, post(t.Context(), handlers[1]).Code)
		require.Zero(t, time.Since(start))
		require.Equal(t, http.StatusOK, (<-first).Code)
		// The lock was released before the answer was there.
		require.Equal(t, http.StatusPaymentRequired, post(t.Context(), handlers[1]).Code)
	})
}

func TestLotteryTakesNoCreditAfterItsLock(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		handlers, credits := open(t.Context(), s, 2*ttl) // Slower than the lock is long.
		require.Equal(t, http.StatusServiceUnavailable, post(t.Context(), handlers[0]).Code)
		require.Equal(t, 1, stage.Got(credits.Get(context.Background(), user)))
		synctest.Wait() // For the release on the other nodes.
		require.Zero(t, s.Holding("lottery:"+user))
	})
}

// One reward is given for the last credit.
func TestLotteryRuns(t *testing.T) { stagetest.Runs(t, tell) }
