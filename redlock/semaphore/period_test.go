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
		grants := testkit.Rounds(5000, 60) // With each ttl.
		testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			g := &granted{enough: grants, end: end}
			var wg sync.WaitGroup
			for i := range processes {
				s, err := semaphore.New(testkit.NewRedlock(t, c), "jobs", k, ttl, redlock.WithMinHold(period))
				require.NoError(t, err)
				for j := range 3 {
					caller := &periodCaller{s, g, rand.New(rand.NewPCG(uint64(i), uint64(j))), ttl == period}
					wg.Go(func() { caller.work(ctx) })
				}
			}
			wg.Go(func() { stall(ctx, t, c) })
			wg.Wait()

			// In fake time the order of the grants is that in which they were noted.
			shortest := time.Duration(1 << 62)
			for i := range len(g.at) - k {
				shortest = min(shortest, g.at[i+k].Sub(g.at[i]))
			}
			assert.GreaterOrEqual(t, shortest, period, "for %d grants, with a ttl of %v", k+1, ttl)
			assert.Less(t, g.at[len(g.at)-1].Sub(g.at[0]), 2*period*time.Duration(grants/k), "permits are of use")
		})
	}
}

// granted are the moments at which callers have got a permit.
type granted struct {
	mu     sync.Mutex
	at     []time.Time
	enough int
	end    func()
}

func (g *granted) note() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.at = append(g.at, time.Now()); len(g.at) == g.enough {
		g.end()
	}
}

// stall has one node or all of them stand still for 150 ms, again and again.
func stall(ctx context.Context, t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	rng := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	for ctx.Err() == nil {
		nodes := c
		if rng.IntN(2) == 0 {
			nodes = c.First(1)
		}
		assert.NoError(t, nodes.Hang())
		time.Sleep(150 * time.Millisecond)
		assert.NoError(t, nodes.Resume())
		time.Sleep(testkit.Between(rand.New(rand.NewPCG(rand.Uint64(), 0)), 0, 300*time.Millisecond))
	}
}

// A periodCaller takes permits in all ways that there are.
type periodCaller struct {
	s       *semaphore.Semaphore
	granted *granted
	rng     *rand.Rand
	dies    bool // some of its permits are not released
}

func (c *periodCaller) work(ctx context.Context) {
	for ctx.Err() == nil {
		var p *semaphore.Permit
		var err error
		switch c.rng.IntN(3) {
		case 0:
			p, err = c.s.Acquire(ctx)
		case 1:
			p, err = c.s.TryAcquire(ctx)
		default:
			_ = c.s.Do(ctx, func(context.Context, *semaphore.Permit) error {
				c.granted.note()
				time.Sleep(testkit.Pick(c.rng, 0, 10*time.Millisecond))
				return nil
			})
			continue
		}
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		c.granted.note()
		if c.dies && c.rng.IntN(3) == 0 {
			continue
		}
		time.Sleep(testkit.Pick(c.rng, 0, 0, 10*time.Millisecond, 600*time.Millisecond))
		_ = p.Unlock(ctx)
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
