package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A job that only one process may do at a time. doc.go has the same.
func Example() {
	r, err := redlock.New(nodes)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = r.Close(ctx) }()

	err = r.Do(ctx, []string{"account:42"}, 10*time.Second, func(ctx context.Context, lock *redlock.Lock) error {
		// The lock is extended until this function returns. If it is lost all the same, ctx ends.
		fmt.Println("nobody else works on", lock.Resources())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: nobody else works on [account:42]
}

// Without Do: a lock that is not extended ends at Until.
func Example_lockAndUnlock() {
	lock, err := r.Lock(ctx, []string{"account:43"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	work, cancel := context.WithDeadline(ctx, lock.Until())
	defer cancel()
	fmt.Println("time to work:", work.Err() == nil)

	if err := lock.Unlock(ctx); errors.Is(err, redlock.ErrLost) {
		fmt.Println("it was not held to the end:", err)
	}
	// Output: time to work: true
}

// Why there was no lock, and what to do then.
func Example_errors() {
	lock, err := r.TryLock(ctx, []string{"account:44"}, 10*time.Second)
	switch {
	case errors.Is(err, redlock.ErrTaken):
		fmt.Println("somebody else has it: come back later")
	case errors.Is(err, redlock.ErrNoQuorum):
		fmt.Println("too few nodes answer: tell the operator")
	case err != nil:
		log.Fatal(err) // ctx has ended, Close was called, or an argument is wrong.
	default:
		defer lock.Unlock(ctx)
		fmt.Println("locked")
	}
	// Output: locked
}

// What the examples use and do not make themselves. It is in a file of its own, as godoc would
// otherwise show it with each of them.
var (
	ctx = context.Background()

	// cluster has five Redis servers in memory. A program has addresses of real ones. On a busy
	// machine they may take long to answer.
	cluster = redlocktest.New(&testkit.ExampleTB{}, 5, redlock.WithNodeTimeout(10*time.Second))

	// nodes are those of the cluster; see ExampleNewNode for others.
	nodes = cluster.Nodes()

	// r is a Redlock over the nodes, as New returns it; other is that of another process.
	r, other = cluster.Redlock, cluster.NewRedlock()
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
