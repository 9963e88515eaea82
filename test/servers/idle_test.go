package servers

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// The servers hang up on clients that say nothing for a second. Clients with
// idle times of all kinds, so also ones that end while the server hangs up,
// get their next lock all the same.
func TestConnectionsThatAreIdleAndClosedByServers(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithArgs("--timeout", "1"))
	const total = 12
	rounds := 3
	if testing.Short() {
		rounds = 2
	}
	var users sync.WaitGroup
	failed := make(chan error, total*rounds)
	var mu sync.Mutex
	attempts := make(map[int]int)
	var made int64
	for i := range total {
		r := newRedlock(t, c, redlock.WithNodeTimeout(patient))
		idle := 1500*time.Millisecond + time.Duration(i)*100*time.Millisecond
		users.Go(func() {
			for round := range rounds {
				if round > 0 {
					rest(t.Context(), idle, idle)
				}
				l, err := r.Lock(t.Context(), []string{fmt.Sprint("r", i)}, time.Minute, redlock.WithRetryCount(1), redlock.WithRetryDelay(50*time.Millisecond))
				if err != nil {
					failed <- err
					return
				}
				// Some lose their connections in this very moment, but the first retry
				// works.
				if l.Unlock(t.Context()) != nil {
					failed <- l.Unlock(t.Context())
				}
				mu.Lock()
				attempts[l.Attempts()]++
				mu.Unlock()
			}
			mu.Lock()
			made += connects(r)
			mu.Unlock()
		})
	}
	users.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	assert.Greater(t, made, int64(len(c.Nodes)*total), "servers have hung up")
	t.Logf("locks by number of attempts: %v; %d connections", attempts, made)
	awaitNoKeys(t, c, 30*time.Second)
}
