package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/test/testkit"
)

const ttl = testkit.TTL

// process is a semaphore in a process of its own.
func process(t *testing.T, c *testcluster.Cluster, k int, opts ...redlock.Option) *semaphore.Semaphore {
	t.Helper()
	return newSemaphore(t, testkit.NewRedlock(t, c), k, opts...)
}

func newSemaphore(t *testing.T, r *redlock.Redlock, k int, opts ...redlock.Option) *semaphore.Semaphore {
	t.Helper()
	s, err := semaphore.New(r, "jobs", k, ttl, opts...)
	require.NoError(t, err)
	return s
}

// acquire acquires a permit, which must be there.
func acquire(t *testing.T, s *semaphore.Semaphore) *semaphore.Permit {
	t.Helper()
	p, err := s.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.Err())
	return p
}

func acquireAll(t *testing.T, s *semaphore.Semaphore, n int) []*semaphore.Permit {
	t.Helper()
	var all []*semaphore.Permit
	for range n {
		all = append(all, acquire(t, s))
	}
	return all
}

func unlock(t *testing.T, permits ...*semaphore.Permit) {
	t.Helper()
	for _, p := range permits {
		require.NoError(t, p.Unlock(t.Context()))
	}
}

// A call is one of Acquire.
type call = testkit.Call[*semaphore.Permit]

// taken returns the slots of which any node has a key.
func taken(t *testing.T, c *testcluster.Cluster) map[string]bool {
	t.Helper()
	synctest.Wait()
	slots := map[string]bool{}
	for _, n := range c.Nodes {
		for key := range testkit.Keys(t, n) {
			slots[key] = true
		}
	}
	return slots
}

// What no slot could have is an error of New, which names it, and no node is asked.
func TestNewRefuses(t *testing.T) {
	r := testkit.NewOver(t, testkit.ForbiddenNodes(t, 3))
	for _, c := range []struct {
		r    *redlock.Redlock
		name string
		k    int
		ttl  time.Duration
		opts []redlock.Option
		want string
	}{
		{r, "", 1, ttl, nil, "semaphore: empty name"},
		{r, "jobs", 0, ttl, nil, `semaphore "jobs": 0 permits: must be at least 1 and at most 256`},
		{r, "jobs", 257, ttl, nil, `semaphore "jobs": 257 permits: must be at least 1 and at most 256`},
		{r, "jobs", 1, time.Millisecond, nil, `semaphore "jobs": redlock: ttl 1ms: nothing is left of it after the drift allowance of 2.01ms`},
		{r, "a__redlock__:b", 5, ttl, nil, `semaphore "a__redlock__:b": redlock: resource "a__redlock__:b#4": keys with "__redlock__:" are reserved`},
		{r, "jobs", 1, ttl, []redlock.Option{redlock.WithMinHold(time.Minute)}, `semaphore "jobs": redlock: min hold 1m0s: must not exceed the ttl 10s`},
		{nil, "jobs", 1, ttl, nil, `semaphore "jobs": redlock: nil *Redlock`},
		{new(redlock.Redlock), "jobs", 1, ttl, nil, `semaphore "jobs": redlock: this Redlock is a zero value`},
	} {
		s, err := semaphore.New(c.r, c.name, c.k, c.ttl, c.opts...)
		require.Error(t, err, c.want)
		assert.Nil(t, s)
		assert.True(t, strings.HasPrefix(err.Error(), c.want), "%.200v, want %s", err, c.want)
	}
	for _, k := range []int{1, 256} {
		_, err := semaphore.New(r, "jobs", k, ttl)
		require.NoError(t, err)
	}
}

// A call that cannot begin is an error like that of a lock, and no panic.
func TestCallsOnNothing(t *testing.T) {
	work := func(context.Context, *semaphore.Permit) error { panic("called") }
	made, err := semaphore.New(testkit.NewOver(t, testkit.ForbiddenNodes(t, 1)), "jobs", 1, ttl)
	require.NoError(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		s    *semaphore.Semaphore
		ctx  context.Context //nolint:containedctx // It is an argument.
		want string
	}{
		{nil, t.Context(), `semaphore: make it with New`},
		{new(semaphore.Semaphore), t.Context(), `semaphore: make it with New`},
		{made, nil, `semaphore "jobs": nil context`},
		{made, ended, `semaphore "jobs": context canceled`},
	} {
		_, acquired := c.s.Acquire(c.ctx)
		_, tried := c.s.TryAcquire(c.ctx)
		for _, err := range []error{acquired, tried, c.s.Do(c.ctx, work), c.s.Do(c.ctx, nil)} {
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, redlock.ErrNotAcquired)
		}
	}
	require.EqualError(t, made.Do(t.Context(), nil), `semaphore "jobs": nil function`)
}

// A permit that nobody contends costs one round trip, and what a lock costs: one request to each node.
func TestAnUncontendedPermitIsCheap(t *testing.T) {
	testkit.WithRedlock(t, 5, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		s := newSemaphore(t, r, 5)
		testkit.Warm(t, r)
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		var requests atomic.Int64
		for _, n := range c.Nodes {
			require.NoError(t, n.OnCommand(func(cmd string, _ []string) {
				if cmd != "PTTL" { // It goes with the SET of a lock request.
					requests.Add(1)
				}
			}))
		}
		for held := range 5 { // Also if this process has most of the slots already.
			requests.Store(0)
			began := time.Now()
			acquire(t, s)
			assert.Equal(t, 2*time.Millisecond, time.Since(began), "one round trip")
			time.Sleep(time.Second)
			assert.EqualValues(t, 5, requests.Load(), "with %d in use", held)
		}
	})
}

// k may be raised in one process after the other: there are never more than the largest k permits.
// After it was lowered, those beyond it go on until they are released.
func TestAnotherKInOtherProcesses(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		old, grown := process(t, c, 2), process(t, c, 4)
		all := append(acquireAll(t, old, 2), acquireAll(t, grown, 2)...)
		slots := []int{}
		for _, p := range all {
			slots = append(slots, p.Slot)
		}
		slices.Sort(slots)
		assert.Equal(t, []int{0, 1, 2, 3}, slots)
		small, large := testkit.Start(t.Context(), old.Acquire), testkit.Start(t.Context(), grown.Acquire)
		assert.True(t, small.Waits() && large.Waits(), "there are four")

		// The slots 2 and 3 are for those who know of them.
		unlock(t, all[2])
		assert.GreaterOrEqual(t, large.Got(t).Slot, 2)
		assert.True(t, small.Waits(), "three of four are in use, the two that it knows of among them")
		unlock(t, all[0])
		assert.Less(t, small.Got(t).Slot, 2)

		// Of those who have the small k there are two at most, whatever the others still hold.
		next := testkit.Start(t.Context(), old.Acquire)
		unlock(t, all[3])
		assert.True(t, next.Waits(), "what drains is no permit of theirs")
		unlock(t, small.Held)
		unlock(t, next.Got(t), large.Held, all[1])
		testkit.RequireNothingLeft(t, c)
	})
}

// A Do that has not called its function leaves no min hold.
func TestDoThatCannotBegin(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		s := process(t, c, 1, redlock.WithMinHold(time.Second), redlock.WithMaxHold(time.Millisecond))
		testkit.Warm(t, testkit.NewRedlock(t, c))
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		err := s.Do(t.Context(), func(context.Context, *semaphore.Permit) error { panic("called") })
		require.ErrorIs(t, err, redlock.ErrMaxHold)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		time.Sleep(soon)
		testkit.RequireNothingLeft(t, c)
	})
}

func TestDo(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		s := process(t, c, 2)
		failure := errors.New("failure")
		err := s.Do(t.Context(), func(ctx context.Context, p *semaphore.Permit) error {
			l, ok := redlock.FromContext(ctx)
			assert.True(t, ok)
			assert.Same(t, p.Lock, l)
			time.Sleep(3 * ttl)
			require.NoError(t, ctx.Err())
			require.NoError(t, p.Err(), "it is extended")
			assert.Equal(t, []string{fmt.Sprintf("jobs#%d", p.Slot)}, p.Resources())
			return failure
		})
		require.ErrorIs(t, err, failure)
		require.NotErrorIs(t, err, redlock.ErrLost)
		testkit.RequireNothingLeft(t, c)

		require.ErrorIs(t, s.Do(t.Context(), func(ctx context.Context, p *semaphore.Permit) error {
			require.NoError(t, c.Del(p.Resources()[0]))
			<-ctx.Done()
			return nil
		}), redlock.ErrLost)

		p := acquire(t, s)
		require.ErrorContains(t, p.Do(t.Context(), nil), "nil function")
		assert.NotContains(t, fmt.Sprintf("%v %#v %+v", s, p, *p), p.Token()[:16])
		unlock(t, p)

		assert.PanicsWithValue(t, "panic", func() {
			_ = s.Do(t.Context(), func(context.Context, *semaphore.Permit) error { panic("panic") })
		})
		testkit.RequireNothingLeft(t, c)
	})
}

// Whoever has a permit cannot wait for a second one: if all did, nobody would ever get one.
func TestNestedAcquireIsRefused(t *testing.T) {
	testkit.WithRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		s, same := newSemaphore(t, r, 3), newSemaphore(t, r, 2)
		other, err := semaphore.New(r, "others", 3, ttl)
		require.NoError(t, err)
		refused := func(ctx context.Context) {
			for _, s := range []*semaphore.Semaphore{s, same} {
				_, acquired := s.Acquire(ctx)
				_, tried := s.TryAcquire(ctx)
				for _, err := range []error{acquired, tried} {
					require.ErrorIs(t, err, redlock.ErrAlreadyHeld)
					require.ErrorIs(t, err, redlock.ErrNotAcquired)
				}
			}
		}
		require.NoError(t, acquire(t, s).Do(t.Context(), func(ctx context.Context, _ *semaphore.Permit) error {
			refused(ctx)
			return other.Do(ctx, func(ctx context.Context, _ *semaphore.Permit) error {
				refused(ctx) // However many locks there are in between.
				return nil
			})
		}))
		// One permit in the context of another one, as by callers that have acquired them elsewhere.
		outer, inner := acquire(t, s), acquire(t, s)
		kept := inner.KeepAlive(outer.KeepAlive(t.Context()))
		unlock(t, inner)
		refused(context.WithoutCancel(kept))
		unlock(t, outer)
		again, err := s.Acquire(context.WithoutCancel(kept))
		require.NoError(t, err, "it has given back both")
		unlock(t, again)
	})
}

// A slot whose permit is held for long is waited for all that time, by one caller after the other: they are served by
// other slots. Nobody has waited for long. If no slot comes free, it is the wait of whoever came first, also when another
// one has given up.
func TestOldestWaitIsThatOfACaller(t *testing.T) {
	testkit.WithRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		s := newSemaphore(t, r, 2)
		long := acquire(t, s)
		long.KeepAlive(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for range 20 {
					assert.NoError(t, s.Do(t.Context(), func(context.Context, *semaphore.Permit) error {
						time.Sleep(time.Second)
						return nil
					}))
				}
			})
		}
		for range 50 {
			time.Sleep(time.Second + 10*time.Millisecond)
			require.LessOrEqual(t, r.Stats().OldestWait, 3*time.Second)
			for _, call := range r.WaitingCalls() {
				require.LessOrEqual(t, time.Since(call.Since), 3*time.Second)
			}
		}
		wg.Wait()

		last := acquire(t, s)
		last.KeepAlive(t.Context())
		for i := range 2 {
			wg.Go(func() {
				ctx, end := context.WithTimeout(t.Context(), time.Minute)
				defer end()
				_, err := s.Acquire(ctx)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
			time.Sleep(time.Duration(50-41*i) * time.Second) // They come at 0 s and 50 s.
		}
		require.InDelta(t, 59, r.Stats().OldestWait.Seconds(), 0.5)
		time.Sleep(2 * time.Second)
		require.InDelta(t, 11, r.Stats().OldestWait.Seconds(), 0.5)
		wg.Wait()
		unlock(t, long, last)
	})
}

// One who waits for a permit waits for all of them. About one makes room all the same, and not all of them; whoever
// waits is served in the end.
func TestAboutAsManyMakeRoomAsWait(t *testing.T) {
	const k, processes, waiting = 12, 3, 2
	for _, within := range []bool{true, false} { // The callers wait in a process that has permits, or in one of their own.
		testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			rs := make([]*redlock.Redlock, processes)
			for i := range rs {
				rs[i] = testkit.NewRedlock(t, c)
			}
			rounds, made := testkit.Rounds(20, 3), atomic.Int64{}
			for range rounds {
				round, end := context.WithCancel(t.Context())
				for _, r := range rs {
					for _, p := range acquireAll(t, newSemaphore(t, r, k), k/processes) {
						kept := p.KeepAlive(round)
						go func() {
							select {
							case <-p.Wanted():
								made.Add(1)
								time.Sleep(500 * time.Millisecond) // It brings its work to an end.
							case <-kept.Done():
							}
							assert.NoError(t, p.Unlock(context.WithoutCancel(round)))
						}()
					}
				}
				synctest.Wait()
				s := process(t, c, k)
				if within {
					s = newSemaphore(t, rs[0], k)
				}
				calls := [waiting]*call{testkit.Start(t.Context(), s.Acquire), testkit.Start(t.Context(), s.Acquire)}
				for _, call := range calls {
					unlock(t, call.Got(t))
				}
				time.Sleep(ttl)
				end()
				time.Sleep(100 * time.Millisecond)
				testkit.RequireNothingLeft(t, c)
			}
			t.Logf("%d made room for %d", made.Load(), rounds*waiting)
			assert.GreaterOrEqual(t, made.Load(), int64(rounds*waiting)/2, "one may serve both, one after the other")
			assert.LessOrEqual(t, made.Load(), int64(rounds*waiting*3))
		})
	}
}

// Whoever looks at the channel again and again, while somebody waits, draws no more lots by that.
func TestLooksDrawNoLots(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const k = 20
		s := process(t, c, k)
		held := acquireAll(t, s, k)
		next := testkit.Start(t.Context(), s.Acquire)
		time.Sleep(time.Second)
		wanted := func() (n int) {
			for _, p := range held {
				select {
				case <-p.Wanted():
					n++
				default:
				}
			}
			return n
		}
		before := wanted()
		for range 100 {
			after := wanted()
			require.Equal(t, before, after)
		}
		unlock(t, held...)
		unlock(t, next.Got(t))
	})
}
