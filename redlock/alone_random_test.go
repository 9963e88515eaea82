package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// Callers come, wait, give up and pause at random, while the node hangs and connections break: each call ends in its time,
// nobody gets another one's answer, and nothing is left.
func TestAloneCallersAtRandom(t *testing.T) {
	for seed := range uint64(rounds(24, 4)) {
		runInBubble(t, fmt.Sprint(seed), 1, func(t *testing.T, c *testcluster.Cluster) {
			const timeout = 50 * time.Millisecond
			r, readers := aloneOn(t, c, redlock.WithNodeTimeout(timeout))
			c.Nodes[0].Proxy().LateBytes(0, time.Duration(seed%3)*time.Millisecond)
			var all sync.WaitGroup
			end := time.Now().Add(5 * time.Second)
			for i := range 3 {
				all.Go(func() { callAtRandom(t, r, rand.New(rand.NewPCG(seed, uint64(i))), fmt.Sprint(i), end, timeout) })
			}
			draw := rand.New(rand.NewPCG(seed, 9))
			for time.Now().Before(end) {
				time.Sleep(time.Duration(draw.IntN(300)) * time.Millisecond)
				switch draw.IntN(4) {
				case 0:
					c.Nodes[0].Proxy().Kill()
				case 1:
					require.NoError(t, c.Nodes[0].Hang())
					time.Sleep(time.Duration(draw.IntN(60)) * time.Millisecond)
					require.NoError(t, c.Nodes[0].Resume())
				case 2:
					require.NoError(t, c.Slow(0, time.Duration(draw.IntN(10))*time.Millisecond))
				default:
					require.NoError(t, c.Slow(0, 0))
				}
			}
			all.Wait()
			require.NoError(t, c.Slow(0, 0))
			c.Nodes[0].Proxy().LateBytes(0, 0)
			time.Sleep(ttl)
			requireReleased(t, c)
			for range 6 {
				cycle(t, r, "alone", ttl)
			}
			requireAlone(t, r, readers)
		})
	}
}

// callAtRandom locks a resource that nobody else wants, again and again.
func callAtRandom(tb testing.TB, r *redlock.Redlock, draw *rand.Rand, resource string, end time.Time, timeout time.Duration) {
	tb.Helper()
	for time.Now().Before(end) {
		ctx, cancel := context.WithCancel(context.Background())
		limit := time.Duration(draw.IntN(int(2 * timeout)))
		if draw.IntN(2) == 0 {
			time.AfterFunc(limit, cancel)
		} else {
			limit = time.Second + timeout
		}
		began := time.Now()
		l, err := r.TryLock(ctx, []string{resource}, 10*time.Second)
		cancel()
		// A call waits for a connection that is being made, but not beyond its context.
		assert.LessOrEqual(tb, time.Since(began), limit)
		var refusal *redlock.QuorumError
		switch {
		case err == nil:
			_ = l.Extend(context.Background(), 10*time.Second)
			_ = l.Unlock(context.Background())
		case errors.As(err, &refusal) && errors.Is(err, redlock.ErrTaken):
			assert.NotEmpty(tb, refusal.Votes[0].Holder)
		default:
			assert.NotContains(tb, err.Error(), "unexpected", "an answer of somebody else's")
			assert.NotContains(tb, err.Error(), "nobody asked for")
		}
		if draw.IntN(3) == 0 {
			time.Sleep(time.Duration(draw.IntN(500)) * time.Millisecond)
		}
	}
}
