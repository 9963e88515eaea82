package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// makeReport answers 409 while somebody else makes the report, and 503 while too few nodes answer.
func makeReport(w http.ResponseWriter, req *http.Request) {
	err := r.Do(req.Context(), []string{"report"}, 10*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
		return ctx.Err() // Or the work, with ctx.
	}, redlock.WithRetryCount(0))

	if failed := (*redlock.QuorumError)(nil); errors.As(err, &failed) && failed.RetryAfter() > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(failed.RetryAfter().Seconds()))))
	}
	switch {
	case err == nil:
		w.WriteHeader(http.StatusOK)
	case errors.Is(err, redlock.ErrNotAcquired) && errors.Is(err, redlock.ErrTaken):
		w.WriteHeader(http.StatusConflict)
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// A handler that does not wait, and says when to come back.
func Example_httpHandler() {
	lock, err := other.TryLock(ctx, []string{"report"}, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	answer := httptest.NewRecorder()
	makeReport(answer, httptest.NewRequest(http.MethodPost, "/report", nil))
	fmt.Println(answer.Code, answer.Header().Get("Retry-After") != "")

	_ = lock.Unlock(ctx)
	answer = httptest.NewRecorder()
	makeReport(answer, httptest.NewRequest(http.MethodPost, "/report", nil))
	fmt.Println(answer.Code, answer.Header().Get("Retry-After") != "")
	// Output:
	// 409 true
	// 200 false
}
