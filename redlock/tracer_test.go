package redlock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// callTracer notes what begins, and which event ends it.
type callTracer struct {
	wants []redlock.EventKind
	of    *redlock.Redlock // at which it looks, if there is one: no lock of the library's is held meanwhile

	mu           sync.Mutex
	begun, ended []string
	over         []string // by End
	last         redlock.Event
}

type beganKey struct{}

func (c *callTracer) Begin(ctx context.Context, op redlock.Op, resources []string) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	within, _ := ctx.Value(beganKey{}).(string)
	name := fmt.Sprintf("%s%v", op, resources)
	if within != "" {
		name = within + "/" + name
	}
	c.begun = append(c.begun, name)
	return context.WithValue(ctx, beganKey{}, name)
}

func (c *callTracer) Wants(_ context.Context, kind redlock.EventKind) bool {
	return slices.Contains(c.wants, kind)
}

// look asks for all that may be asked for.
func (c *callTracer) look() {
	if c.of != nil {
		c.of.Stats()
		c.of.HeldLocks()
		c.of.WaitingCalls()
		c.of.RecentEvents()
	}
}

func (c *callTracer) End(ctx context.Context, e redlock.Event) {
	c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = append(c.over, fmt.Sprintf("%v%v %v", e.Op, e.Resources, ctx.Value(beganKey{})))
	c.last = e
}

func (c *callTracer) Event(ctx context.Context, e redlock.Event) {
	c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, fmt.Sprintf("%s %v", e.Kind, ctx.Value(beganKey{})))
}

// take returns what has begun, and the events, and forgets both.
func (c *callTracer) take() (begun, ended []string) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	begun, ended = c.begun, c.ended
	c.begun, c.ended = nil, nil
	return begun, ended
}

var ends = []redlock.EventKind{
	redlock.EventAcquired, redlock.EventNotAcquired, redlock.EventExtended, redlock.EventReleased, redlock.EventDone, redlock.EventHoldEnded,
}

func TestTracerEndsWhatItBegins(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		tr := &callTracer{wants: ends}
		r := newRedlock(t, c, redlock.WithTracer(tr), redlock.WithRetryCount(0))
		tr.of = r
		l := tryLock(t, r, []string{"x"}, ttl)
		_ = givesUp(t, redlock.ErrTaken, r, []string{"x"})
		require.NoError(t, l.Extend(t.Context(), ttl))
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, l.Unlock(t.Context()), "again, which asks nobody")
		begun, ended := tr.take()
		assert.Equal(t, []string{"lock[x]", "lock[x]", "extend[x]", "unlock[x]"}, begun)
		assert.Equal(t, []string{"lock[x] lock[x]", "lock[x] lock[x]", "extend[x] extend[x]", "unlock[x] unlock[x]"}, tr.over)
		assert.Equal(t, []string{"acquired lock[x]", "not acquired lock[x]", "extended extend[x]", "released unlock[x]"}, ended)

		sleep := func(ctx context.Context, _ *redlock.Lock) error {
			assert.Equal(t, "do[y]", ctx.Value(beganKey{}), "the function's work is within the Do")
			time.Sleep(ttl / 2)
			return nil
		}
		require.NoError(t, r.Do(t.Context(), []string{"y"}, ttl, sleep))
		begun, ended = tr.take()
		assert.Equal(t, []string{"do[y]", "do[y]/lock[y]", "do[y]/extend[y]", "do[y]/unlock[y]"}, begun)
		assert.Equal(t, []string{
			"acquired do[y]/lock[y]", "extended do[y]/extend[y]", "hold ended do[y]", "released do[y]/unlock[y]", "done do[y]",
		}, ended)

		assert.Equal(t, []string{
			"lock[y] do[y]/lock[y]", "extend[y] do[y]/extend[y]", "unlock[y] do[y]/unlock[y]", "do[y] do[y]",
		}, tr.over[4:])

		lockElsewhere(t, c, "z", ttl)
		require.ErrorIs(t, r.Do(t.Context(), []string{"z"}, ttl, sleep), redlock.ErrNotAcquired)
		begun, ended = tr.take()
		assert.Equal(t, []string{"do[z]", "do[z]/lock[z]"}, begun)
		assert.Equal(t, []string{"not acquired do[z]/lock[z]"}, ended)
		assert.Equal(t, []string{"lock[z] do[z]/lock[z]"}, tr.over[8:])
	})
}

// Metrics are made of End alone.
func TestTracerIsToldHowACallHasEnded(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		tr := &callTracer{}
		r := newRedlock(t, c, redlock.WithTracer(tr), redlock.WithRetryDelay(time.Second), redlock.WithRetryJitter(0), redlock.WithPolling())
		held := lockElsewhere(t, c, "x", 1500*time.Millisecond)
		l := waitLock(t, r, []string{"x"}, ttl)
		assert.Equal(t, redlock.Event{
			Kind: redlock.EventAcquired, Op: redlock.OpLock, Resources: []string{"x"}, Attempt: 3, Took: 2 * time.Second, Waited: 2 * time.Second,
		}, tr.last)
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(t.Context()))
		assert.Equal(t, redlock.Event{Kind: redlock.EventReleased, Op: redlock.OpUnlock, Resources: []string{"x"}, Held: time.Second}, tr.last)
		require.ErrorIs(t, held.Unlock(t.Context()), redlock.ErrExpired)

		require.NoError(t, c.Nodes[0].Hang())
		require.NoError(t, c.Nodes[1].Hang())
		_, err := r.TryLock(t.Context(), []string{"y"}, ttl)
		qe := quorumError(t, err)
		assert.Equal(t, redlock.Event{
			Kind: redlock.EventNotAcquired, Op: redlock.OpLock, Resources: []string{"y"}, Attempt: 1, Votes: qe.Votes,
			Took: redlock.DefaultNodeTimeout, Err: err,
		}, tr.last)
	})
}

// What nobody wants is not made.
func TestTracerGetsWhatItWants(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		tr, rec := &callTracer{wants: []redlock.EventKind{redlock.EventReleased}}, &recorder{}
		r := newRedlock(t, c, redlock.WithTracer(tr))
		cycle(t, r, "x", ttl)
		begun, ended := tr.take()
		assert.Equal(t, []string{"lock[x]", "unlock[x]"}, begun)
		assert.Equal(t, []string{"released unlock[x]"}, ended)
		assert.NotEmpty(t, r.RecentEvents(), "the nodes came up, of which the tracer does not want to hear")

		cycle(t, newRedlock(t, c, redlock.WithTracer(tr), redlock.WithHook(rec.Hook)), "x", ttl)
		assert.Contains(t, kinds(rec.TakeAll()), redlock.EventDecided, "a hook gets everything")
	})
}

func TestStatsCountVotesByNode(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newWarm(t, c)
		assert.Equal(t, redlock.VoteCounts{Yes: 2}, r.Stats().Nodes[0].Votes)
		l := lockOnAll(t, r, []string{"y"}, ttl)
		require.NoError(t, c.Nodes[0].Del("y"))
		require.NoError(t, c.Nodes[1].Hang())
		require.NoError(t, c.Nodes[2].SetError("ERR something"))
		require.ErrorIs(t, l.Extend(t.Context(), ttl), redlock.ErrNoQuorum)
		time.Sleep(redlock.DefaultNodeTimeout + time.Millisecond)
		synctest.Wait()
		require.NoError(t, c.Nodes[1].Resume())
		synctest.Wait() // The answer of the second one comes after its round.
		nodes := r.Stats().Nodes
		assert.Equal(t, redlock.VoteCounts{Yes: 3, Lost: 1}, nodes[0].Votes)
		assert.Equal(t, redlock.VoteCounts{Yes: 3, Timeout: 1}, nodes[1].Votes)
		assert.Equal(t, redlock.VoteCounts{Yes: 3, Failed: 1}, nodes[2].Votes)
	})
}

// panicky returns a tracer that panics once it is armed, once, in one of its methods, in a call of one kind.
func panicky(method string, op redlock.Op, armed *atomic.Bool) redlock.Tracer {
	panicIn := func(in string, of redlock.Op) {
		if in == method && of == op && armed.CompareAndSwap(true, false) {
			panic("the tracer's")
		}
	}
	return testkit.TracerFuncs{
		OnBegin: func(op redlock.Op) { panicIn("begin", op) },
		OnWants: func(redlock.EventKind) bool { panicIn("wants", op); return true },
		OnEnd:   func(e redlock.Event) { panicIn("end", e.Op) },
	}
}

// net/http and others recover from panics: nothing may hang after one, and no key be left.
func TestTracerThatPanicsLeavesNothingBehind(t *testing.T) {
	for _, method := range []string{"begin", "end", "wants"} {
		for _, op := range []redlock.Op{redlock.OpLock, redlock.OpDo, redlock.OpExtend, redlock.OpUnlock} {
			runInBubble(t, method+" "+string(op), 3, func(t *testing.T, c *testcluster.Cluster) {
				var armed atomic.Bool
				r := newWarm(t, c, redlock.WithTracer(panicky(method, op, &armed)))
				guarded := func(f func()) {
					defer func() {
						_ = recover()
						armed.Store(false)
						synctest.Wait()
					}()
					armed.Store(true)
					f()
				}
				guarded(func() { _, _ = r.TryLock(t.Context(), []string{"tried"}, time.Minute) })
				if op == redlock.OpLock && method != "wants" {
					requireNoKeys(t, c)
				}
				guarded(func() {
					_ = r.Do(t.Context(), []string{"done"}, time.Minute, func(context.Context, *redlock.Lock) error { return nil })
				})
				own := tryLock(t, r, []string{"done"}, time.Minute)
				guarded(func() { _ = own.Do(t.Context(), func(context.Context, *redlock.Lock) error { return nil }) })
				for _, n := range c.Nodes {
					require.NotContains(t, keys(t, n), "done")
				}
				l := tryLock(t, r, []string{"a"}, 10*time.Second)
				l.KeepAlive(t.Context())
				guarded(func() { _ = l.Extend(t.Context(), 10*time.Second) })
				guarded(func() { _ = l.Unlock(t.Context()) })
				require.NoError(t, l.Unlock(t.Context()), "again")
				require.NoError(t, r.Close(within(t, time.Hour)))
				for _, n := range c.Nodes {
					require.NotContains(t, keys(t, n), "a")
				}
			})
		}
	}
}
