package shared_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/shared"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A writer that waits is next: readers that come after it wait, in its process and in others, and then the next writer.
func TestWhoeverCameFirst(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := process(t, c), process(t, c)
		first := rlock(t, a)
		w1 := testkit.Start(t.Context(), a.Lock)
		require.True(t, w1.Waits())
		_, err := a.TryRLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrTaken, "in the writer's process, at once")
		time.Sleep(turn)
		var readers []*testkit.Call[*shared.Reader]
		for _, m := range []*shared.Mutex{a, b, a, b} {
			_, err := m.TryRLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrTaken)
			rd := testkit.Start(t.Context(), m.RLock)
			require.True(t, rd.Waits())
			readers = append(readers, rd)
		}
		time.Sleep(turn) // Who comes at the same instant is in no order.
		w2 := testkit.Start(t.Context(), b.Lock)
		require.True(t, w2.Waits())

		unlock(t, first)
		w := w1.Got(t)
		for _, rd := range readers {
			require.True(t, rd.Waits())
		}
		unlock(t, w)
		for _, rd := range readers {
			rd.Got(t)
		}
		require.True(t, w2.Waits())
		time.Sleep(turn)
		late := testkit.Start(t.Context(), b.RLock)
		require.True(t, late.Waits())
		for _, rd := range readers {
			unlock(t, rd.Held)
		}
		unlock(t, w2.Got(t))
		unlock(t, late.Got(t))
		require.Empty(t, slots(t, c))
	})
}

// Readers that never pause cannot keep a writer out: it waits at most for those that were there, and one turn. Each
// of 64 readers in 4 processes reads for up to 100 ms, and begins again at once.
func TestReadersWhoNeverPause(t *testing.T) {
	const work = 100 * time.Millisecond
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(0, time.Millisecond))
		ctx, end := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		var reads atomic.Int64
		for range 4 {
			m := process(t, c)
			for range 16 {
				readers.Go(func() {
					for ctx.Err() == nil {
						if rd, err := m.RLock(ctx); err == nil {
							time.Sleep(rand.N(work))
							assert.NoError(t, rd.Unlock(context.WithoutCancel(ctx)))
							reads.Add(1)
						}
					}
				})
			}
		}
		for _, m := range []*shared.Mutex{process(t, c), process(t, c)} {
			for range 5 {
				time.Sleep(rand.N(time.Second))
				// Besides: the turnstile, a look that was on its way, and the slots once the last permit is released.
				patient, stop := context.WithTimeout(ctx, turn+work+20*time.Millisecond)
				w, err := m.Lock(patient)
				stop()
				require.NoError(t, err)
				unlock(t, w)
			}
		}
		end()
		readers.Wait()
		assert.Greater(t, reads.Load(), int64(4*16*20), "each reads nearly all the time")
		time.Sleep(time.Second)
		require.Empty(t, slots(t, c))
	})
}

// A reader whose process has died keeps a writer out for its ttl at most, while others go on; and a writer that has died
// at the turnstile keeps readers out for 2 s at most, whatever the ttl.
func TestTheDead(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		// What they leave: no release, no extension.
		dead := testkit.NewWarm(t, c)
		testkit.TryLock(t, dead, []string{"name#r#7"}, ttl)
		m := process(t, c)
		began := time.Now()
		w := testkit.Start(t.Context(), m.Lock)
		require.True(t, w.Waits())
		unlock(t, w.Got(t))
		assert.LessOrEqual(t, w.At.Sub(began), ttl+50*time.Millisecond)
		assert.Greater(t, w.At.Sub(began), testkit.Validity(ttl))

		testkit.TryLock(t, dead, []string{"name#r#7"}, ttl)
		for range 100 {
			unlock(t, rlock(t, m))
		}

		time.Sleep(ttl)
		testkit.TryLock(t, dead, []string{"name#t"}, 2*time.Second, redlock.WithOwner("writer"))
		began = time.Now()
		rd := rlock(t, m)
		assert.LessOrEqual(t, time.Since(began), 2050*time.Millisecond)
		assert.Greater(t, time.Since(began), testkit.Validity(2*time.Second))
		unlock(t, rd)

		time.Sleep(turn)
		testkit.TryLock(t, dead, []string{"name#t"}, 2*time.Second, redlock.WithOwner("reader"))
		began = time.Now()
		unlock(t, rlock(t, m))
		assert.Zero(t, time.Since(began), "a reader there is in nobody's way")
	})
}

// A writer that waits for long keeps its place, and stands in line again if nodes have forgotten it.
func TestAWriterKeepsItsPlace(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := process(t, c), process(t, c)
		first := rlock(t, a)
		w := testkit.Start(t.Context(), b.Lock)
		require.True(t, w.Waits())
		time.Sleep(time.Minute)
		for _, n := range c.Nodes {
			assert.LessOrEqual(t, testkit.Keys(t, n)["name#t"].TTL, 2*time.Second, "should it die, it is gone soon")
		}
		require.NoError(t, c.Del("name#t"))
		time.Sleep(time.Minute)
		late := testkit.Start(t.Context(), a.RLock)
		require.True(t, late.Waits(), "the writer is back")
		unlock(t, first)
		unlock(t, w.Got(t))
		unlock(t, late.Got(t))
		require.Empty(t, slots(t, c))
	})
}

// Calls that give up leave nothing, and do not take others with them.
func TestGivingUp(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := process(t, c), process(t, c)
		w := lock(t, a)
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		gone := testkit.Start(ctx, b.RLock)
		stays := testkit.Start(t.Context(), b.RLock)
		writer := testkit.Start(ctx, b.Lock)
		require.True(t, stays.Waits())
		for _, err := range []error{gone.Failed(t), writer.Failed(t)} {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.ErrorIs(t, err, redlock.ErrNotAcquired)
		}
		require.True(t, stays.Waits())
		unlock(t, w)
		unlock(t, stays.Got(t))
		require.Empty(t, slots(t, c))
	})
}

// A slot that was won when the last caller has just given up is given back, also if Close comes before that, and whatever
// the min hold; and one that comes meanwhile has a way in of its own.
func TestSlotThatIsWonForNobody(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		stop := testkit.NewLatch("name#r", time.Second)
		r := testkit.NewRedlock(t, c, redlock.WithTracer(stop))
		m := newMutex(t, r, redlock.WithMinHold(5*time.Second))
		for _, goOn := range []func(){
			func() {
				next := testkit.Start(t.Context(), m.RLock)
				<-stop.Got
				stop.On <- struct{}{}
				stop.On <- struct{}{}
				unlock(t, next.Got(t))
				over := time.After(6 * time.Second)
				for done := false; !done; {
					select {
					case <-stop.Got: // One more slot was won, which is given back.
						stop.On <- struct{}{}
					case <-over:
						done = true
					}
				}
				require.Empty(t, slots(t, c))
			},
			func() {
				closed := make(chan error)
				go func() { closed <- r.Close(context.WithoutCancel(t.Context())) }()
				synctest.Wait()
				stop.On <- struct{}{}
				require.NoError(t, <-closed)
				testkit.RequireNoKeys(t, c)
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			waiting := testkit.Start(ctx, m.RLock)
			<-stop.Got
			cancel()
			require.ErrorIs(t, waiting.Failed(t), context.Canceled)
			goOn()
		}
	})
}

// WithTurn passes a writer's lock on to the next writer of its process, but not past a reader who came before that.
func TestTurnsKeepTheOrder(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const long = 900 * time.Millisecond // More than the turnstile's lock could take.
		a, b := process(t, c, redlock.WithTurn(long)), process(t, c, redlock.WithTurn(long))
		first := lock(t, a)
		second := testkit.Start(t.Context(), a.Lock)
		require.True(t, second.Waits())
		rd := testkit.Start(t.Context(), b.RLock)
		require.True(t, rd.Waits())
		time.Sleep(turn)
		third := testkit.Start(t.Context(), a.Lock)
		require.True(t, third.Waits())

		unlock(t, first)
		holder := second.Got(t)
		assert.Equal(t, first.Holder(), holder.Holder(), "it was passed on")
		unlock(t, holder)
		unlock(t, rd.Got(t))
		holder = third.Got(t)
		assert.NotEqual(t, first.Holder(), holder.Holder())
		unlock(t, holder)
		require.Empty(t, slots(t, c))
	})
}

// Close of the Redlock ends all waits and contexts, and waits until the readers have unlocked.
func TestClose(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := testkit.NewWarm(t, c)
		m := newMutex(t, r)
		rd := rlock(t, m)
		within := rd.Context(t.Context())
		w := testkit.Start(t.Context(), m.Lock)
		require.True(t, w.Waits())
		time.Sleep(time.Second)
		late := testkit.Start(t.Context(), m.RLock)
		require.True(t, late.Waits())
		closed := make(chan error)
		go func() { closed <- r.Close(context.WithoutCancel(t.Context())) }()
		synctest.Wait()
		for _, err := range []error{w.Failed(t), late.Failed(t)} {
			require.ErrorIs(t, err, redlock.ErrClosed)
			require.ErrorIs(t, err, redlock.ErrNotAcquired)
		}
		require.ErrorIs(t, context.Cause(within), redlock.ErrClosed)
		require.NoError(t, rd.Err(), "it is held until Until")
		unlock(t, rd)
		require.NoError(t, <-closed)
		require.Empty(t, slots(t, c))
		for _, err := range all(t.Context(), m) {
			require.ErrorIs(t, err, redlock.ErrClosed)
		}
	})
}

// The turnstile's label says whether a writer stands there. So it is not passed on within a process, under the label of
// the first, whatever options say: other processes would not see the writer, and keep it out for ever.
func TestTurnstileIsNotPassedOn(t *testing.T) {
	testkit.InBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b := process(t, c, redlock.WithTurn(500*time.Millisecond)), process(t, c)
		w := lock(t, b)
		time.Sleep(2 * turn)
		rd := testkit.Start(t.Context(), a.RLock)
		require.True(t, rd.Waits())
		next := testkit.Start(t.Context(), a.Lock)
		require.True(t, next.Waits())
		unlock(t, w)
		first := rd.Got(t)
		time.Sleep(2 * turn)
		_, err := b.TryRLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrTaken, "a writer waits")
		unlock(t, first)
		unlock(t, next.Got(t))
	})
}
