package redlock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A delay is at least 1 ms and never longer than all that options may set, and its jitter is at
// most the delay. A negative one ends the wait.
func TestRetryBackoffDelays(t *testing.T) {
	exponential := func(attempt int) time.Duration { return 100 * time.Millisecond << (attempt - 1) }
	o := defaultOptions()
	require.EqualError(t, o.apply([]Option{WithRetryBackoff(nil)}), "redlock: WithRetryBackoff: nil function")
	for want, d := range map[time.Duration]time.Duration{-1: -1, time.Millisecond: 0, maxWait: 1000 * time.Hour} {
		o = defaultOptions()
		require.NoError(t, o.apply([]Option{WithRetryBackoff(func(int) time.Duration { return d }), WithRetryJitter(0)}))
		assert.Equal(t, want, o.delay(1))
	}
	o = defaultOptions()
	require.NoError(t, o.apply([]Option{WithRetryBackoff(exponential)}))
	for range 100 {
		assert.InDelta(t, 100*time.Millisecond, o.delay(1), float64(100*time.Millisecond))
		assert.InDelta(t, 800*time.Millisecond, o.delay(4), float64(100*time.Millisecond))
	}
	o = defaultOptions()
	require.NoError(t, o.apply([]Option{WithRetryBackoff(func(int) time.Duration { return time.Millisecond })}))
	for range 100 {
		d := o.delay(1)
		assert.InDelta(t, time.Millisecond, d, float64(time.Millisecond), "with a jitter of no more than the delay")
		assert.GreaterOrEqual(t, d, time.Millisecond)
	}
}

// Of a delay and a jitter that do not go together, the jitter yields, but where both come from one
// call.
func TestRetryJitterOfAnotherCallIsClipped(t *testing.T) {
	const ms = time.Millisecond
	set := func(defaults options, opts ...Option) options {
		require.NoError(t, defaults.apply(opts))
		return defaults
	}
	jitters := func(want time.Duration, o options) { t.Helper(); assert.Equal(t, want, o.retryJitter) }
	jitters(ms, set(defaultOptions(), WithRetryDelay(ms)))
	defaults := set(defaultOptions(), WithRetryJitter(50*ms))
	jitters(ms, set(defaults, WithRetryDelay(ms)))
	jitters(50*ms, set(defaults, WithRetryDelay(time.Second)))
	jitters(200*ms, set(defaults, WithRetryJitter(time.Second)))
	jitters(100*ms, set(set(defaultOptions(), WithRetryDelay(ms)), WithRetryDelay(time.Second)))
	jitters(10*ms, set(set(defaultOptions(), WithRetryDelay(10*ms)), WithRetryJitter(20*ms)))
	for _, opts := range [][]Option{
		{WithRetryDelay(ms), WithRetryJitter(2 * ms)},
		{WithRetryJitter(2 * ms), WithRetryDelay(ms)},
	} {
		require.EqualError(t, defaults.apply(opts), "redlock: retry jitter 2ms: must not exceed the retry delay 1ms")
	}
}

func TestRetryDelayIsUniformAroundTheDelay(t *testing.T) {
	low, high := time.Hour, time.Duration(0)
	for range 10000 {
		d := jittered(200*time.Millisecond, 100*time.Millisecond)
		low, high = min(low, d), max(high, d)
	}
	assert.GreaterOrEqual(t, low, 100*time.Millisecond)
	assert.LessOrEqual(t, high, 300*time.Millisecond)
	assert.Less(t, low, 110*time.Millisecond)
	assert.Greater(t, high, 290*time.Millisecond)
	assert.Equal(t, time.Second, jittered(time.Second, 0))
	assert.Zero(t, jittered(0, 0))
}

func TestRetryFreeIn(t *testing.T) {
	const never = time.Duration(-1)
	taken := func(d time.Duration) Vote { return Vote{stance: node.No, Err: ErrTaken, HolderTTL: d} }
	for _, c := range []struct {
		votes []Vote
		want  time.Duration
	}{
		{[]Vote{taken(3), taken(1), taken(2)}, 2},
		{[]Vote{taken(3), taken(1), {stance: node.Yes}}, 1},
		{[]Vote{taken(3), {stance: node.Pending}, {stance: node.Pending}}, 0},
		{[]Vote{taken(3), {stance: node.Silent}, taken(1)}, 3},
		{[]Vote{taken(3), {stance: node.Silent}, {stance: node.Silent}}, never},
		{[]Vote{taken(never), taken(never), taken(1)}, never},
		{[]Vote{taken(0), taken(0), taken(1)}, 0},
	} {
		left, ok := freeIn(c.votes, 2)
		assert.Equal(t, c.want != never, ok)
		if ok {
			assert.Equal(t, c.want, left)
		}
	}
}

func TestRetryBackoff(t *testing.T) {
	exponential := func(attempt int) time.Duration { return 100 * time.Millisecond << (attempt - 1) }
	for name, opts := range map[string][]Option{"in line": nil, "polling": {WithPolling()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
				require.NoError(t, c.Nodes[0].Set("a", "thief", 0)) // No expiry: there is nothing to wait for but the retry.
				var told []Event
				hook := func(_ context.Context, e Event) { told = append(told, e) }
				r := newRedlock(t, c, append(opts, WithHook(hook), WithRetryCount(5), WithRetryBackoff(exponential), WithRetryJitter(0))...)
				start := time.Now()
				_, err := r.Lock(t.Context(), []string{"a"}, ttl)
				require.ErrorIs(t, err, ErrTaken)
				assert.Equal(t, 3100*time.Millisecond, time.Since(start))
				time.Sleep(time.Second)
				synctest.Wait()
				var at []time.Duration
				for _, e := range told {
					if e.Kind == EventDecided && e.Time.After(start) {
						at = append(at, e.Time.Sub(start))
					}
				}
				ms := time.Millisecond
				assert.Equal(t, []time.Duration{100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms}, at)
			})
		})
	}
}

// As github.com/cenkalti/backoff's Stop does.
func TestRetryBackoffThatIsNegativeEndsTheWait(t *testing.T) {
	for name, opts := range map[string][]Option{"in line": nil, "polling": {WithPolling()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
				require.NoError(t, c.Nodes[0].Set("a", "thief", 0))
				r := newRedlock(t, c, append(opts, WithRetryCount(-1), WithRetryJitter(0))...)
				stopAfter := func(retries int) Option {
					return WithRetryBackoff(func(attempt int) time.Duration {
						if attempt > retries {
							return -1
						}
						return time.Second
					})
				}
				for retries := range 3 {
					start := time.Now()
					_, err := r.Lock(t.Context(), []string{"a"}, ttl, stopAfter(retries))
					require.ErrorIs(t, err, ErrTaken)
					require.NotContains(t, err.Error(), "gave up", "its function has said so")
					assert.Equal(t, time.Duration(retries)*time.Second, time.Since(start))
				}
				// Behind another one that waits, it has not asked before.
				first := make(chan *Lock, 1)
				go func() {
					l, err := r.Lock(t.Context(), []string{"a"}, ttl)
					assert.NoError(t, err)
					first <- l
				}()
				synctest.Wait()
				time.Sleep(50 * time.Millisecond) // It listens, and has looked again.
				synctest.Wait()
				for retries := range 3 {
					start := time.Now()
					_, err := r.Lock(t.Context(), []string{"a"}, ttl, stopAfter(retries))
					require.ErrorIs(t, err, ErrTaken)
					assert.InDelta(t, time.Duration(retries)*time.Second, time.Since(start), float64(10*time.Millisecond))
				}
				require.NoError(t, c.Nodes[0].Del("a"))
				require.NoError(t, (<-first).Unlock(t.Context()))
			})
		})
	}
}

func TestRetriesThatAreUsedUpAreNamed(t *testing.T) {
	for name, opts := range map[string][]Option{"in line": nil, "polling": {WithPolling()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				_, err := newRedlock(t, c).TryLock(t.Context(), []string{"a"}, time.Hour)
				require.NoError(t, err)
				r := newRedlock(t, c, append(opts, WithRetryJitter(0))...)
				lock := func(ctx context.Context, opts ...Option) error {
					_, err := r.Lock(ctx, []string{"a"}, ttl, opts...)
					require.ErrorIs(t, err, ErrTaken)
					return err
				}
				const how = "; WithWait waits longer"
				require.ErrorContains(t, lock(t.Context()), "); gave up after 10 retries in 2s"+how)
				require.ErrorContains(t, lock(t.Context(), WithRetryCount(1)), "); gave up after 1 retry in 200ms"+how)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				for _, err := range []error{
					lock(ctx),
					lock(t.Context(), WithRetryCount(0)),
					lock(t.Context(), WithRetryIf(func(error) bool { return false })),
				} {
					require.NotContains(t, err.Error(), "gave up")
				}
			})
		})
	}
}

// WithWait limits the wait, and not the work.
func TestWaitIsLimitedByWithWait(t *testing.T) {
	for name, opts := range map[string][]Option{"in line": nil, "polling": {WithPolling()}, "no retries": {WithRetryCount(0)}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				other, r := newRedlock(t, c), newRedlock(t, c, opts...)
				warm(t, other)
				warm(t, r)
				do := func(d time.Duration) (waited time.Duration, err error) {
					began := time.Now()
					err = r.Do(t.Context(), []string{"a"}, ttl, func(ctx context.Context, _ *Lock) error {
						waited = time.Since(began)
						time.Sleep(time.Minute)
						return ctx.Err()
					}, WithWait(d))
					if waited == 0 {
						waited = time.Since(began)
					}
					return waited, err
				}
				l, err := other.TryLock(t.Context(), []string{"a"}, time.Hour)
				require.NoError(t, err)
				for _, d := range []time.Duration{0, time.Second, 30 * time.Second} {
					var waited time.Duration
					waited, err = do(d)
					assert.Equal(t, d, waited)
					require.ErrorIs(t, err, ErrTaken)
					require.ErrorIs(t, err, ErrNotAcquired)
					require.NotErrorIs(t, err, context.DeadlineExceeded)
					if d > 0 {
						require.ErrorContains(t, err, "waited for "+d.String()+"; last attempt: taken")
					}
				}
				_, err = r.Lock(t.Context(), []string{"a"}, ttl, WithWait(time.Second), WithRetryCount(3))
				require.ErrorContains(t, err, "waited for 1s", "it goes before the count")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err = r.Lock(ctx, []string{"a"}, ttl, WithWait(2*time.Second))
				require.ErrorIs(t, err, context.DeadlineExceeded, "the caller's own")

				time.AfterFunc(1500*time.Millisecond, func() { assert.NoError(t, l.Unlock(context.Background())) })
				waited, err := do(2 * time.Second)
				require.NoError(t, err, "the work goes on for as long as it takes")
				assert.InDelta(t, 1600*time.Millisecond, waited, float64(200*time.Millisecond))
				synctest.Wait()
				requireNoKeys(t, c)

				require.NoError(t, c.Nodes[0].Hang())
				require.NoError(t, c.Nodes[1].Hang())
				_, err = r.Lock(t.Context(), []string{"a"}, ttl, WithWait(5*time.Second))
				require.ErrorIs(t, err, ErrNoQuorum)
				require.ErrorContains(t, err, "waited for 5s")
				require.NoError(t, c.Nodes[0].Resume())
				require.NoError(t, c.Nodes[1].Resume())
				time.Sleep(10 * time.Second)
			})
		})
	}
}

func TestWithWaitIsForCallsThatWait(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithWait(3*time.Second))
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Hour)
		require.NoError(t, err, "that of New is not for it")
		_, err = r.TryLock(t.Context(), []string{"b"}, ttl, WithWait(time.Second))
		require.ErrorIs(t, err, ErrNotAcquired)
		require.EqualError(t, err, "redlock: WithWait is for Lock and Do: TryLock does not wait")
		_, err = r.Lock(t.Context(), []string{"b"}, ttl, WithWait(-time.Second))
		require.ErrorContains(t, err, "wait -1s: must not be negative")

		_, err = r.Lock(t.Context(), []string{"a"}, ttl)
		require.ErrorContains(t, err, "waited for 3s")
		_, err = r.Lock(t.Context(), []string{"a"}, ttl, WithRetryCount(1))
		require.ErrorContains(t, err, "gave up after 1 retry")
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// However a wait ends, of a lock that others have all the time it says that they have it.
func TestAWaitForABusyLockEndsWithTaken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		var all sync.WaitGroup
		var failed atomic.Int64
		for i := range 4 {
			r := newRedlock(t, c)
			for j := range 4 {
				all.Go(func() {
					time.Sleep(time.Duration(i+4*j) * 170 * time.Microsecond)
					for range 30 {
						l, err := r.Lock(t.Context(), []string{"a"}, ttl, WithWait(2*time.Second))
						if err != nil {
							failed.Add(1)
							if !errors.Is(err, ErrTaken) {
								t.Error(err)
							}
							continue
						}
						time.Sleep(300 * time.Millisecond)
						assert.NoError(t, l.Unlock(t.Context()))
					}
				})
			}
		}
		all.Wait()
		assert.Greater(t, failed.Load(), int64(50))
	})
}

// What a call says as its wait ends is what the nodes have said last, though most of those who wait have asked once, as
// they came: that no quorum answers any more, or does again.
func TestAWaitEndsWithWhatTheNodesHaveSaidLast(t *testing.T) {
	restart := func(n *testcluster.Node) error { return n.Restart(true) }
	for name, node := range map[string]struct{ goes, comes func(*testcluster.Node) error }{
		"killed": {(*testcluster.Node).Stop, restart},
		"hangs":  {(*testcluster.Node).Hang, (*testcluster.Node).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				other, r := newRedlock(t, c), newRedlock(t, c)
				holder, err := other.Lock(t.Context(), []string{"a"}, time.Hour)
				require.NoError(t, err)
				wait := func(is error, during func()) {
					t.Helper()
					var all sync.WaitGroup
					for i := range 16 {
						all.Go(func() {
							opts := []Option{WithWait(4 * time.Second)}
							if i%2 == 0 {
								opts = []Option{WithRetryCount(-1)}
							}
							ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
							defer cancel()
							_, err := r.Lock(ctx, []string{"a"}, ttl, opts...)
							assert.ErrorIs(t, err, is)
						})
					}
					time.Sleep(300 * time.Millisecond)
					during()
					all.Wait()
				}
				each := func(do func(*testcluster.Node) error) func() {
					return func() {
						for _, n := range c.Nodes[:2] {
							require.NoError(t, do(n))
						}
					}
				}
				wait(ErrNoQuorum, each(node.goes))
				wait(ErrTaken, each(node.comes))
				assert.NoError(t, holder.Unlock(t.Context()))
			})
		})
	}
}

// A lock that another one of the same Redlock keeps out is mostly one that waits for itself.
func TestHolderOfTheSameRedlockIsNamed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r, other := newRedlock(t, c), newRedlock(t, c)
		const own = "a lock of this Redlock, in this process, holds it"
		l, err := r.Lock(t.Context(), []string{"a", "b"}, time.Minute)
		require.NoError(t, err)
		_, err = r.Lock(t.Context(), []string{"b"}, ttl)
		require.ErrorContains(t, err, own)
		_, err = r.Lock(t.Context(), []string{"b"}, ttl, WithWait(time.Second))
		require.ErrorContains(t, err, own)
		_, err = other.Lock(t.Context(), []string{"c"}, time.Minute)
		require.NoError(t, err)
		_, err = other.Lock(t.Context(), []string{"b", "c"}, ttl)
		require.ErrorIs(t, err, ErrTaken)
		require.NotContains(t, err.Error(), own, "it has one of the resources, but the holder that is named is another's")
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A caller that goes as the wait ends hears of its own context.
func TestWaitWithWaitThatEndsAsTheCallerGoes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r, other := newRedlock(t, c), newRedlock(t, c)
		_, err := other.TryLock(t.Context(), []string{"a"}, time.Hour)
		require.NoError(t, err)
		for range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err := r.Lock(ctx, []string{"a"}, ttl, WithWait(time.Second))
			require.ErrorIs(t, err, ErrTaken)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
	})
}
