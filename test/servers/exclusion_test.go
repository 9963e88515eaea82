package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A tenure is the time in which a holder relied on its lock: from the return of
// the call that took it to the release or to Until, by the monotonic clock.
type tenure struct {
	holder   string
	from, to time.Time
}

// A ledger has the tenures of each resource.
type ledger struct {
	mu      sync.Mutex
	tenures map[string][]tenure
}

func (b *ledger) add(resource string, h tenure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenures[resource] = append(b.tenures[resource], h)
}

// requireNoOverlap checks that nobody got a resource in another one's time.
func (b *ledger) requireNoOverlap(t *testing.T) {
	t.Helper()
	for resource, all := range b.tenures {
		slices.SortFunc(all, func(x, y tenure) int { return cmp.Compare(x.from.Sub(y.from), 0) })
		for i := 1; i < len(all); i++ {
			// Sorted, and none before overlaps the next: so it is enough to look at
			// neighbours.
			before, after := all[i-1], all[i]
			require.False(t, after.from.Before(before.to), "%s: %s began %v before the end of %s",
				resource, after.holder, before.to.Sub(after.from), before.holder)
		}
	}
}

// Holders extend, release, or leave their locks to expire, while connections
// break and bytes arrive late; each client has connections of its own.
func TestChaosNeverLetsInASecondHolder(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	var clients []*redlock.Redlock
	for range 3 {
		clients = append(clients, newRedlock(t, c))
	}
	const resources, contenders = 4, 3
	var mu sync.Mutex
	ends := make(map[string]int)
	extended := func() (n int64) {
		for _, r := range clients {
			n += r.Stats().Extended
		}
		return n
	}
	ctx := eventful(t, scenario(12*time.Second, 2*time.Second), func() bool {
		mu.Lock()
		defer mu.Unlock()
		_, unknown, _ := figures(clients...)
		return unknown > 0 && extended() > 0 && ends["released"]+ends["left to expire"] > resources
	})
	calm := tormentAll(ctx, c)
	book := &ledger{tenures: make(map[string][]tenure)}
	var workers sync.WaitGroup
	wrong := make(chan error, resources*contenders)
	for i := range resources * contenders {
		workers.Go(func() {
			for ctx.Err() == nil {
				end, err := serveATenure(ctx, clients[i%len(clients)], fmt.Sprint("r", i/contenders), book)
				if err != nil {
					wrong <- err
					return
				}
				mu.Lock()
				ends[end]++
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	calm()
	close(wrong)
	require.NoError(t, <-wrong)
	book.requireNoOverlap(t)

	text, unknown, _ := figures(clients...)
	t.Logf("%s, %d extensions; tenures %v", text, extended(), ends)
	require.Positive(t, unknown, "a run without unknown outcomes shows nothing")
	require.Positive(t, extended())
	require.Greater(t, ends["released"]+ends["left to expire"], resources)
	awaitNoKeys(t, c, 30*time.Second)
}

// serveATenure tries to get the resource, holds it for some extensions, and
// says how that ended. The error is a result that faults of the network cannot
// explain.
func serveATenure(ctx context.Context, r *redlock.Redlock, resource string, book *ledger) (string, error) {
	life := 500*time.Millisecond + rand.N(1500*time.Millisecond)
	l, err := r.Lock(ctx, []string{resource}, life, redlock.WithRetryCount(3), redlock.WithRetryDelay(15*time.Millisecond))
	if err != nil {
		rest(ctx, 0, 20*time.Millisecond)
		return "not begun", nil
	}
	h := tenure{holder: l.Token(), from: time.Now()}
	for range rand.IntN(5) {
		// A tenth of the holders are late: with or after the end.
		pause := life / 4
		if rand.IntN(10) == 0 {
			pause = time.Until(l.Until()) + rand.N(4*time.Millisecond) - 2*time.Millisecond
		}
		rest(ctx, max(0, pause-10*time.Millisecond), max(0, pause))
		if err = l.Extend(ctx, life); errors.Is(err, redlock.ErrExpired) {
			break
		} else if errors.Is(err, redlock.ErrLost) {
			return "", fmt.Errorf("a lock was lost before its end: %w", err)
		}
	}
	end := "left to expire"
	h.to = l.Until()
	if err == nil && rand.IntN(4) > 0 {
		end = "released"
		if now := time.Now(); now.Before(h.to) {
			h.to = now
		}
		if err = l.Unlock(ctx); errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrExpired) {
			return "", fmt.Errorf("a lock was lost before its release: %w", err)
		}
	}
	book.add(resource, h)
	return end, nil
}
