package semaphore_test

import (
	"context"
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

// soon is a time in which something passes from one process to another, and far less than a timed retry
// takes.
const soon = 20 * time.Millisecond

func TestCallersAreServedInTheirOrder(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		s := process(t, c, 3)
		held := acquireAll(t, process(t, c, 3), 3)
		var calls []*call
		for range 30 {
			calls = append(calls, start(t.Context(), s))
			time.Sleep(time.Millisecond)
		}
		unlock(t, held...)
		for i, call := range calls {
			p := call.got(t)
			for _, later := range calls[min(i+3, len(calls)):] {
				require.True(t, later.waits())
			}
			time.Sleep(time.Millisecond)
			unlock(t, p)
		}
		for i := range calls[1:] {
			assert.False(t, calls[i+1].at.Before(calls[i].at))
		}
		requireNothingLeft(t, c)
	})
}

// Processes take turns, however many callers each of them has.
func TestProcessesTakeTurns(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		ctx, end := context.WithTimeout(t.Context(), testkit.Scenario(20*time.Second, 2*time.Second))
		defer end()
		var got [3]int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i, callers := range []int{5, 5, 30} {
			s := process(t, c, 4)
			for range callers {
				wg.Go(func() {
					for ctx.Err() == nil {
						p, err := s.Acquire(ctx)
						if err != nil {
							return
						}
						mu.Lock()
						got[i]++
						mu.Unlock()
						time.Sleep(30 * time.Millisecond)
						assert.NoError(t, p.Unlock(ctx))
					}
				})
			}
		}
		wg.Wait()
		all := got[0] + got[1] + got[2]
		for _, n := range got {
			assert.InDelta(t, all/3, n, float64(all)/30, "%v", got)
		}
	})
}

// A caller that gives up leaves the line, and nobody else notices. Nothing goes on after the last one.
func TestCancelledCallers(t *testing.T) {
	testkit.WithRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		s := newSemaphore(t, r, 2)
		held := acquireAll(t, process(t, c, 2), 2)
		first, cancelFirst := context.WithCancel(t.Context())
		defer cancelFirst()
		second, cancelSecond := context.WithTimeout(t.Context(), time.Second)
		defer cancelSecond()
		a, b, d := start(first, s), start(second, s), start(t.Context(), s)
		require.True(t, a.waits())
		began := time.Now()
		cancelFirst()
		<-a.done
		<-b.done
		assert.Equal(t, began, a.at)
		assert.Equal(t, time.Second, b.at.Sub(began))
		require.ErrorIs(t, a.err, context.Canceled)
		require.ErrorIs(t, b.err, context.DeadlineExceeded)
		for _, err := range []error{a.err, b.err} {
			require.ErrorIs(t, err, redlock.ErrNotAcquired)
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.NotErrorIs(t, err, redlock.ErrNoQuorum)
			require.ErrorContains(t, err, `semaphore "jobs": context `)
			require.ErrorContains(t, err, `; last attempt: redlock: lock ["jobs#`)
		}
		unlock(t, held[0])
		unlock(t, d.got(t), held[1])

		held = acquireAll(t, s, 2)
		last, cancelLast := context.WithCancel(t.Context())
		defer cancelLast()
		e := start(last, s)
		require.True(t, e.waits())
		time.Sleep(time.Second)
		assert.Equal(t, 2, r.Stats().Waiting)
		cancelLast()
		<-e.done
		require.False(t, e.waits())
		assert.Zero(t, r.Stats().Waiting)
		unlock(t, held...)
		requireNothingLeft(t, c)
	})
}

// Callers may change the errors that they got, though one refusal was for all of them.
func TestErrorsAreTheCallers(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := acquire(t, process(t, c, 1))
		s := process(t, c, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a, b := start(ctx, s), start(ctx, s)
		<-a.done
		<-b.done
		testkit.VotesOf(t, a.err)[0] = redlock.Vote{Node: "other"}
		assert.Equal(t, c.Nodes[0].Name(), testkit.VotesOf(t, b.err)[0].Node)
		unlock(t, held)
	})
}

// What a process wins in surplus goes to the next one at once.
func TestSurplusIsPassedOn(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const k = 4
		held := acquireAll(t, process(t, c, k), k)
		a, b := process(t, c, k), process(t, c, k)
		first := start(t.Context(), a)
		time.Sleep(time.Second) // It waits for all slots.
		var others []*call
		for range k - 1 {
			others = append(others, start(t.Context(), b))
		}
		time.Sleep(time.Second)
		var wg sync.WaitGroup
		for _, p := range held {
			wg.Go(func() { assert.NoError(t, p.Unlock(t.Context())) })
		}
		began := time.Now()
		permits := []*semaphore.Permit{first.got(t)}
		for _, call := range others {
			permits = append(permits, call.got(t))
			assert.Less(t, call.at.Sub(began), soon)
		}
		wg.Wait()
		unlock(t, permits...)
		requireNothingLeft(t, c)
	})
}

// If nobody wants what was won in surplus, it is free again at once.
func TestSurplusIsGivenBack(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		unlock(t, withSurplus(t, c))
		requireNothingLeft(t, c)
	})
}

// A lock that nobody has used has no min hold: what was won in surplus is free again at once.
func TestSurplusHasNoMinHold(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		unlock(t, withSurplus(t, c, redlock.WithMinHold(ttl)))
		require.Len(t, taken(t, c), 1)
		time.Sleep(ttl)
		requireNothingLeft(t, c)
	})
}

// withSurplus returns the permit of a process that got all slots, once it has given back the others.
func withSurplus(t *testing.T, c *testcluster.Cluster, opts ...redlock.Option) *semaphore.Permit {
	t.Helper()
	const k = 5
	held := acquireAll(t, process(t, c, k), k)
	stop := slow{make(chan struct{}), make(chan struct{})}
	r := testkit.NewRedlock(t, c, redlock.WithTracer(stop))
	waiting := start(t.Context(), newSemaphore(t, r, k, opts...))
	time.Sleep(time.Second)
	unlock(t, held...)
	for range k { // It gets all of them before its caller has any.
		<-stop.got
	}
	close(stop.on)
	p := waiting.got(t)
	time.Sleep(time.Second + soon) // A release begins a second late.
	require.EqualValues(t, k, r.Stats().Acquired)
	require.Equal(t, map[string]bool{p.Resources()[0]: true}, taken(t, c))
	return p
}

// The slot of a holder that dies is free when its ttl is over. Until then, the others are handed on as
// ever.
func TestKilledHolder(t *testing.T) {
	testkit.InBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		const k, ttl = 3, 2 * time.Second
		short := func(r *redlock.Redlock) *semaphore.Semaphore {
			s, err := semaphore.New(r, "jobs", k, ttl)
			require.NoError(t, err)
			return s
		}
		dead := testkit.NewRedlock(t, c)
		lost := acquire(t, short(dead))
		began := time.Now()
		require.NoError(t, dead.Close(t.Context())) // Its locks stay.
		ctx, end := context.WithTimeout(t.Context(), ttl+time.Second)
		defer end()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var longest, back time.Duration
		for range 2 {
			s := short(testkit.NewRedlock(t, c))
			for range 3 {
				wg.Go(func() {
					for {
						asked := time.Now()
						p, err := s.Acquire(ctx)
						if err != nil {
							return
						}
						mu.Lock()
						longest = max(longest, time.Since(asked))
						if p.Slot == lost.Slot && back == 0 {
							back = time.Since(began)
						}
						mu.Unlock()
						time.Sleep(20 * time.Millisecond)
						assert.NoError(t, p.Unlock(ctx))
					}
				})
			}
		}
		wg.Wait()
		assert.Less(t, longest, 300*time.Millisecond, "six in turns of 20 ms, on two slots")
		assert.InDelta(t, ttl, back, float64(200*time.Millisecond))
		requireNothingLeft(t, c)
	})
}

// A slot that becomes free without a message, as when its holder was killed, is found by whoever waits,
// for however many slots.
func TestAllSlotsAreFound(t *testing.T) {
	testkit.InBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		const k, lost = 64, 3 // One alone could by chance be a slot that is asked for at first.
		holder := testkit.NewRedlock(t, c)
		held := acquireAll(t, newSemaphore(t, holder, k), k)
		waiting := make([]*call, lost)
		s := process(t, c, k)
		for i := range waiting {
			waiting[i] = start(t.Context(), s)
		}
		time.Sleep(200 * time.Millisecond)
		want := map[int]bool{}
		for i, p := range held {
			if i < lost {
				want[p.Slot] = true
			} else {
				require.NoError(t, p.Extend(t.Context(), time.Minute))
			}
		}
		for _, w := range waiting {
			require.True(t, w.waits())
		}
		got := map[int]bool{}
		for _, w := range waiting {
			p := w.got(t)
			got[p.Slot] = true
			held = append(held, p)
		}
		assert.Equal(t, want, got)
		assert.Less(t, time.Since(held[lost-1].Until()), 200*time.Millisecond)
		unlock(t, held[lost:]...)
	})
}

// A minority of the nodes may be down. Without a majority callers wait, as long as they may.
func TestNodesDown(t *testing.T) {
	testkit.InBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		s := process(t, c, 2)
		unlock(t, acquire(t, s))
		require.NoError(t, c.Nodes[0].Hang())
		require.NoError(t, c.Nodes[1].Stop())
		began := time.Now()
		held := acquireAll(t, s, 2)
		next := start(t.Context(), s)
		require.True(t, next.waits())
		unlock(t, held...)
		unlock(t, next.got(t))
		assert.Less(t, time.Since(began), soon)

		require.NoError(t, c.Nodes[2].Stop())
		_, err := s.TryAcquire(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		down, patient := start(ctx, s), start(t.Context(), s)
		<-down.done
		require.ErrorIs(t, down.err, context.DeadlineExceeded)
		require.ErrorIs(t, down.err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, down.err, redlock.ErrTaken)
		require.True(t, patient.waits())
		require.NoError(t, c.Nodes[0].Resume())
		require.NoError(t, c.Nodes[1].Restart(true))
		require.NoError(t, c.Nodes[2].Restart(true))
		unlock(t, patient.got(t))
		time.Sleep(10 * time.Second)
		requireNothingLeft(t, c)
	})
}

// No option about retries ends a wait, of the call or of the Redlock.
func TestRetriesDoNotEnd(t *testing.T) {
	never := []redlock.Option{
		redlock.WithRetryCount(0), redlock.WithRetryIf(func(error) bool { return false }),
		redlock.WithRetryBackoff(func(int) time.Duration { return -1 }),
	}
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		for _, polling := range [][]redlock.Option{nil, {redlock.WithPolling()}} {
			held := acquire(t, process(t, c, 1))
			a := start(t.Context(), newSemaphore(t, testkit.NewRedlock(t, c, never...), 1, polling...))
			b := start(t.Context(), process(t, c, 1, append(polling, never...)...))
			time.Sleep(5 * time.Second)
			require.True(t, a.waits() && b.waits())
			unlock(t, held)
			for !a.waits() == !b.waits() {
				time.Sleep(time.Millisecond)
			}
			if a.waits() {
				a, b = b, a
			}
			unlock(t, a.got(t))
			unlock(t, b.got(t))
		}
	})
}

// A lastMoment is a tracer that calls a function when a lock was got, before the call hears of it.
type lastMoment struct {
	come atomic.Pointer[context.CancelFunc]
}

func (*lastMoment) Begin(ctx context.Context, _ redlock.Op, _ []string) context.Context { return ctx }

func (*lastMoment) Wants(context.Context, redlock.EventKind) bool { return false }
func (*lastMoment) Event(context.Context, redlock.Event)          {}

func (m *lastMoment) End(_ context.Context, e redlock.Event) {
	if e.Kind == redlock.EventAcquired {
		if end := m.come.Swap(nil); end != nil {
			(*end)()
		}
	}
}

// A permit that is won just as its caller goes is the caller's, or is given back: which of them is chance.
func TestPermitThatIsWonAsItsCallerGoes(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, s *semaphore.Semaphore) (*semaphore.Permit, error){
		"Acquire":    func(ctx context.Context, s *semaphore.Semaphore) (*semaphore.Permit, error) { return s.Acquire(ctx) },
		"TryAcquire": func(ctx context.Context, s *semaphore.Semaphore) (*semaphore.Permit, error) { return s.TryAcquire(ctx) },
		"Do": func(ctx context.Context, s *semaphore.Semaphore) (*semaphore.Permit, error) {
			return nil, s.Do(ctx, func(ctx context.Context, _ *semaphore.Permit) error {
				assert.Fail(t, "nobody wants it any more")
				return ctx.Err()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				var m lastMoment
				r := testkit.NewWarm(t, c, redlock.WithTracer(&m))
				s, other := newSemaphore(t, r, 2), process(t, c, 2)
				for range 40 {
					taken := acquireAll(t, other, 1)
					ctx, cancel := context.WithCancel(t.Context())
					m.come.Store(&cancel)
					p, err := call(ctx, s)
					require.ErrorIs(t, ctx.Err(), context.Canceled, "one was won")
					if err == nil {
						unlock(t, p)
					} else {
						require.ErrorIs(t, err, redlock.ErrNotAcquired)
					}
					synctest.Wait()
					begun := time.Now()
					unlock(t, append(taken, acquireAll(t, other, 1)...)...)
					assert.Less(t, time.Since(begun), 50*time.Millisecond, "it is free")
					stats := r.Stats()
					assert.Zero(t, stats.Held+stats.Kept+stats.Waiting+stats.Asking)
				}
				requireNothingLeft(t, c)
			})
		})
	}
}
