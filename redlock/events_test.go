package redlock_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

type ctxKey struct{}

func TestEventsTellWhatHappened(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		var inCtx any
		r := newWarm(t, c, redlock.WithHook(func(ctx context.Context, e redlock.Event) {
			inCtx = ctx.Value(ctxKey{})
			assert.NoError(t, ctx.Err()) //nolint:testifylint // Not the test's goroutine.
			rec.Hook(ctx, e)
		}))
		rec.Take()
		require.NoError(t, c.Nodes[2].Slow(10*time.Millisecond, 10*time.Millisecond))
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), ctxKey{}, "v"))
		l, err := r.TryLock(ctx, []string{"b", "a"}, ttl)
		require.NoError(t, err)
		cancel()
		time.Sleep(time.Second)
		events := rec.Take()
		assert.Equal(t, []redlock.EventKind{redlock.EventDecided, redlock.EventSettled}, kinds(events))
		assert.Equal(t, "v", inCtx)
		for _, e := range events {
			assert.Equal(t, redlock.OpLock, e.Op)
			assert.Equal(t, []string{"a", "b"}, e.Resources)
			assert.Equal(t, 1, e.Attempt)
			assert.Equal(t, l.Until(), e.Until)
			require.NoError(t, e.Err)
		}
		assert.Equal(t, redlock.ErrPending, events[0].Votes[2].Err)
		require.NoError(t, events[1].Votes[2].Err)
		assert.Equal(t, 20*time.Millisecond, events[1].Votes[2].Took)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestEventOfAnExtensionThatCameTooLateSaysSo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newWarm(t, c, redlock.WithHook(rec.Hook))
		l := tryLock(t, r, []string{"a"}, time.Second)
		time.Sleep(time.Until(l.Until()) - 5*time.Millisecond)
		rec.Take()
		require.NoError(t, c.Slow(4*time.Millisecond, 4*time.Millisecond))
		require.ErrorIs(t, l.Extend(t.Context(), time.Minute), redlock.ErrExpired)
		time.Sleep(20 * time.Millisecond)
		events := rec.Take()
		require.Len(t, events, 2)
		for _, e := range events {
			assert.Equal(t, redlock.OpExtend, e.Op)
			assert.Equal(t, redlock.ErrExpired, e.Err)
		}
	})
}

func TestEventHookThatIsSlowDropsEventsAndDelaysNothing(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		block := make(chan struct{})
		r := newRedlock(t, c, redlock.WithHook(func(context.Context, redlock.Event) { <-block }))
		start := time.Now()
		for range rounds(2000, 700) {
			cycle(t, r, "a", ttl)
		}
		assert.Zero(t, time.Since(start))
		assert.Positive(t, r.Stats().EventsDropped)
		close(block)
	})
}

func TestEventHookMayUseTheRedlock(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var r *redlock.Redlock
		var used sync.Once
		r = newRedlock(t, c, redlock.WithHook(func(context.Context, redlock.Event) {
			used.Do(func() { cycle(t, r, "from the hook", ttl) })
		}))
		cycle(t, r, "a", ttl)
		synctest.Wait()
		assert.EqualValues(t, 2, r.Stats().Unlocked)
	})
}

func TestEventEndsEachCall(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newWarm(t, c, redlock.WithHook(rec.Hook), redlock.WithFencing(), redlock.WithOwner("me"))
		rec.TakeAll()
		require.NoError(t, c.Slow(5*time.Millisecond, 5*time.Millisecond))
		start := time.Now()
		l := tryLock(t, r, []string{"b", "a"}, time.Minute)
		_, refused := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.ErrorIs(t, refused, redlock.ErrTaken)
		require.NoError(t, l.Extend(t.Context(), time.Hour))
		time.Sleep(time.Second)
		held := time.Since(start)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, l.Unlock(t.Context()), "without I/O: no event")
		require.ErrorIs(t, l.Extend(t.Context(), time.Hour), redlock.ErrLost)
		synctest.Wait()
		e := rec.TakeLife()
		require.Equal(t, []redlock.EventKind{redlock.EventAcquired, redlock.EventNotAcquired, redlock.EventExtended, redlock.EventReleased, redlock.EventExtended}, kinds(e))
		for i, op := range []redlock.Op{redlock.OpLock, redlock.OpLock, redlock.OpExtend, redlock.OpUnlock, redlock.OpExtend} {
			assert.Equal(t, op, e[i].Op)
			assert.Equal(t, "me", e[i].Owner)
			if i != 1 {
				assert.Equal(t, tokens.Digest(l.Token()), e[i].Holder)
				assert.Equal(t, []string{"a", "b"}, e[i].Resources)
			}
		}
		acquired, no, extended, released, late := e[0], e[1], e[2], e[3], e[4]
		assert.Equal(t, 10*time.Millisecond, acquired.Took)
		assert.Zero(t, acquired.Waited)
		assert.Equal(t, 1, acquired.Attempt)
		assert.Equal(t, l.Fence(), acquired.Fence)
		assert.Equal(t, start.Add(testkit.Validity(time.Minute)), acquired.Until)
		assert.Equal(t, refused, no.Err)
		require.Len(t, no.Votes, 3)
		assert.Equal(t, acquired.Holder, cmp.Or(no.Votes[0].Holder, no.Votes[1].Holder), "who keeps it out can be told")
		assert.Equal(t, 1, no.Attempt)
		require.NoError(t, extended.Err)
		assert.Equal(t, l.Until(), extended.Until)
		assert.Equal(t, held, released.Held)
		assert.Equal(t, 10*time.Millisecond, released.Took)
		require.NoError(t, released.Err)
		require.ErrorIs(t, late.Err, redlock.ErrLost)

		// A call that waits.
		l = lockOnAll(t, r, []string{"a"}, time.Minute)
		rec.TakeAll()
		time.AfterFunc(2*time.Second, func() { _ = l.Unlock(context.Background()) })
		began := time.Now()
		l2 := waitLock(t, r, []string{"a"}, time.Minute, redlock.WithRetryCount(-1))
		took := time.Since(began)
		time.Sleep(20 * time.Millisecond) // A timed retry may get it before the Unlock has heard of its release.
		synctest.Wait()
		e = rec.TakeLife()
		require.Len(t, e, 2)
		if e[0].Kind == redlock.EventReleased { // At the same instant.
			e[0], e[1] = e[1], e[0]
		}
		require.Equal(t, []redlock.EventKind{redlock.EventAcquired, redlock.EventReleased}, kinds(e))
		assert.Equal(t, took, e[0].Took)
		assert.Equal(t, took-10*time.Millisecond, e[0].Waited)
		assert.Equal(t, l2.Attempts(), e[0].Attempt)

		// Expired: for how long it was held, and not until somebody noticed.
		time.Sleep(time.Hour)
		require.ErrorIs(t, l2.Unlock(t.Context()), redlock.ErrExpired)
		synctest.Wait()
		e = rec.TakeLife()
		require.Equal(t, []redlock.EventKind{redlock.EventReleased}, kinds(e))
		require.ErrorIs(t, e[0].Err, redlock.ErrExpired)
		assert.Equal(t, testkit.Validity(time.Minute), e[0].Held)
	})
}

// The end of a hold is told when it happens, with its cause, and counted.
func TestEventTellsTheEndOfAHold(t *testing.T) {
	for cause, k := range map[error]struct {
		end   func(c *testcluster.Cluster, r *redlock.Redlock, l *redlock.Lock) error
		count redlock.HoldsEnded
	}{
		redlock.ErrExpired: {func(c *testcluster.Cluster, _ *redlock.Redlock, _ *redlock.Lock) error {
			return c.Stop()
		}, redlock.HoldsEnded{Expired: 1}},
		redlock.ErrLost: {func(c *testcluster.Cluster, _ *redlock.Redlock, _ *redlock.Lock) error {
			return c.Del("a")
		}, redlock.HoldsEnded{Lost: 1}},
		redlock.ErrMaxHold: {func(*testcluster.Cluster, *redlock.Redlock, *redlock.Lock) error {
			return nil
		}, redlock.HoldsEnded{MaxHold: 1}},
		redlock.ErrClosed: {func(_ *testcluster.Cluster, r *redlock.Redlock, _ *redlock.Lock) error {
			go func() { _ = r.Close(context.Background()) }()
			return nil
		}, redlock.HoldsEnded{Closed: 1}},
		nil: {func(_ *testcluster.Cluster, _ *redlock.Redlock, l *redlock.Lock) error {
			return l.Unlock(context.Background())
		}, redlock.HoldsEnded{Released: 1}},
	} {
		inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
			var rec recorder
			var inCtx any
			r := newRedlock(t, c, redlock.WithMaxHold(time.Minute), redlock.WithHook(func(ctx context.Context, e redlock.Event) {
				rec.Hook(ctx, e)
				if e.Kind == redlock.EventHoldEnded {
					inCtx = ctx.Value(ctxKey{})
				}
			}))
			start := time.Now()
			l := tryLock(t, r, []string{"a"}, ttl)
			ctx := l.KeepAlive(context.WithValue(t.Context(), ctxKey{}, "v"))
			time.Sleep(15 * time.Second)
			assert.Zero(t, r.Stats().HoldsEnded)
			rec.TakeAll()
			require.NoError(t, k.end(c, r, l))
			<-ctx.Done()
			ended := time.Now()
			synctest.Wait()
			e := rec.TakeOf(redlock.EventHoldEnded)
			require.Len(t, e, 1, "at once")
			assert.Equal(t, cause, e[0].Err)
			assert.Equal(t, ended, e[0].Time)
			assert.Equal(t, ended.Sub(start), e[0].Held)
			assert.Equal(t, []string{"a"}, e[0].Resources)
			assert.Equal(t, tokens.Digest(l.Token()), e[0].Holder)
			assert.Equal(t, l.Until(), e[0].Until)
			assert.Equal(t, "v", inCtx)
			assert.Equal(t, k.count, r.Stats().HoldsEnded)
			_ = l.Unlock(t.Context())
			synctest.Wait()
			assert.Empty(t, rec.TakeOf(redlock.EventHoldEnded), "once")
			assert.Equal(t, k.count, r.Stats().HoldsEnded)
		})
	}
}

// That the keys were gone may show at the release only. Then a hold was lost, whatever its caller says.
func TestEventTellsALossThatTheReleaseFinds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, redlock.WithHook(rec.Hook))
		l, ctx := kept(t, r, ttl)
		time.Sleep(time.Second)
		require.NoError(t, c.Del("a"))
		err := l.Unlock(t.Context())
		require.ErrorIs(t, err, redlock.ErrLost)
		require.NotErrorIs(t, err, redlock.ErrNotAcquired)
		assert.Equal(t, context.Canceled, context.Cause(ctx))
		_ = l.Unlock(t.Context())
		synctest.Wait()
		ends := rec.TakeOf(redlock.EventHoldEnded)
		require.Len(t, ends, 1)
		assert.Equal(t, redlock.ErrLost, ends[0].Err)
		assert.Equal(t, time.Second, ends[0].Held)
		assert.Equal(t, redlock.HoldsEnded{Lost: 1}, r.Stats().HoldsEnded)
	})
}

// By the number of its call, which the attempts, extensions and the release of a Do share, spans can be made of
// events, and of nothing else. What its function does are other calls.
func TestEventsAreEnoughForTraces(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, redlock.WithHook(rec.Hook))
		start := time.Now()
		err := r.Do(t.Context(), []string{"a"}, ttl, func(ctx context.Context, _ *redlock.Lock) error {
			cycle(t, r, "b", ttl)
			time.Sleep(5 * time.Second)
			require.NoError(t, c.Del("a"))
			<-ctx.Done()
			return assert.AnError
		})
		require.ErrorIs(t, err, redlock.ErrLost)
		synctest.Wait()
		calls := map[uint64][]string{}
		var done redlock.Event
		for _, e := range rec.TakeAll() {
			if e.Call == 0 || e.Kind == redlock.EventSettled {
				continue
			}
			lost := ""
			if errors.Is(e.Err, redlock.ErrLost) {
				lost = " lost"
			}
			calls[e.Call] = append(calls[e.Call], fmt.Sprint(e.Kind, " ", e.Resources, lost))
			done = e
		}
		assert.ElementsMatch(t, []string{
			"decided [a]", "acquired [a]", "decided [a]", "extended [a]", "decided [a] lost", "extended [a] lost", "hold ended [a] lost",
			"decided [a] lost", "released [a] lost", "done [a] lost",
		}, calls[done.Call])
		delete(calls, done.Call)
		assert.ElementsMatch(t, [][]string{{"decided [b]", "acquired [b]"}, {"decided [b]", "released [b]"}}, slices.Collect(maps.Values(calls)))
		assert.Equal(t, err, done.Err)
		assert.Equal(t, []time.Duration{time.Since(start), time.Since(start)}, []time.Duration{done.Took, done.Held})
	})
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) { // A function that panics is no success.
		var rec recorder
		r := newRedlock(t, c, redlock.WithHook(rec.Hook))
		require.Panics(t, func() {
			_ = r.Do(t.Context(), []string{"a"}, ttl, func(context.Context, *redlock.Lock) error { panic("boom") })
		})
		synctest.Wait()
		e := rec.TakeLife()
		require.Equal(t, []redlock.EventKind{redlock.EventAcquired, redlock.EventHoldEnded, redlock.EventReleased, redlock.EventDone}, kinds(e))
		require.ErrorIs(t, e[3].Err, redlock.ErrNoReturn)
	})
}

// A call that ends by a panic in a user's function ends with an event, too.
func TestEventEndsACallThatPanics(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		r := newRedlock(t, c, redlock.WithHook(rec.Hook))
		held := lockElsewhere(t, c, "a", time.Hour)
		warm(t, r)
		for _, opt := range []redlock.Option{
			redlock.WithRetryIf(func(error) bool { panic("a bug in the caller") }),
			redlock.WithRetryBackoff(func(int) time.Duration { panic("a bug in the caller") }),
		} {
			for _, opts := range [][]redlock.Option{{opt}, {opt, redlock.WithPolling()}} {
				synctest.Wait()
				rec.TakeAll()
				require.PanicsWithValue(t, "a bug in the caller", func() { _, _ = r.Lock(t.Context(), []string{"a"}, ttl, opts...) })
				synctest.Wait()
				e := rec.TakeLife()
				require.Equal(t, []redlock.EventKind{redlock.EventNotAcquired}, kinds(e))
				require.ErrorIs(t, e[0].Err, redlock.ErrNotAcquired)
				require.ErrorContains(t, e[0].Err, "WithRetryIf or WithRetryBackoff has not returned")
			}
		}
		require.NoError(t, held.Unlock(t.Context()))
		// As net/http recovers from panics, nobody who has panicked is in the way of one that only waits for its turn.
		_, err := r.Lock(within(t, time.Minute), []string{"a"}, ttl, redlock.WithRetryCount(-1))
		require.NoError(t, err)
	})
}

func TestEventsThatAreRecentAreKeptWithoutAHook(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newWarm(t, c, redlock.WithRetryCount(0))
		assert.Equal(t, []redlock.EventKind{redlock.EventNodeUp, redlock.EventNodeUp, redlock.EventNodeUp}, kinds(r.RecentEvents()),
			"a lock that is got and released is nothing out of the ordinary")

		lockElsewhere(t, c, "x", time.Minute)
		_ = givesUp(t, redlock.ErrTaken, r, []string{"x"}) // Nor is one that is taken.
		lock := waitLock(t, r, []string{"job"}, 3*time.Second, redlock.WithOwner("me"))
		ctx := lock.KeepAlive(t.Context())
		for _, n := range c.Nodes[1:] {
			require.NoError(t, n.Stop())
		}
		for range 5 {
			_ = givesUp(t, redlock.ErrNoQuorum, r, []string{"other"})
		}
		<-ctx.Done()
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrExpired)
		synctest.Wait()

		seen := map[redlock.EventKind]int{}
		events := r.RecentEvents()
		for i, e := range events {
			seen[e.Kind]++
			assert.True(t, i == 0 || !e.Time.Before(events[i-1].Time), "in order")
			assert.True(t, e.Kind != redlock.EventHoldEnded || errors.Is(e.Err, redlock.ErrExpired) && e.Owner == "me")
		}
		extended := seen[redlock.EventExtended]
		assert.True(t, 0 < extended && extended <= 4, "one a second: %d", extended)
		delete(seen, redlock.EventExtended)
		assert.Equal(t, map[redlock.EventKind]int{
			redlock.EventNodeUp: 3, redlock.EventNodeDown: 2, redlock.EventHoldAtRisk: 1, redlock.EventHoldEnded: 1, redlock.EventReleased: 1,
			redlock.EventNotAcquired: 1, // One a second.
		}, seen)
	})
}

// Losses of locks come in crowds, and must not drive out what has caused them.
func TestEventsThatAreRecentAreBounded(t *testing.T) {
	withRedlock(t, 1, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		for range 200 {
			l := waitLock(t, r, []string{"x"}, 10*time.Millisecond)
			time.Sleep(10 * time.Millisecond)
			require.ErrorIs(t, l.Unlock(t.Context()), redlock.ErrExpired)
		}
		events := r.RecentEvents()
		require.Len(t, events, 1+64)
		assert.Equal(t, redlock.EventNodeUp, events[0].Kind)
		last := events[len(events)-1]
		assert.WithinDuration(t, time.Now(), last.Time, 5*time.Millisecond, "the latest ones")
	})
}

// An event that is kept and one that the hook gets share nothing that either may change.
func TestEventsThatAreRecentAreNotTheHooks(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithHook(func(_ context.Context, e redlock.Event) {
			for i := range e.Resources {
				e.Resources[i] = "the hook's"
			}
			for i := range e.Votes {
				e.Votes[i].Node = "the hook's"
			}
		}))
		require.NoError(t, c.Nodes[0].Stop())
		refused(t, redlock.ErrNoQuorum, r, []string{"x"}, ttl)
		synctest.Wait()
		events := r.RecentEvents()
		e := events[len(events)-1]
		require.Equal(t, redlock.EventNotAcquired, e.Kind)
		assert.Equal(t, []string{"x"}, e.Resources)
		assert.Equal(t, c.Nodes[0].Name(), e.Votes[0].Node)
		assert.NotZero(t, e.Call)
	})
}

func TestEventOfALossSaysHowManyNodesAreLeft(t *testing.T) {
	for n, need := range map[int]int{2: 2, 3: 2, 4: 3} {
		inBubble(t, n, func(t *testing.T, c *testcluster.Cluster) {
			var rec recorder
			newWarm(t, c, redlock.WithHook(rec.Hook))
			for i := range 2 * n { // Each node is lost twice.
				require.NoError(t, c.Nodes[i%n].Stop())
				time.Sleep(time.Minute)
				lost := rec.TakeOf(redlock.EventNodeDown)
				require.Len(t, lost, 1)
				assert.Equal(t, c.Nodes[i%n].Name(), lost[0].Node)
				require.ErrorContains(t, lost[0].Err, fmt.Sprintf("(%d of %d nodes left, a quorum is %d)", n-1, n, need))
				require.NoError(t, c.Nodes[i%n].Restart(true))
				time.Sleep(time.Minute)
			}
		})
	}
}

// All is quiet while all is well. In an outage there is a line in 10 s, whatever is tried and lost, and the locks that were lost are counted.
func TestEventSlogHookDoesNotFillTheLogInAnOutage(t *testing.T) {
	for name, fail := range map[string]func(c *testcluster.Cluster) error{
		"down":    (*testcluster.Cluster).Stop,
		"refuses": func(c *testcluster.Cluster) error { return c.SetError("LOADING x") },
	} {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			var out bytes.Buffer
			r := newWarm(t, c, redlock.WithHook(redlock.SlogHook(slog.New(slog.NewTextHandler(&out, nil)))))
			for i := range 30 {
				tryLock(t, r, []string{fmt.Sprint("kept:", i)}, ttl).KeepAlive(t.Context())
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			wait := mixedLoad(ctx, t, r, 6)
			time.Sleep(10 * time.Second)
			assert.Empty(t, out.String(), "nothing is wrong")
			require.NoError(t, fail(c))
			wait()
			lines := slices.Collect(strings.Lines(out.String()))
			assert.LessOrEqual(t, len(lines), 1+12, out.String())
			assert.Greater(t, len(lines), 3, out.String())
			lost := strings.Count(out.String(), "a lock that was kept is lost")
			for _, m := range regexp.MustCompile(`locks_lost=(\d+)`).FindAllStringSubmatch(out.String(), -1) {
				n, err := strconv.Atoi(m[1])
				require.NoError(t, err)
				lost += n
			}
			assert.Equal(t, 30, lost, out.String())
		})
	}
}

// What was left out in an outage is told when a node is back, if no other line has come.
func TestEventSlogHookTellsWhatItHasLeftOut(t *testing.T) {
	var out bytes.Buffer
	hook, now := redlock.SlogHook(slog.New(slog.NewTextHandler(&out, nil))), time.Now()
	for _, e := range []redlock.Event{
		{Kind: redlock.EventNodeDown, Node: "a"},
		{Kind: redlock.EventNodeDown, Node: "b"},
		{Kind: redlock.EventNodeDown, Node: "c"},
		{Kind: redlock.EventHoldEnded, Err: redlock.ErrExpired},
		{Kind: redlock.EventNodeDown, Node: "d"},
		{Kind: redlock.EventNodeUp, Node: "d"},
		{Kind: redlock.EventNodeUp, Node: "a"},
		{Kind: redlock.EventNodeUp, Node: "b"},
		{Kind: redlock.EventNodeUp, Node: "c"},
		{Kind: redlock.EventHoldEnded, Err: redlock.ErrExpired},
		{Kind: redlock.EventHoldEnded, Err: redlock.ErrExpired},
		{Kind: redlock.EventDecided, Op: redlock.OpExtend, Err: redlock.ErrLost, Overtaken: true}, // By a release.
		{Kind: redlock.EventHoldEnded, Err: redlock.ErrMaxHold},
		{Kind: redlock.EventReleased, Op: redlock.OpUnlock, Err: redlock.ErrLost},
		{Kind: redlock.EventNodeDown, Node: "a"},
	} {
		e.Time = now
		hook(t.Context(), e)
	}
	lines := slices.Collect(strings.Lines(out.String()))
	want := []string{
		`lost" node=a`, `lost" node=b`, `back" node=a still_lost="[b c]" left_out=3 locks_lost=1`, `back" node=b still_lost=[c]`, `back" node=c`,
		`kept is lost"`, `kept is lost"`, // No node's return would tell of them.
		`level=WARN msg="redlock: a lock was not held to its release"`, `lost" node=a`,
	}
	require.Len(t, lines, len(want), out.String())
	for i, text := range want {
		assert.Contains(t, lines[i], text)
	}
	assert.Equal(t, 1, strings.Count(out.String(), "left_out="), "once")
}
