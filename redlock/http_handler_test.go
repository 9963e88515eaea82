package redlock_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

// The handler of the example says with 503 and 409 that nothing was done, and only then.
func TestExampleOfAnHTTPHandler(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 3, redlock.WithNodeTimeout(10*time.Second))
	post := func(work func(ctx context.Context) error) (code int, retryAfter string) {
		answer := httptest.NewRecorder()
		(&reports{r: c.Redlock, make: work}).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/report", nil))
		return answer.Code, answer.Header().Get("Retry-After")
	}
	never := func(context.Context) error { t.Error("called without a lock"); return nil }

	code, after := post(func(context.Context) error { return nil })
	assert.Equal(t, http.StatusOK, code)
	assert.Empty(t, after)

	release := c.Take("report", time.Minute)
	code, after = post(never)
	assert.Equal(t, http.StatusConflict, code)
	assert.Regexp(t, "^(60|5[0-9]|[1-4][0-9])$", after)
	release()

	for name, work := range map[string]func(ctx context.Context) error{
		"its own error": func(context.Context) error { return errors.New("no paper") },
		"another lock's error": func(ctx context.Context) error {
			defer c.Take("paper", time.Minute)()
			_, err := c.Redlock.TryLock(ctx, []string{"paper"}, time.Second)
			assert.ErrorIs(t, err, redlock.ErrTaken)
			return err
		},
		"done, but the lock was lost": func(ctx context.Context) error {
			lock, ok := redlock.FromContext(ctx)
			require.True(t, ok)
			c.Lose(lock)
			return nil
		},
	} {
		code, after = post(work)
		assert.Equal(t, http.StatusInternalServerError, code, name)
		assert.Empty(t, after, name)
	}

	c.StopMajority()
	code, after = post(never)
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Equal(t, "1", after)
}
