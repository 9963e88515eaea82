package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// torment breaks, delays and mutes the connections to a node until ctx ends.
// What is left of it then are late bytes.
func torment(ctx context.Context, n *testcluster.Node) {
	p := n.Proxy()
	const calm = 2 * time.Millisecond
	p.SetDelay(0, calm)
	p.LateBytes(10*time.Millisecond, time.Second)
	defer p.SetDelay(0, 0)
	for rest(ctx, 100*time.Millisecond, 1800*time.Millisecond) {
		switch rand.IntN(5) {
		case 0:
			p.Reset()
		case 1:
			p.Kill()
		case 2: // Requests are carried out, but nobody hears of it.
			p.DropReplies(true)
			rest(ctx, 5*time.Millisecond, 120*time.Millisecond)
			// The connection must not survive it: TCP may end, but never delivers
			// what comes after bytes it has lost.
			p.Refuse(true)
			p.Reset()
			p.DropReplies(false)
			p.Refuse(false)
		case 3: // Many requests are on their way when it breaks, and arrive late.
			p.SetDelay(0, 60*time.Millisecond)
			rest(ctx, 20*time.Millisecond, 100*time.Millisecond)
			p.Reset()
			p.SetDelay(0, calm)
		case 4:
			p.Refuse(true)
			p.Reset()
			rest(ctx, 10*time.Millisecond, 150*time.Millisecond)
			p.Refuse(false)
		}
	}
}

// tormentAll torments all nodes until ctx ends; the result waits for that.
func tormentAll(ctx context.Context, c *testcluster.Cluster) (wait func()) {
	var wg sync.WaitGroup
	for _, n := range c.Nodes {
		wg.Go(func() { torment(ctx, n) })
	}
	return wg.Wait
}

// figures sums up what some clients have seen.
func figures(clients ...*redlock.Redlock) (text string, unknown, cleaned int64) {
	var acquired, taken, noQuorum, splits, connects int64
	for _, r := range clients {
		s := r.Stats()
		acquired += s.Acquired
		taken += s.Taken
		noQuorum += s.NoQuorum
		splits += s.Splits
		for _, n := range s.Nodes {
			unknown += n.Unknown
			cleaned += n.Cleaned
			connects += n.Connects
		}
	}
	return fmt.Sprintf("%d locks, %d taken, %d without quorum, %d split votes, %d connections, %d unknown outcomes, %d locks cleaned up",
		acquired, taken, noQuorum, splits, connects, unknown, cleaned), unknown, cleaned
}

// The ttl outlives the test by far, so whatever is gone at the end was removed
// by its owner.
func TestChaosLeavesNothing(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	clients := []*redlock.Redlock{newRedlock(t, c), newRedlock(t, c)}
	ctx := eventful(t, scenario(12*time.Second, 2*time.Second), func() bool {
		_, unknown, cleaned := figures(clients...)
		return unknown > 0 && cleaned > 0 && clients[0].Stats().Acquired > 0 && clients[1].Stats().Acquired > 0
	})
	calm := tormentAll(ctx, c)
	var workers sync.WaitGroup
	wrong := make(chan error, 8)
	for i := range 8 {
		workers.Go(func() {
			for ctx.Err() == nil {
				if err := lockAndUnlock(ctx, clients[i%len(clients)]); err != nil {
					wrong <- err
					return
				}
			}
		})
	}
	workers.Wait()
	calm()
	close(wrong)
	require.NoError(t, <-wrong)

	took := awaitNoKeys(t, c, 30*time.Second)
	text, unknown, cleaned := figures(clients...)
	t.Logf("%s; no key left %v after the end", text, took)
	require.Positive(t, unknown, "a run without unknown outcomes shows nothing")
	require.Positive(t, cleaned, "and they were cleaned up")
	for _, r := range clients {
		require.Positive(t, r.Stats().Acquired)
		await(t, 30*time.Second, "all is settled", func() bool {
			s := r.Stats()
			rest := s.Held
			for _, n := range s.Nodes {
				rest += n.Backlog + n.PendingReleases
			}
			return rest == 0
		})
	}
	// A late lock request that came after the clean-up would show only now. It is released again, long
	// before its ttl of a minute has ended.
	rest(t.Context(), time.Second, time.Second)
	awaitNoKeys(t, c, 30*time.Second)
}

// lockAndUnlock is one go of a worker. The error is a result that faults of the
// network cannot explain.
func lockAndUnlock(ctx context.Context, r *redlock.Redlock) error {
	resources := []string{fmt.Sprint("r", rand.IntN(5))}
	if rand.IntN(3) == 0 {
		resources = append(resources, fmt.Sprint("r", rand.IntN(5)))
	}
	attempt := r.TryLock
	switch rand.IntN(3) {
	case 0:
		attempt = r.Lock
	case 1:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rand.N(20*time.Millisecond))
		defer cancel()
	}
	l, err := attempt(ctx, resources, time.Minute, redlock.WithRetryCount(2), redlock.WithRetryDelay(20*time.Millisecond))
	switch {
	case err != nil && !errors.Is(err, redlock.ErrTaken) && !errors.Is(err, redlock.ErrNoQuorum) && ctx.Err() == nil:
		return fmt.Errorf("lock: %w", err)
	case err != nil:
		return nil
	}
	rest(ctx, 0, 10*time.Millisecond)
	// The lock is nowhere near its end, so nobody else may have removed it.
	if err = l.Unlock(ctx); err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
		return fmt.Errorf("unlock %s: %w", strings.Join(resources, ","), err)
	}
	return nil
}
