package redlock

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// recorder is a hook that keeps what it is told.
type recorder struct {
	mu     sync.Mutex
	events []Event
}

func (r *recorder) hook(_ context.Context, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// lifeEvents are those that tell how calls and holds have ended.
var lifeEvents = []EventKind{EventAcquired, EventNotAcquired, EventExtended, EventReleased, EventHoldEnded, EventDone}

// take returns the events so far of rounds, waiting and nodes, without those of nodes
// coming up, and forgets all.
func (r *recorder) take() []Event {
	return slices.DeleteFunc(r.takeAll(), func(e Event) bool { return e.Kind == EventNodeUp || slices.Contains(lifeEvents, e.Kind) })
}

// takeLife returns how calls and holds have ended so far, and forgets all.
func (r *recorder) takeLife() []Event {
	return slices.DeleteFunc(r.takeAll(), func(e Event) bool { return !slices.Contains(lifeEvents, e.Kind) })
}

func (r *recorder) takeAll() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

type ctxKey struct{}

func TestEventsTellWhatHappened(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		var inCtx any
		r := newRedlock(t, c, WithHook(func(ctx context.Context, e Event) {
			inCtx = ctx.Value(ctxKey{})
			assert.NoError(t, ctx.Err()) //nolint:testifylint // Not the test's goroutine.
			rec.hook(ctx, e)
		}))
		warm(t, r)
		rec.take()
		require.NoError(t, c.Nodes[2].Slow(10*time.Millisecond, 10*time.Millisecond))
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), ctxKey{}, "v"))
		l, err := r.TryLock(ctx, []string{"b", "a"}, ttl)
		require.NoError(t, err)
		cancel()
		time.Sleep(time.Second)
		events := rec.take()
		require.Len(t, events, 2)
		assert.Equal(t, "v", inCtx)
		decided, settled := events[0], events[1]
		assert.Equal(t, EventDecided, decided.Kind)
		assert.Equal(t, EventSettled, settled.Kind)
		for _, e := range events {
			assert.Equal(t, OpLock, e.Op)
			assert.Equal(t, []string{"a", "b"}, e.Resources)
			assert.Equal(t, 1, e.Attempt)
			assert.Equal(t, l.Until(), e.Until)
			require.NoError(t, e.Err)
			require.Len(t, e.Votes, 3)
		}
		assert.Equal(t, ErrPending, decided.Votes[2].Err)
		require.NoError(t, settled.Votes[2].Err)
		assert.Equal(t, 20*time.Millisecond, settled.Votes[2].Took)

		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, ErrTaken)
		require.NoError(t, l.Extend(t.Context(), ttl))
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(time.Second)
		events = rec.take()
		require.Len(t, events, 6)
		require.ErrorIs(t, events[0].Err, ErrTaken)
		assert.Zero(t, events[0].Until)
		for i, op := range []Op{OpLock, OpLock, OpExtend, OpExtend, OpUnlock, OpUnlock} {
			assert.Contains(t, []Op{op, OpLock, OpExtend}, events[i].Op)
		}

		require.NoError(t, c.Nodes[1].Stop())
		time.Sleep(10 * time.Second)
		require.NoError(t, c.Nodes[1].Restart(true))
		time.Sleep(10 * time.Second)
		events = rec.take()
		require.Len(t, events, 1, "one loss is one event")
		assert.Equal(t, EventNodeDown, events[0].Kind)
		assert.Equal(t, c.Nodes[1].Name(), events[0].Node)
		require.Error(t, events[0].Err)
	})
}

func TestUnknownOutcomesAreCleanedUpBeforeAnythingElse(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, WithHook(rec.hook))
		warm(t, r)
		time.Sleep(2 * time.Second)
		rec.take()
		// The lock is granted, nobody hears of it, and the connection breaks.
		proxy := c.Nodes[0].Proxy()
		proxy.DropReplies(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := r.TryLock(ctx, []string{"a"}, time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		proxy.DropReplies(false)
		var commands []string
		require.NoError(t, c.Nodes[0].OnCommand(func(cmd string, args []string) { commands = append(commands, cmd) }))
		proxy.Reset()
		synctest.Wait()
		requireNoKeys(t, c)
		events := rec.take()
		require.Len(t, events, 4) // decided, settled, up, cleaned
		var cleaned Event
		for _, e := range events {
			if e.Kind == EventNodeCleaned {
				cleaned = e
			}
		}
		assert.Equal(t, 1, cleaned.Unknown)
		assert.Equal(t, 1, cleaned.Cleaned)
		// The tombstone and the scripts, then the release, and no other request.
		asked := strings.Join(commands, " ")
		assert.Regexp(t, "^EVAL .*SCRIPT .*EVALSHA", asked)
		assert.Equal(t, 1, strings.Count(asked, "EVALSHA"))
		s := r.Stats().Nodes[0]
		assert.Equal(t, int64(1), s.Unknown)
		assert.Equal(t, int64(1), s.Cleaned)
		assert.Zero(t, s.PendingReleases)
	})
}

// What a broken connection delivers after the clean-up is refused.
func TestLateBytesOfABrokenConnectionLeaveNothing(t *testing.T) {
	for _, late := range []time.Duration{0, 10 * time.Millisecond, time.Second, 30 * time.Second} {
		inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			warm(t, r)
			proxy := c.Nodes[0].Proxy()
			proxy.LateBytes(late, late)
			require.NoError(t, c.Nodes[0].Slow(5*time.Millisecond, 5*time.Millisecond))
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := r.TryLock(ctx, []string{"a"}, time.Minute)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			proxy.Reset()
			require.NoError(t, c.Nodes[0].Slow(0, 0))
			time.Sleep(late + time.Second)
			assert.Equal(t, int64(1), r.Stats().Nodes[0].Unknown)
			requireNoKeys(t, c)
			l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
}

func TestASlowHookDropsEventsAndDelaysNothing(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		block := make(chan struct{})
		r := newRedlock(t, c, WithHook(func(context.Context, Event) { <-block }))
		start := time.Now()
		for range rounds(2000, 700) {
			l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
		}
		assert.Zero(t, time.Since(start))
		assert.Positive(t, r.Stats().EventsDropped)
		close(block)
	})
}

func TestAHookMayUseTheRedlock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var r *Redlock
		used := false
		r = newRedlock(t, c, WithHook(func(ctx context.Context, e Event) {
			if e.Kind == EventDecided && !used {
				used = true
				l, err := r.TryLock(ctx, []string{"from the hook"}, ttl)
				assert.NoError(t, err)
				assert.NoError(t, l.Unlock(ctx))
			}
		}))
		warm(t, r)
		assert.True(t, used)
	})
}

func TestSlogHookIsQuiet(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var out bytes.Buffer
		r := newRedlock(t, c, WithHook(SlogHook(slog.New(slog.NewTextHandler(&out, nil)))))
		warm(t, r)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Hour)
		require.NoError(t, err)
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.ErrorIs(t, err, ErrTaken)
		synctest.Wait()
		assert.Empty(t, out.String(), "nothing is wrong")

		require.NoError(t, c.Nodes[0].Stop())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
		assert.Contains(t, out.String(), "node lost")
		require.NoError(t, c.Nodes[0].Restart(true))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
		assert.Contains(t, out.String(), "node is back")

		out.Reset()
		for _, n := range c.Nodes {
			require.NoError(t, n.SetError("LOADING x"))
		}
		for range 100 {
			require.ErrorIs(t, l.Extend(t.Context(), time.Hour), ErrNoQuorum)
			time.Sleep(15 * time.Millisecond)
		}
		synctest.Wait()
		assert.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
		assert.Contains(t, out.String(), "left_out=")
		assert.NotContains(t, out.String(), l.Token())
	})
	require.NotNil(t, SlogHook(nil))
}

func TestInspectShowsWhoHoldsAResource(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithPrefix("p:"))
		in, err := r.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.False(t, in.Held)
		assert.Len(t, in.Nodes, 5)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		time.Sleep(time.Second)
		require.NoError(t, c.Nodes[0].Stop())
		require.NoError(t, c.Nodes[1].Del("p:a"))
		time.Sleep(10 * time.Millisecond)
		in, err = r.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, 3, in.Need)
		assert.True(t, in.Held)
		assert.Equal(t, tokens.Digest(l.Token()), in.Holder)
		assert.True(t, strings.HasPrefix(l.Token(), strings.TrimSuffix(in.Token, "…")))
		assert.Len(t, strings.TrimSuffix(in.Token, "…"), 8)
		assert.InDelta(t, ttl-time.Second, in.TTL, float64(20*time.Millisecond))
		require.Error(t, in.Nodes[0].Err)
		assert.Empty(t, in.Nodes[1].Holder)
		require.NoError(t, c.Nodes[2].Set("p:a", "x", 0))
		require.NoError(t, c.Nodes[3].Hang())
		start := time.Now()
		in, err = r.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, DefaultNodeTimeout, time.Since(start))
		assert.False(t, in.Held)
		assert.Equal(t, "x", in.Nodes[2].Token)
		assert.Negative(t, in.Nodes[2].TTL)
		require.ErrorIs(t, in.Nodes[3].Err, ErrNodeTimeout)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = r.Inspect(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// For how long a quorum of keys lives, of which one has no expiry.
func TestForHowLongAQuorumOfKeysLives(t *testing.T) {
	assert.Equal(t, 2*time.Second, needed([]time.Duration{time.Second, -1, 2 * time.Second}, 2))
}

func TestStatsCountWhatIsHeldAndWaiting(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithRetryCount(-1))
		var locks []*Lock
		for i := range 200 {
			l, err := r.TryLock(t.Context(), []string{string(rune('A' + i))}, time.Duration(i+1)*time.Second)
			require.NoError(t, err)
			locks = append(locks, l)
		}
		assert.Equal(t, 200, r.Stats().Held)
		time.Sleep(50 * time.Second)
		assert.Equal(t, 150, r.Stats().Held)
		require.NoError(t, locks[199].Unlock(t.Context()))
		assert.Equal(t, 149, r.Stats().Held)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := r.Lock(ctx, locks[198].Resources(), ttl)
			done <- err
		}()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		s := r.Stats()
		assert.Equal(t, 1, s.Waiting)
		assert.Equal(t, int64(200), s.Acquired)
		assert.Equal(t, int64(1), s.Unlocked)
		assert.Equal(t, int64(2), s.Taken, "it has looked again, to get in line")
		for i, n := range s.Nodes {
			assert.Equal(t, c.Nodes[i].Name(), n.Node)
			assert.True(t, n.Up)
			assert.Zero(t, n.Backlog)
		}
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		time.Sleep(200 * time.Second)
		assert.Zero(t, r.Stats().Held)
		for i := range rounds(1000, 400) { // Dropped without Unlock: the registry does not grow for ever.
			_, err := r.TryLock(t.Context(), []string{string(rune('A' + i))}, 10*time.Millisecond)
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
		assert.Less(t, Remembered(r), 200)
	})
}

// The registry of held locks and the locks each have a mutex.
func TestStatsWhileLocksComeAndGo(t *testing.T) {
	c := testcluster.RunEmbedded(t, 1)
	r := newRedlock(t, c, WithNodeTimeout(patient))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				l, err := r.TryLock(context.Background(), []string{string(rune('A'+g)) + string(rune('A'+i))}, ttl)
				if assert.NoError(t, err) && i%2 == 0 {
					assert.NoError(t, l.Unlock(context.Background())) //nolint:testifylint // Not the test's goroutine.
				}
				_ = r.Stats()
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 400, r.Stats().Held)
}

func TestCloseEndsWaitsAndKeepsHeldLocks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithRetryCount(-1))
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		done := make(chan error)
		go func() {
			_, lockErr := r.Lock(context.Background(), []string{"a"}, ttl)
			done <- lockErr
		}()
		time.Sleep(time.Second)
		start := time.Now()
		require.NoError(t, r.Close(t.Context()))
		assert.Zero(t, time.Since(start))
		err = <-done
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, err, ErrTaken)
		assert.Equal(t, 3, holders(t, c, l), "a lock in use is not released")
		require.NoError(t, l.Err())
		_, err = r.Lock(t.Context(), []string{"b"}, ttl)
		require.ErrorIs(t, err, ErrClosed)
		err = l.Extend(t.Context(), ttl)
		require.ErrorIs(t, err, ErrNoQuorum)
		err = l.Unlock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		for _, v := range votesOf(t, err) {
			require.ErrorIs(t, v.Err, ErrClosed)
		}
		require.NoError(t, r.Close(t.Context()), "idempotent")
	})
}

func TestCloseDrainsReleases(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(10*time.Millisecond, 20*time.Millisecond))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		_, err := r.TryLock(ctx, []string{"a"}, time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, r.Close(t.Context()))
		requireNoKeys(t, c)
	})
}

func TestCloseDoesNotWaitForHungNodes(t *testing.T) {
	for _, connected := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			r := newRedlock(t, c)
			if connected {
				warm(t, r)
			}
			for _, n := range c.Nodes {
				require.NoError(t, n.Hang())
			}
			_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.ErrorIs(t, err, ErrNoQuorum)
			start := time.Now()
			require.NoError(t, r.Close(t.Context()))
			assert.LessOrEqual(t, time.Since(start), 2*DefaultNodeTimeout)
		})
	}
}

func TestCloseOfAnUnusedRedlock(t *testing.T) {
	r, err := New([]Node{NewNode("127.0.0.1:1")})
	require.NoError(t, err)
	require.NoError(t, r.Close(t.Context()))
}

func TestCloseReportsAContextThatEnded(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.Nodes[0].Hang())
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, r.Close(ctx), context.DeadlineExceeded)
		require.NoError(t, r.Close(t.Context()))
	})
}

func TestAnIdleConnectionIsKeptAlive(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		var pings atomic.Int64
		require.NoError(t, c.Nodes[0].OnCommand(func(cmd string, _ []string) {
			if cmd == "PING" {
				pings.Add(1)
			}
		}))
		time.Sleep(10 * time.Minute)
		assert.InDelta(t, 40, pings.Load(), 2)
		assert.Equal(t, int64(1), r.Stats().Nodes[0].Connects)
		// A black hole is noticed although nobody asks for anything.
		c.Nodes[0].Proxy().BlackHole(true)
		time.Sleep(time.Minute)
		assert.False(t, r.Stats().Nodes[0].Up)
		c.Nodes[0].Proxy().BlackHole(false)
		time.Sleep(3 * time.Second)
		assert.True(t, r.Stats().Nodes[0].Up)
	})
}

// fillBacklog has a node that hangs owe as many answers as it may.
func fillBacklog(t *testing.T, n *node.Node) {
	t.Helper()
	for n.Status().Backlog < node.MaxBacklog {
		require.NoError(t, n.Enqueue(&node.Request{Task: &node.Task{Kind: node.Ask, Limit: n.Timeout}}, time.Now()))
	}
}

func TestAFullBacklogRefusesLocksButNotReleases(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		require.NoError(t, c.Nodes[0].Hang())
		ctx, cancel := context.WithCancel(t.Context())
		givenUp := make(chan error)
		go func() {
			_, cancelled := r.TryLock(ctx, []string{"given up"}, time.Minute)
			givenUp <- cancelled
		}()
		synctest.Wait()
		fillBacklog(t, NodesIn(r)[0])
		_, err = r.TryLock(t.Context(), []string{"b"}, ttl)
		require.ErrorIs(t, err, ErrNoQuorum)
		assert.Equal(t, node.ErrBacklog, votesOf(t, err)[0].Err)
		cancel()
		require.ErrorIs(t, <-givenUp, context.Canceled)
		time.AfterFunc(10*time.Millisecond, func() { assert.NoError(t, c.Nodes[0].Resume()) })
		require.Greater(t, r.Stats().Nodes[0].Backlog, node.MaxBacklog)
		require.NoError(t, l.Unlock(t.Context()), "all of them wait, and it waits behind them")
		requireNoKeys(t, c)
	})
}

func TestErrorsSayWhatIsNeeded(t *testing.T) {
	qe := &QuorumError{Op: OpLock, Resources: []string{"a"}, Need: 2, reason: ErrTaken, Votes: []Vote{
		{Node: "n1"},
		{Node: "n2", Err: ErrTaken, Holder: "abc", HolderTTL: time.Second},
		{Node: "n3", Err: ErrNodeTimeout},
	}}
	assert.Equal(t, `redlock: lock ["a"]: taken (1 of 3 nodes said yes, 2 needed; n1: yes; n2: held by abc for 1s; n3: node timeout)`, qe.Error())
	we := &waitError{op: OpLock, resources: []string{"a"}, cause: context.Canceled, last: qe}
	require.ErrorIs(t, we, context.Canceled)
	require.ErrorIs(t, we, ErrTaken)
	assert.Contains(t, we.Error(), "context canceled; last attempt: taken (1 of 3")
	require.ErrorIs(t, ErrExpired, ErrLost)
	require.NotErrorIs(t, ErrLost, ErrExpired)
	for _, e := range []error{ErrTaken, ErrNoQuorum, ErrLost, ErrClosed, ErrPending, ErrNodeTimeout} {
		require.NotErrorIs(t, e, context.DeadlineExceeded)
		assert.True(t, strings.HasPrefix(e.Error(), "redlock: "))
	}
}

func TestCloseDeliversTheEventsThatWait(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		events := 0
		r := newRedlock(t, c, WithHook(func(context.Context, Event) {
			time.Sleep(time.Second)
			events++
		}))
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, r.Close(t.Context()))
		assert.Equal(t, 7, events) // up; decided and settled of the lock and the release; acquired, released
		r2 := newRedlock(t, c, WithHook(func(context.Context, Event) { time.Sleep(time.Minute) }))
		_, err = r2.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, r2.Close(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))
		time.Sleep(time.Hour) // Until the hook is through.
	})
}

func TestNodeInspectionsReadWell(t *testing.T) {
	for want, n := range map[string]NodeInspection{
		"n: free":                       {Node: "n"},
		"n: held by abc for 1s":         {Node: "n", Holder: "abc", TTL: time.Second},
		"n: held by abc without expiry": {Node: "n", Holder: "abc", TTL: -1},
		"n: node timeout":               {Node: "n", Err: ErrNodeTimeout},
	} {
		assert.Equal(t, want, n.String())
	}
}

func TestTheEventOfAnExtensionThatCameTooLateSaysSo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, WithHook(rec.hook))
		warm(t, r)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Second)
		require.NoError(t, err)
		time.Sleep(time.Until(l.Until()) - 5*time.Millisecond)
		rec.take()
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(4*time.Millisecond, 4*time.Millisecond))
		}
		require.ErrorIs(t, l.Extend(t.Context(), time.Minute), ErrExpired)
		time.Sleep(20 * time.Millisecond)
		events := rec.take()
		require.Len(t, events, 2)
		for _, e := range events {
			assert.Equal(t, OpExtend, e.Op)
			assert.Equal(t, ErrExpired, e.Err)
		}
	})
}

// What the hook was told is what the call returns, even if a quorum says yes
// between the end of the waiting and the look at the votes.
func TestAQuorumAfterTheCallWasCutShortIsNone(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		told := make(chan Event, 10)
		r := newRedlock(t, c, WithHook(func(_ context.Context, e Event) {
			if len(e.Resources) == 1 && e.Resources[0] == "a" {
				told <- e
			}
		}))
		warm(t, r)
		for _, n := range c.Nodes {
			require.NoError(t, n.Slow(time.Millisecond, time.Millisecond))
		}
		cl := newClaim([]string{"a"}, []any{"a"}, "", time.Minute, 3)
		rd := r.newRound(t.Context(), OpLock, cl, cl.lockCommand(), node.LockRequest, decideLock, 1)
		rd.ask(time.Now(), 100*time.Millisecond)
		rd.giveUp(context.Canceled)
		time.Sleep(10 * time.Millisecond)
		v, votes := rd.result()
		assert.Equal(t, 3, votes.yes)
		assert.Equal(t, undecided, v)
		require.Len(t, told, 2)
		require.ErrorIs(t, (<-told).Err, context.Canceled)
		require.ErrorIs(t, (<-told).Err, context.Canceled)
	})
}

func TestErrorsOfManyResourcesAreShort(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		require.NoError(t, c.Nodes[0].Stop())
		var resources []string
		for i := range 1000 {
			resources = append(resources, fmt.Sprintf("r%03d", i))
		}
		_, err := r.TryLock(t.Context(), resources, ttl)
		require.ErrorContains(t, err, `"r009"] and 990 more: no quorum`)
		assert.Less(t, len(err.Error()), 400)
	})
}
