package redlock

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// The servers hang up on clients that say nothing for a second. Clients with
// idle times of all kinds, so also ones that end while the server hangs up,
// get their next lock all the same.
func TestRealServersThatCloseIdleConnections(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithArgs("--timeout", "1"))
	var users sync.WaitGroup
	var mu sync.Mutex
	attempts := make(map[int]int)
	var made int64
	const total = 12
	rounds := 3
	if testing.Short() {
		rounds = 2
	}
	for i := range total {
		r := newRedlock(t, c, WithNodeTimeout(time.Second))
		idle := 1500*time.Millisecond + time.Duration(i)*100*time.Millisecond
		users.Go(func() {
			for range rounds {
				l, err := r.Lock(t.Context(), []string{fmt.Sprint("r", i)}, time.Minute, WithRetryCount(1), WithRetryDelay(50*time.Millisecond))
				if err != nil {
					assert.NoError(t, err) //nolint:testifylint // Not on the test's goroutine.
					return
				}
				// Some lose their connections in this very moment.
				if l.Unlock(t.Context()) != nil {
					assert.NoError(t, l.Unlock(t.Context()), "the first retry works")
				}
				mu.Lock()
				attempts[l.Attempts()]++
				mu.Unlock()
				rest(t.Context(), idle, idle)
			}
			mu.Lock()
			made += connects(r)
			mu.Unlock()
		})
	}
	users.Wait()
	assert.Greater(t, made, int64(3*total), "servers have hung up")
	t.Logf("locks by number of attempts: %v; %d connections", attempts, made)
	awaitNoKeys(t, c, 8*time.Second)
}
