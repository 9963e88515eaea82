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
			calls = append(calls, testkit.Start(t.Context(), s.Acquire))
			time.Sleep(time.Millisecond)
		}
		unlock(t, held...)
		for i, call := range calls {
			p := call.Got(t)
			for _, later := range calls[min(i+3, len(calls)):] {
				require.True(t, later.Waits())
			}
			time.Sleep(time.Millisecond)
			unlock(t, p)
		}
		for i := range calls[1:] {
			assert.False(t, calls[i+1].At.Before(calls[i].At))
		}
		testkit.RequireNothingLeft(t, c)
	})
}

// Processes take turns, however many callers each of them has.
func TestProcessesTakeTurns(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		ctx, end := context.WithTimeout(t.Context(), testkit.Scenario(20*time.Second, 2*time.Second))
		defer end()
		var got [3]atomic.Int64
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
						got[i].Add(1)
						time.Sleep(30 * time.Millisecond)
						assert.NoError(t, p.Unlock(ctx))
					}
				})
			}
		}
		wg.Wait()
		all := got[0].Load() + got[1].Load() + got[2].Load()
		for i := range got {
			assert.InDelta(t, all/3, got[i].Load(), float64(all)/30, "of %d", all)
		}
	})
}

// A caller that gives up leaves the line, and nobody else notices. Nothing goes on after the last one. Close ends all waits.
func TestCancelledCallers(t *testing.T) {
	testkit.WithRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		s := newSemaphore(t, r, 2)
		held := acquireAll(t, process(t, c, 2), 2)
		first, cancelFirst := context.WithCancel(t.Context())
		defer cancelFirst()
		second, cancelSecond := context.WithTimeout(t.Context(), time.Second)
		defer cancelSecond()
		a, b, d := testkit.Start(first, s.Acquire), testkit.Start(second, s.Acquire), testkit.Start(t.Context(), s.Acquire)
		require.True(t, a.Waits())
		began := time.Now()
		cancelFirst()
		require.ErrorIs(t, a.Failed(t), context.Canceled)
		require.ErrorIs(t, b.Failed(t), context.DeadlineExceeded)
		assert.Equal(t, began, a.At)
		assert.Equal(t, time.Second, b.At.Sub(began))
		for _, err := range []error{a.Err, b.Err} {
			require.ErrorIs(t, err, redlock.ErrNotAcquired)
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.NotErrorIs(t, err, redlock.ErrNoQuorum)
			require.ErrorContains(t, err, `semaphore "jobs": context `)
			require.ErrorContains(t, err, `; last attempt: redlock: lock ["jobs#`)
		}
		unlock(t, held[0])
		unlock(t, d.Got(t), held[1])

		held = acquireAll(t, s, 2)
		last, cancelLast := context.WithCancel(t.Context())
		defer cancelLast()
		e := testkit.Start(last, s.Acquire)
		require.True(t, e.Waits())
		time.Sleep(time.Second)
		assert.Equal(t, 2, r.Stats().Waiting)
		cancelLast()
		require.False(t, e.Waits())
		assert.Zero(t, r.Stats().Waiting)

		e = testkit.Start(t.Context(), s.Acquire)
		require.True(t, e.Waits())
		require.NoError(t, r.Close(t.Context()))
		require.ErrorIs(t, e.Failed(t), redlock.ErrClosed)
		_, err := s.TryAcquire(t.Context())
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.NoError(t, held[0].Err())
	})
}

// Callers may change the errors that they got, though one refusal was for all of them.
func TestErrorsAreTheCallers(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		held := acquire(t, process(t, c, 1))
		s := process(t, c, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a, b := testkit.Start(ctx, s.Acquire), testkit.Start(ctx, s.Acquire)
		<-a.Done
		<-b.Done
		testkit.VotesOf(t, a.Err)[0] = redlock.Vote{Node: "other"}
		assert.Equal(t, c.Nodes[0].Name(), testkit.VotesOf(t, b.Err)[0].Node)
		unlock(t, held)
	})
}

// If nobody wants what was won in surplus, it is free again at once: a lock that nobody has used has no min hold.
func TestSurplusIsGivenBack(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const k = 5
		held := acquireAll(t, process(t, c, k), k)
		stop := testkit.NewLatch("", time.Second)
		r := testkit.NewRedlock(t, c, redlock.WithTracer(stop))
		waiting := testkit.Start(t.Context(), newSemaphore(t, r, k, redlock.WithMinHold(ttl)).Acquire)
		time.Sleep(time.Second)
		unlock(t, held...)
		for range k { // It gets all of them before its caller has any.
			<-stop.Got
		}
		close(stop.On)
		p := waiting.Got(t)
		time.Sleep(time.Second + soon) // A release begins a second late.
		require.EqualValues(t, k, r.Stats().Acquired)
		own := map[string]bool{p.Resources()[0]: true}
		require.Equal(t, own, taken(t, c))
		unlock(t, p)
		require.Equal(t, own, taken(t, c), "its min hold is not over")
		time.Sleep(ttl)
		testkit.RequireNothingLeft(t, c)
	})
}

// A slot that becomes free without a message, as when its holder was killed, is found by whoever waits,
// for however many slots.
func TestAllSlotsAreFound(t *testing.T) {
	testkit.InBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		const k, lost = 64, 3 // One alone could by chance be a slot that is asked for at first.
		held := acquireAll(t, process(t, c, k), k)
		waiting := make([]*call, lost)
		s := process(t, c, k)
		for i := range waiting {
			waiting[i] = testkit.Start(t.Context(), s.Acquire)
		}
		time.Sleep(200 * time.Millisecond)
		var want, got [k]bool
		for i, p := range held {
			if want[p.Slot] = i < lost; i >= lost {
				require.NoError(t, p.Extend(t.Context(), time.Minute))
			}
		}
		for _, w := range waiting {
			require.True(t, w.Waits())
		}
		for _, w := range waiting {
			p := w.Got(t)
			got[p.Slot] = true
			held = append(held, p)
		}
		assert.Equal(t, want, got)
		assert.Less(t, time.Since(held[lost-1].Until()), 200*time.Millisecond)
		unlock(t, held[lost:]...)
	})
}

// Without a majority of the nodes callers wait, as long as they may.
func TestNodesDown(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		s := process(t, c, 2)
		unlock(t, acquire(t, s))
		require.NoError(t, c.First(2).Stop())
		_, err := s.TryAcquire(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		down, patient := testkit.Start(ctx, s.Acquire), testkit.Start(t.Context(), s.Acquire)
		err = down.Failed(t)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrTaken)
		require.True(t, patient.Waits())
		require.NoError(t, c.First(2).Restart(true))
		unlock(t, patient.Got(t))
		time.Sleep(10 * time.Second)
		testkit.RequireNothingLeft(t, c)
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
			a := testkit.Start(t.Context(), newSemaphore(t, testkit.NewRedlock(t, c, never...), 1, polling...).Acquire)
			b := testkit.Start(t.Context(), process(t, c, 1, append(polling, never...)...).Acquire)
			time.Sleep(5 * time.Second)
			require.True(t, a.Waits() && b.Waits())
			unlock(t, held)
			for !a.Waits() == !b.Waits() {
				time.Sleep(time.Millisecond)
			}
			if a.Waits() {
				a, b = b, a
			}
			unlock(t, a.Got(t))
			unlock(t, b.Got(t))
		}
	})
}

// A permit that is won just as its caller goes is the caller's, or is given back: which of them is chance.
func TestPermitThatIsWonAsItsCallerGoes(t *testing.T) {
	for name, call := range map[string]func(s *semaphore.Semaphore, ctx context.Context) (*semaphore.Permit, error){
		"Acquire": (*semaphore.Semaphore).Acquire, "TryAcquire": (*semaphore.Semaphore).TryAcquire,
		"Do": func(s *semaphore.Semaphore, ctx context.Context) (*semaphore.Permit, error) {
			return nil, s.Do(ctx, func(ctx context.Context, _ *semaphore.Permit) error {
				assert.Fail(t, "nobody wants it any more")
				return ctx.Err()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				var goes atomic.Pointer[context.CancelFunc] // when a lock was got, before the call hears of it
				r := testkit.NewWarm(t, c, redlock.WithTracer(testkit.Tracer{Ends: func(redlock.Event) {
					if end := goes.Swap(nil); end != nil {
						(*end)()
					}
				}}))
				s, other := newSemaphore(t, r, 2), process(t, c, 2)
				for range 40 {
					taken := acquireAll(t, other, 1)
					ctx, cancel := context.WithCancel(t.Context())
					goes.Store(&cancel)
					p, err := call(s, ctx)
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
				testkit.RequireNothingLeft(t, c)
			})
		})
	}
}

// TryAcquire finds the one slot that is free, in few round trips, and fails at once if there is none.
func TestTryAcquire(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const k = 16
		r := testkit.NewRedlock(t, c)
		s := newSemaphore(t, r, k)
		testkit.Warm(t, r)
		held := acquireAll(t, process(t, c, k), k)
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		for _, p := range held {
			began := time.Now()
			_, err := s.TryAcquire(t.Context())
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.ErrorIs(t, err, redlock.ErrNotAcquired)
			require.Regexp(t, `^semaphore "jobs": all 16 permits are taken; one of them: redlock: lock \["jobs#\d+"\]: `, err.Error())
			assert.LessOrEqual(t, time.Since(began), 5*2*time.Millisecond, "1, 2, 4, 8 and the last one")
			unlock(t, p)
			got, err := s.TryAcquire(t.Context())
			require.NoError(t, err)
			assert.Equal(t, p.Slot, got.Slot)
		}
		assert.Equal(t, k, r.Stats().Held)

		require.NoError(t, c.SetError("LOADING x"))
		_, err := s.TryAcquire(t.Context())
		require.ErrorContains(t, err, `semaphore "jobs": redlock: lock ["jobs#`, "nobody knows whether they are taken")
		require.NoError(t, c.SetError(""))
		require.NoError(t, c.Hang())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err = s.TryAcquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 10*time.Millisecond, time.Since(began), "it ends with its context")
	})
}

// Of several slots that it gets at the same time it keeps one.
func TestTryAcquireGivesBackTheSurplus(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const k = 16
		r := testkit.NewRedlock(t, c)
		s := newSemaphore(t, r, k)
		surplus := int64(0)
		for range 50 {
			held := acquireAll(t, process(t, c, k), k/2)
			before := r.Stats().Acquired
			p, err := s.TryAcquire(t.Context())
			require.NoError(t, err)
			time.Sleep(soon)
			surplus += r.Stats().Acquired - before - 1
			require.Len(t, taken(t, c), k/2+1)
			unlock(t, append(held, p)...)
			testkit.RequireNothingLeft(t, c)
		}
		assert.Positive(t, surplus, "it has happened")
	})
}

// A slot that was won when its caller has just given up is given back, also if Close comes before that.
// Close waits for the release, however late it begins.
func TestCloseWaitsForTheSurplus(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		stop := testkit.NewLatch("", time.Second)
		r := testkit.NewRedlock(t, c, redlock.WithTracer(stop))
		ctx, cancel := context.WithCancel(t.Context())
		waiting := testkit.Start(ctx, newSemaphore(t, r, 2).Acquire)
		<-stop.Got
		cancel()
		<-waiting.Done
		require.ErrorIs(t, waiting.Err, context.Canceled)
		closed := make(chan error)
		go func() { closed <- r.Close(context.WithoutCancel(ctx)) }()
		synctest.Wait()
		close(stop.On)
		require.NoError(t, <-closed)
		testkit.RequireNoKeys(t, c)
	})
}

// So it is with what TryAcquire gets in surplus.
func TestCloseWaitsForTheSurplusOfATry(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		stop := testkit.NewLatch("", time.Second)
		r := testkit.NewRedlock(t, c, redlock.WithTracer(stop))
		s := newSemaphore(t, r, 3)
		held := acquire(t, process(t, c, 3))
		held.KeepAlive(t.Context()) // However many rounds it takes, of a second each.
		for both := false; !both; { // Until the slot that it asks for first is taken: then it gets the other two.
			got := make(chan *semaphore.Permit)
			go func() {
				p, err := s.TryAcquire(t.Context())
				assert.NoError(t, err)
				got <- p
			}()
			<-stop.Got
			synctest.Wait()
			select {
			case <-stop.Got:
				both = true
				stop.On <- struct{}{}
			default:
			}
			stop.On <- struct{}{}
			p := <-got
			if both {
				require.NoError(t, r.Close(t.Context()))
				require.Equal(t, map[string]bool{held.Resources()[0]: true, p.Resources()[0]: true}, taken(t, c))
			} else {
				unlock(t, p)
			}
		}
	})
}
