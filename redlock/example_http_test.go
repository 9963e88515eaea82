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

// reports is a handler that makes a report, on one machine at a time, and does not wait.
type reports struct {
	r    *redlock.Redlock
	make func(ctx context.Context) error
}

func (s *reports) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	err := s.r.Do(req.Context(), []string{"report"}, 10*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
		return s.make(ctx)
	}, redlock.WithRetryCount(0))

	notMade := errors.Is(err, redlock.ErrNotAcquired) // make was not called.
	switch {
	case err == nil:
		w.WriteHeader(http.StatusOK)
	case notMade && errors.Is(err, redlock.ErrTaken):
		comeBack(w, http.StatusConflict, err)
	case notMade && errors.Is(err, redlock.ErrNoQuorum):
		comeBack(w, http.StatusServiceUnavailable, err)
	default:
		// Not 503, which asks for a repetition: the report was made if the lock was lost, and may have been
		// made in part if make failed.
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// comeBack refuses, and says when to ask again.
func comeBack(w http.ResponseWriter, status int, err error) {
	wait := time.Second // A guess, for votes that do not say: nodes that do not answer, for one.
	if refused := (*redlock.QuorumError)(nil); errors.As(err, &refused) && refused.RetryAfter() > 0 {
		wait = refused.RetryAfter()
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	w.WriteHeader(status)
}

// A handler that answers 409 while somebody else is at work, 503 while too few nodes answer, both with the
// time to come back, and 500 where the work itself has failed.
func Example_httpHandler() {
	r, err := redlock.New([]redlock.Node{redlock.NewNode("127.0.0.1:1")}) // Nothing answers there.
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(context.Background())
	handler := &reports{r: r, make: func(context.Context) error { return nil }}

	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/report", nil))
	fmt.Println(answer.Code, answer.Header().Get("Retry-After"))
	// Output: 503 1
}
