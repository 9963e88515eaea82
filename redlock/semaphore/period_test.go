package semaphore_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/test/testkit"
)

// With WithMinHold there are at most k grants in any period, as the callers see them, though nodes stall while they
// are asked; also if a holder dies, and if the ttl is no longer than the period.
func TestAtMostKInAnyPeriod(t *testing.T) {
	const processes, k, period = 3, 5, 500 * time.Millisecond
	for _, ttl := range []time.Duration{period, time.Minute} {
		enough := testkit.Rounds(5000, 60) // With each ttl.
		testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			var mu sync.Mutex
			var grants []time.Time
			granted := func() {
				mu.Lock()
				defer mu.Unlock()
				if grants = append(grants, time.Now()); len(grants) == enough {
					end()
				}
			}
			var wg sync.WaitGroup
			for range processes {
				s, err := semaphore.New(testkit.NewRedlock(t, c), "jobs", k, ttl, redlock.WithMinHold(period))
				require.NoError(t, err)
				for range 3 {
					wg.Go(func() { takePermits(ctx, s, granted, ttl == period) })
				}
			}
			wg.Go(func() { stall(ctx, c) })
			wg.Wait()
			// In fake time the order of the grants is that in which they were noted.
			shortest := time.Duration(1 << 62)
			for i := range len(grants) - k {
				shortest = min(shortest, grants[i+k].Sub(grants[i]))
			}
			assert.GreaterOrEqual(t, shortest, period, "for %d grants, with a ttl of %v", k+1, ttl)
			assert.Less(t, grants[len(grants)-1].Sub(grants[0]), 2*period*time.Duration(enough/k), "permits are of use")
		})
	}
}

// stall has one node or all of them stand still for 150 ms, again and again.
func stall(ctx context.Context, c *testcluster.Cluster) {
	for ctx.Err() == nil {
		nodes := c.First(1 + 2*rand.IntN(2))
		_ = nodes.Hang() // It fails for a node that has been closed at the end.
		time.Sleep(150 * time.Millisecond)
		_ = nodes.Resume()
		time.Sleep(rand.N(300 * time.Millisecond))
	}
}

// takePermits takes permits in all ways that there are, and does not release some of them if it dies.
func takePermits(ctx context.Context, s *semaphore.Semaphore, granted func(), dies bool) {
	for ctx.Err() == nil {
		acquire := []func(context.Context) (*semaphore.Permit, error){s.Acquire, s.TryAcquire, nil}[rand.IntN(3)]
		if acquire == nil {
			_ = s.Do(ctx, func(context.Context, *semaphore.Permit) error {
				granted()
				time.Sleep(time.Duration(rand.IntN(2)) * 10 * time.Millisecond)
				return nil
			})
			continue
		}
		p, err := acquire(ctx)
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		granted()
		if !dies || rand.IntN(3) > 0 {
			time.Sleep([]time.Duration{0, 0, 10 * time.Millisecond, 600 * time.Millisecond}[rand.IntN(4)])
			_ = p.Unlock(ctx)
		}
	}
}

// The period begins when the caller gets the permit, however long ago the attempt was that won its slot.
func TestPeriodBeginsWithTheReturn(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const period = time.Second
		stop := testkit.NewLatch("", 0)
		s := newSemaphore(t, testkit.NewRedlock(t, c, redlock.WithTracer(stop)), 1, redlock.WithMinHold(period))
		other := process(t, c, 1)
		for _, acquire := range []func(context.Context) (*semaphore.Permit, error){
			s.Acquire, s.TryAcquire,
			func(ctx context.Context) (p *semaphore.Permit, err error) {
				err = s.Do(ctx, func(_ context.Context, own *semaphore.Permit) error { p = own; return nil })
				return p, err
			},
		} {
			go func() {
				<-stop.Got
				time.Sleep(period - time.Millisecond)
				stop.On <- struct{}{}
			}()
			p, err := acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, p.Unlock(t.Context()))
			time.Sleep(period - time.Millisecond)
			_, err = other.TryAcquire(t.Context())
			require.ErrorIs(t, err, redlock.ErrTaken)
			time.Sleep(time.Millisecond)
			testkit.RequireNothingLeft(t, c)
		}
	})
}
