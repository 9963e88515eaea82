// Lottery is an HTTP handler that draws a reward for one credit of the user, and
// never two for the last one:
//
//	go run ./examples/lottery
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

const ttl = 5 * time.Second

var (
	errNoCredit = errors.New("no credit left")
	errUnknown  = errors.New("the credit may have been taken")
)

// A lottery is what the handler needs. There is one in every process.
type lottery struct {
	r       *redlock.Redlock
	credits *stage.Store[int] // by user
	reward  func() string
}

// ServeHTTP answers POST /draw/{user}.
func (l *lottery) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	reward, err := l.draw(req.Context(), req.PathValue("user"))
	switch {
	case err == nil:
		_, _ = fmt.Fprintln(w, reward)
	case errors.Is(err, redlock.ErrTaken):
		// The user has pressed the button twice. The first request is on its way.
		http.Error(w, "a draw of yours is running", http.StatusConflict)
	case errors.Is(err, errNoCredit):
		http.Error(w, err.Error(), http.StatusPaymentRequired)
	case errors.Is(err, errUnknown):
		// Not 503, which asks for a repetition: it might take a second credit.
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		// Nothing was done. ErrNoQuorum above all: nobody can know whether the lock is
		// free, so there is no reward now. ErrClosed while the process shuts down; a lock
		// that was lost before the credit was taken.
		w.Header().Set("Retry-After", "1")
		http.Error(w, "try again later", http.StatusServiceUnavailable)
	}
}

// draw takes one credit of the user for a reward.
func (l *lottery) draw(ctx context.Context, user string) (reward string, err error) {
	// TryLock, as a user who waits for a lock presses the button once more.
	lock, err := l.r.TryLock(ctx, []string{"lottery:" + user}, ttl)
	if err != nil {
		return "", err
	}
	// Before the answer, so that the next request of this user finds the lock free.
	// Nothing is done about an error: the credit is taken, and the keys end by themselves.
	defer func() { _ = lock.Unlock(ctx) }()

	// The lock is not extended: a request that takes longer has failed anyway.
	ctx, cancel := context.WithDeadline(ctx, lock.Until())
	defer cancel()
	// Read under the lock, never before it.
	credits, err := l.credits.Get(ctx, user)
	if err != nil {
		return "", err
	}
	if credits < 1 {
		return "", errNoCredit
	}
	// Is it still held? The store refuses when ctx has ended; Err looks at the wall
	// clock as well. A process can still be suspended right after it, so where the
	// store has a condition, use it, too: UPDATE … WHERE credits = 1.
	if err := lock.Err(); err != nil {
		return "", err
	}
	// First the credit, then the reward: who dies in between owes one.
	if err := l.credits.Set(ctx, user, credits-1); err != nil {
		return "", fmt.Errorf("%w: %w", errUnknown, err)
	}
	return l.reward(), nil
}

func main() { stage.Main(tell) }

const user = "ann"

func tell(ctx context.Context, s *stage.Stage) {
	handlers, credits := open(ctx, s, 300*time.Millisecond)
	s.Say("Ann has one credit, and presses the button three times. Her requests go to three processes.")
	answers := make([]*httptest.ResponseRecorder, len(handlers))
	stage.Together(len(handlers), func(i int) error {
		answers[i] = post(ctx, handlers[i])
		return nil
	})
	rewards := 0
	for _, a := range answers {
		s.Say("    %s", line(a))
		// A request that came only after the first was done has got 402 instead of 409.
		if a.Code == http.StatusOK {
			rewards++
		}
	}
	stage.Check(rewards == 1, "%d rewards for one credit", rewards)

	s.Say("She tries again.")
	again := post(ctx, handlers[0])
	s.Say("    %s", line(again))
	stage.Check(again.Code == http.StatusPaymentRequired, "status %d without a credit", again.Code)

	s.Say("She buys a credit, but three of five nodes die.")
	stage.Must(credits.Set(ctx, user, 1))
	s.Kill(3)
	dead := post(ctx, handlers[0])
	s.Say("    %s", line(dead))
	left := stage.Got(credits.Get(ctx, user))
	stage.Check(left == 1 && dead.Code == http.StatusServiceUnavailable, "status %d, and %d credits left", dead.Code, left)
	s.Say("She still has it.")
}

// open returns the handlers of three processes, which share the store, and in it a credit.
func open(ctx context.Context, s *stage.Stage, delay time.Duration) ([]http.Handler, *stage.Store[int]) {
	credits := stage.NewStore[int](delay)
	stage.Must(credits.Set(ctx, user, 1))
	var handlers []http.Handler
	for _, r := range s.Clients(3) {
		mux := http.NewServeMux()
		mux.Handle("POST /draw/{user}", &lottery{r: r, credits: credits, reward: func() string { return "a teddy bear" }})
		handlers = append(handlers, mux)
	}
	return handlers, credits
}

func post(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/draw/"+user, http.NoBody))
	return w
}

func line(w *httptest.ResponseRecorder) string {
	return fmt.Sprintf("%d: %s", w.Code, strings.TrimSpace(w.Body.String()))
}
