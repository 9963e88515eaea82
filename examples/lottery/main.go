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
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
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
	credits *recipe.Store[int] // by user
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

func main() { recipe.Main(tell) }

const user = "ann"

func tell(ctx context.Context, s *recipe.Stage) error {
	handlers, credits, err := open(s, 300*time.Millisecond)
	if err != nil {
		return err
	}
	if err := credits.Set(ctx, user, 1); err != nil {
		return err
	}
	s.Say("Ann has one credit, and presses the button three times. Her requests go to three processes.")
	answers := make([]*httptest.ResponseRecorder, len(handlers))
	recipe.Together(len(handlers), func(i int) error {
		answers[i] = post(ctx, handlers[i])
		return nil
	})
	statuses := make([]int, len(answers))
	for i, a := range answers {
		statuses[i] = a.Code
		s.Say("    %s", line(a))
	}
	// A request that came only after the first was done has got 402 instead of 409.
	rewards := slices.DeleteFunc(slices.Clone(statuses), func(code int) bool { return code != http.StatusOK })
	if len(rewards) != 1 {
		return fmt.Errorf("%d rewards for one credit: %v", len(rewards), statuses)
	}

	s.Say("She tries again.")
	again := post(ctx, handlers[0])
	s.Say("    %s", line(again))
	if again.Code != http.StatusPaymentRequired {
		return fmt.Errorf("status %d without a credit", again.Code)
	}

	s.Say("She buys a credit, but three of five nodes die.")
	if err := errors.Join(credits.Set(ctx, user, 1), s.Kill(3)); err != nil {
		return err
	}
	dead := post(ctx, handlers[0])
	s.Say("    %s", line(dead))
	if left, err := credits.Get(ctx, user); err != nil || left != 1 || dead.Code != http.StatusServiceUnavailable {
		return fmt.Errorf("status %d, and %d credits left: %w", dead.Code, left, err)
	}
	s.Say("She still has it.")
	return nil
}

// open returns the handlers of three processes, which share the store.
func open(s *recipe.Stage, delay time.Duration) ([]http.Handler, *recipe.Store[int], error) {
	clients, err := s.Clients(3)
	if err != nil {
		return nil, nil, err
	}
	credits := recipe.NewStore[int](delay)
	handlers := make([]http.Handler, len(clients))
	for i, r := range clients {
		mux := http.NewServeMux()
		mux.Handle("POST /draw/{user}", &lottery{r: r, credits: credits, reward: func() string { return "a teddy bear" }})
		handlers[i] = mux
	}
	return handlers, credits, nil
}

func post(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/draw/"+user, http.NoBody))
	return w
}

func line(w *httptest.ResponseRecorder) string {
	return fmt.Sprintf("%d: %s", w.Code, strings.TrimSpace(w.Body.String()))
}
