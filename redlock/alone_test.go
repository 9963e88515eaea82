package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// These tests are about callers that write and read by themselves, as there is one node and nobody else uses it.

// requireAlone checks that a caller that is alone reads by itself, and nobody else, once it has come a few times.
func requireAlone(t *testing.T, r *redlock.Redlock, readers *testkit.Readers) {
	t.Helper()
	for range 6 {
		cycle(t, r, "alone", ttl)
	}
	readers.Take()
	cycle(t, r, "alone", ttl)
	callers, others := readers.Take()
	require.Zero(t, others)
	require.Positive(t, callers)
}

// withAlone runs a test in a bubble, with a Redlock over a single node, the caller of which writes and reads by itself.
func withAlone(t *testing.T, fn func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, readers *testkit.Readers), opts ...redlock.Option) {
	t.Helper()
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		nodes, readers := testkit.ReadBy(c.First(1))
		r := newOver(t, nodes, opts...)
		_ = r.Admit(t.Context(), nodes[0].Name) // Where it has a quarantine.
		requireAlone(t, r, readers)
		fn(t, c, r, readers)
	})
}

func TestAloneCallerReadsByItself(t *testing.T) {
	for _, opts := range [][]redlock.Option{nil, {redlock.WithFencing(), redlock.WithQuarantine(time.Minute)}} {
		withAlone(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, readers *testkit.Readers) {
			l := tryLock(t, r, []string{"a", "b"}, ttl)
			require.NoError(t, l.Extend(t.Context(), ttl))
			refused(t, redlock.ErrTaken, r, []string{"a"}, ttl)
			require.NoError(t, l.Unlock(t.Context()))
			_, others := readers.Take()
			assert.Zero(t, others)
		}, opts...)
	}
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes, readers := testkit.ReadBy(c)
		r := newOver(t, nodes)
		for range 10 {
			cycle(t, r, "a", ttl)
		}
		callers, _ := readers.Take()
		assert.Zero(t, callers)
	})
}

// The second request is sent while the first one's caller reads, and answered in its own time.
func TestAloneCallerThatIsJoined(t *testing.T) {
	withAlone(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, readers *testkit.Readers) {
		for number := 2; number < 6; number++ {
			require.NoError(t, c.Slow(10*time.Millisecond, 10*time.Millisecond))
			var callers sync.WaitGroup
			for i := range number {
				callers.Go(func() {
					time.Sleep(time.Duration(i) * 3 * time.Millisecond)
					began := time.Now()
					l := tryLock(t, r, []string{fmt.Sprint(i)}, ttl)
					assert.Equal(t, 20*time.Millisecond, time.Since(began))
					time.Sleep(30 * time.Millisecond)
					if err := l.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
					assert.Equal(t, 70*time.Millisecond, time.Since(began))
				})
			}
			callers.Wait()
			require.NoError(t, c.Slow(0, 0))
			requireReleased(t, c)
			assert.EqualValues(t, 1, r.Stats().Nodes[0].Connects)
			requireAlone(t, r, readers)
		}
	})
}

// A caller that gives up returns at once, and what it had asked for is released when the node has answered.
func TestAloneCallerThatGivesUp(t *testing.T) {
	withAlone(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, readers *testkit.Readers) {
		for range 3 {
			require.NoError(t, c.Nodes[0].Hang())
			began := time.Now()
			_, err := r.TryLock(within(t, 3*time.Millisecond), []string{"a"}, ttl)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, 3*time.Millisecond, time.Since(began))
			synctest.Wait()
			require.NoError(t, c.Nodes[0].Resume())
			synctest.Wait()
			requireReleased(t, c)
			requireAlone(t, r, readers)
		}
		stats := r.Stats().Nodes[0]
		assert.EqualValues(t, 1, stats.Connects, "no answer was lost")
		assert.Zero(t, stats.Backlog)
	})
}

// Half of the answer has come when the caller gives up: whoever reads the other half knows of it.
func TestAloneCallerThatGivesUpWithinAReply(t *testing.T) {
	withAlone(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, readers *testkit.Readers) {
		l := tryLock(t, r, []string{"held"}, time.Hour)
		cut, refused := 0, 0
		for limit := 20 * time.Millisecond; limit < 120*time.Millisecond; limit += time.Millisecond {
			c.Nodes[0].Proxy().Throttle(4, 4000) // Four bytes each millisecond.
			began := time.Now()
			_, err := r.TryLock(within(t, limit), []string{"held"}, ttl)
			if errors.Is(err, redlock.ErrTaken) {
				refused++
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, limit, time.Since(began))
				cut++
			}
			for time.Sleep(time.Second); r.Stats().Nodes[0].Backlog > 0; time.Sleep(time.Second) {
			} // Of a note for other clients, too, which is long.
			c.Nodes[0].Proxy().Throttle(0, 0)
			requireAlone(t, r, readers)
		}
		assert.Positive(t, refused)
		assert.Positive(t, cut)
		require.NoError(t, l.Unlock(t.Context()))
		stats := r.Stats().Nodes[0]
		assert.EqualValues(t, 1, stats.Connects, "no answer was lost")
		assert.Zero(t, stats.Unknown)
	})
}

// Nobody waits for a hung node longer than for the node timeout.
func TestAloneCallerOnANodeThatHangs(t *testing.T) {
	withAlone(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, readers *testkit.Readers) {
		held := tryLock(t, r, []string{"held"}, time.Hour)
		for i, call := range []func() error{
			func() error {
				_, err := r.TryLock(context.Background(), []string{"a"}, ttl)
				return err
			},
			func() error { return held.Extend(context.Background(), time.Hour) },
			func() error { return held.Unlock(context.Background()) },
		} {
			require.NoError(t, c.Nodes[0].Hang())
			began := time.Now()
			require.ErrorIs(t, call(), redlock.ErrNoQuorum, i)
			assert.Equal(t, 50*time.Millisecond, time.Since(began), i)
			synctest.Wait()
			require.NoError(t, c.Nodes[0].Resume())
			synctest.Wait()
			requireAlone(t, r, readers)
		}
		assert.EqualValues(t, 1, r.Stats().Nodes[0].Connects)
	}, redlock.WithNodeTimeout(50*time.Millisecond))
}

// The connection breaks while nobody reads: the next caller does not write to it, and without one it is found soon.
func TestAloneConnectionThatBreaksBetweenCalls(t *testing.T) {
	var rec recorder
	withAlone(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, readers *testkit.Readers) {
		for i := range 6 {
			c.Nodes[0].Proxy().Kill()
			synctest.Wait()
			if i%2 == 0 {
				time.Sleep(400 * time.Millisecond)
				assert.Len(t, rec.TakeOf(redlock.EventNodeDown), 1)
			}
			cycle(t, r, "a", ttl)
			requireAlone(t, r, readers)
			rec.TakeOf(redlock.EventNodeDown)
		}
		assert.Zero(t, r.Stats().Nodes[0].Unknown)
	}, redlock.WithHook(rec.Hook))
}

func TestAloneCallerAndClose(t *testing.T) {
	// In the middle.
	withAlone(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, _ *testkit.Readers) {
		require.NoError(t, c.Slow(10*time.Millisecond, 10*time.Millisecond))
		began := time.Now()
		failed := meanwhile(func() error { return lockError(r.TryLock(context.Background(), []string{"a"}, ttl)) })
		time.Sleep(5 * time.Millisecond)
		closed := meanwhile(func() error { return r.Close(context.Background()) })
		require.ErrorIs(t, <-failed, redlock.ErrClosed)
		assert.Equal(t, 5*time.Millisecond, time.Since(began), "the call ended at once")
		require.NoError(t, <-closed)
		requireReleased(t, c)
		assert.Zero(t, c.Nodes[0].Proxy().Conns())
	})
	// At rest.
	withAlone(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, _ *testkit.Readers) {
		assert.Zero(t, took(func() { require.NoError(t, r.Close(t.Context())) }))
		synctest.Wait()
		assert.Zero(t, c.Nodes[0].Proxy().Conns())
	})
	// On a node that hangs.
	withAlone(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, _ *testkit.Readers) {
		l := tryLock(t, r, []string{"a"}, ttl)
		require.NoError(t, c.Nodes[0].Hang())
		began := time.Now()
		go func() { _ = l.Unlock(context.Background()) }()
		synctest.Wait()
		require.NoError(t, r.Close(context.Background()))
		assert.LessOrEqual(t, time.Since(began), 2*time.Second)
		synctest.Wait()
		assert.Zero(t, r.Stats().Nodes[0].Backlog)
	})
}

// What is asked aside is no sign of life, so the watchdog may sleep: the reader must not rest then.
func TestAloneConnectionThatBreaksAfterAQuestionAside(t *testing.T) {
	for at := 135 * time.Millisecond; at < 250*time.Millisecond; at += 20 * time.Millisecond {
		withAlone(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, _ *testkit.Readers) {
			time.Sleep(5 * time.Second)
			cycle(t, r, "alone", ttl) // With the look at the notes that is three requests; it takes four.
			time.Sleep(at)
			require.True(t, redlock.NodesIn(r)[0].Aside(0, redlock.InspectCommand("b"), nil))
			time.Sleep(350 * time.Millisecond)
			require.Zero(t, r.Stats().Nodes[0].Backlog)
			c.Nodes[0].Proxy().Kill()
			synctest.Wait()
			time.Sleep(500 * time.Millisecond)
			assert.EqualValues(t, 2, r.Stats().Nodes[0].Connects, "after %v", at)
		})
	}
}

// The user's code ends the caller, as FailNow does, when nobody else reads.
func TestAloneCallerThatIsEndedByTheUsersCode(t *testing.T) {
	withAlone(t, func(t *testing.T, _ *testcluster.Cluster, r *redlock.Redlock, readers *testkit.Readers) {
		var call sync.WaitGroup
		call.Go(func() { _, _ = r.TryLock(endsAtDone{t.Context()}, []string{"b"}, time.Minute) })
		call.Wait()
		requireAlone(t, r, readers)
		assert.EqualValues(t, 1, r.Stats().Nodes[0].Connects)
	}, redlock.WithNodeTimeout(20*time.Millisecond))
}

type endsAtDone struct {
	context.Context //nolint:containedctx // It is one itself.
}

func (endsAtDone) Done() <-chan struct{} {
	runtime.Goexit()
	return nil
}

// A connection that broke while nobody read is made anew before the attempt, and not within its node timeout.
func TestAloneCallerWaitsForAConnectionThatBroke(t *testing.T) {
	withAlone(t, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, _ *testkit.Readers) {
		require.NoError(t, c.Slow(15*time.Millisecond, 15*time.Millisecond))
		c.Nodes[0].Proxy().Kill()
		synctest.Wait()
		cycle(t, r, "alone", ttl)
		assert.EqualValues(t, 2, r.Stats().Nodes[0].Connects)
	}, redlock.WithNodeTimeout(50*time.Millisecond))
}
