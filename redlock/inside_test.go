package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/reserved"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// These are like those of test/testkit, which tests in this package cannot import: it imports this package.

func nodesOf(c *testcluster.Cluster) []Node {
	nodes := make([]Node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = Node{Name: n.Name(), Pool: n.Pool()}
	}
	return nodes
}

func newRedlock(t *testing.T, c *testcluster.Cluster, opts ...Option) *Redlock {
	t.Helper()
	return newOver(t, nodesOf(c), opts...)
}

func newOver(tb testing.TB, nodes []Node, opts ...Option) *Redlock {
	tb.Helper()
	r, err := New(nodes, opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

func inBubble(t *testing.T, n int, fn func(t *testing.T, c *testcluster.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(t, testcluster.RunBubble(t, n)) })
}

func keys(t *testing.T, n *testcluster.Node) map[string]testcluster.KeyState {
	t.Helper()
	all, err := n.Keys()
	require.NoError(t, err)
	for k := range all {
		if reserved.Has(k) {
			delete(all, k)
		}
	}
	return all
}

func rounds(usual, short int) int {
	if testing.Short() {
		return short
	}
	return usual
}

const ttl = 10 * time.Second

func warm(t *testing.T, r *Redlock) {
	t.Helper()
	l, err := r.TryLock(t.Context(), []string{"warm"}, ttl)
	require.NoError(t, err)
	synctest.Wait()
	require.NoError(t, l.Unlock(t.Context()))
	synctest.Wait()
}

func votesOf(t *testing.T, err error) []Vote {
	t.Helper()
	var qe *QuorumError
	require.ErrorAs(t, err, &qe)
	return qe.Votes
}

// A delay is at least 1 ms and never longer than all that options may set, and its jitter is at
// most the delay. A negative one ends the wait.
func TestRetryBackoffDelays(t *testing.T) {
	o := defaultOptions()
	require.EqualError(t, o.apply([]Option{WithRetryBackoff(nil)}), "redlock: WithRetryBackoff: nil function")
	for want, d := range map[time.Duration]time.Duration{-1: -1, time.Millisecond: 0, maxWait: 1000 * time.Hour} {
		o = defaultOptions()
		require.NoError(t, o.apply([]Option{WithRetryBackoff(func(int) time.Duration { return d }), WithRetryJitter(0)}))
		assert.Equal(t, want, o.delay(1))
	}
	o = defaultOptions()
	require.NoError(t, o.apply([]Option{WithRetryBackoff(func(int) time.Duration { return time.Millisecond })}))
	for range 100 {
		d := o.delay(1)
		assert.InDelta(t, time.Millisecond, d, float64(time.Millisecond), "with a jitter of no more than the delay")
		assert.GreaterOrEqual(t, d, time.Millisecond)
	}
}

// Of a delay and a jitter that do not go together, the jitter yields, but where both come from one call.
func TestRetryJitterOfAnotherCallIsClipped(t *testing.T) {
	const ms = time.Millisecond
	set := func(defaults options, opts ...Option) options {
		require.NoError(t, defaults.apply(opts))
		return defaults
	}
	defaults := set(defaultOptions(), WithRetryJitter(50*ms))
	assert.Equal(t, ms, set(defaults, WithRetryDelay(ms)).retryJitter)
	assert.Equal(t, 50*ms, set(defaults, WithRetryDelay(time.Second)).retryJitter)
	assert.Equal(t, 100*ms, set(set(defaultOptions(), WithRetryDelay(ms)), WithRetryDelay(time.Second)).retryJitter)
	assert.Equal(t, 10*ms, set(set(defaultOptions(), WithRetryDelay(10*ms)), WithRetryJitter(20*ms)).retryJitter)
	err := defaults.apply([]Option{WithRetryJitter(2 * ms), WithRetryDelay(ms)})
	require.EqualError(t, err, "redlock: retry jitter 2ms: must not exceed the retry delay 1ms")
}

func TestRetryDelayIsUniformAroundTheDelay(t *testing.T) {
	low, high := time.Hour, time.Duration(0)
	for range 10000 {
		d := jittered(200*time.Millisecond, 100*time.Millisecond)
		low, high = min(low, d), max(high, d)
	}
	assert.InDelta(t, 105*time.Millisecond, low, float64(5*time.Millisecond))
	assert.InDelta(t, 295*time.Millisecond, high, float64(5*time.Millisecond))
}

// A lock request that waits for a connection is withdrawn when its time is over, also if other
// nodes were asked again meanwhile: it could set the key when the lock has ended.
func TestRoundWithdrawsARequestThatWaitsThoughOthersAreAskedAgain(t *testing.T) {
	inBubble(t, 7, func(t *testing.T, c *testcluster.Cluster) {
		nodes := nodesOf(c)
		last := nodes[6].Pool
		nodes[6].Pool = PoolFunc(func(ctx context.Context) (redis.Conn, error) {
			time.Sleep(time.Second)
			return last.GetContext(ctx)
		})
		asked := 0
		r := newOver(t, nodes, WithConnectTimeout(5*time.Second), WithHook(func(_ context.Context, e Event) {
			if e.Kind == EventDecided {
				asked++
			}
		}))
		warm(t, r)
		c.Nodes[6].Proxy().Reset()
		synctest.Wait()
		require.False(t, r.nodes[6].Stats().Up)
		for i, n := range c.Nodes[:4] { // Nobody leads, and they are gone when it asks again.
			require.NoError(t, n.Set("a", fmt.Sprint("loser", i), 30*time.Millisecond))
		}
		require.NoError(t, c.Slow(10*time.Millisecond, 10*time.Millisecond))
		asked = 0
		_, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 2, asked)
		time.Sleep(5 * time.Second)
		require.True(t, r.nodes[6].Stats().Up)
		assert.Empty(t, keys(t, c.Nodes[6]))
	})
}

// newClaim makes a claim of a Redlock with so many nodes.
func newClaim(resources []string, keys []any, ttl time.Duration, nodes int) *claim {
	r := &core{nodes: make([]*link.Link, nodes)}
	le, _ := r.terms(ttl, &options{})
	return r.newClaim(&target{resources: resources, keys: keys}, "", le)
}

// A timer that is late looks first at what has arrived; then the vote says that it was this process that stood still.
func TestRoundWhoseTimerIsLateLooksFirst(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		ask := func() *round {
			cl := newClaim([]string{"a"}, []any{"a"}, time.Minute, 3)
			rd := r.newRound(t.Context(), cl, lockCommand(cl), lease.Locking, 1)
			rd.rules.Start = time.Now()
			rd.ask(250 * time.Millisecond)
			rd.mu.Lock()
			rd.rules.Start = rd.rules.Start.Add(-927 * time.Millisecond)
			rd.mu.Unlock()
			rd.tick()
			return rd
		}
		before := r.Stats()
		require.NoError(t, c.Slow(5*time.Millisecond, 5*time.Millisecond))
		rd := ask()
		<-rd.decided
		require.Equal(t, lease.Granted, rd.verdict())
		time.Sleep(time.Second)
		for i, n := range r.nodes {
			n.Release(&rd.claim.Trace, i)
		}
		time.Sleep(time.Second)

		require.NoError(t, c.Slow(time.Second, time.Second))
		votes, now := r.Stats().Nodes[0].Votes, time.Now()
		rd = ask()
		<-rd.decided
		assert.Equal(t, node.Arrival, time.Since(now), "it looks, and waits no longer")
		require.Equal(t, lease.NoQuorum, rd.verdict())
		err := rd.fail(ErrNoQuorum)
		require.ErrorContains(t, err, "node1: node timeout, as this process stood still for 677ms")
		require.ErrorIs(t, err.Votes[0].Err, ErrNodeTimeout)
		after := r.Stats()
		assert.Equal(t, before.Standstills+2, after.Standstills)
		assert.Equal(t, votes, after.Nodes[0].Votes, "it says nothing about the node")
		time.Sleep(2 * time.Second)
	})
}

// A caller that the system did not let run between setting the timer and asking the node does not wait for the answer:
// its time is over, and nothing interrupts it any more.
func TestAloneCallerThatAsksWhenItsTimeIsOver(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		nodes := []Node{{"a", &conn.Dialer{
			Dial:    func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Nodes[0].Dial(ctx) },
			Network: "tcp", Address: c.Nodes[0].Addr(),
		}}}
		r := newOver(t, nodes, WithNodeTimeout(20*time.Millisecond))
		for range 4 {
			warm(t, r)
		}
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.NoError(t, err)
		require.NoError(t, c.Nodes[0].Hang())

		rd := r.newRound(t.Context(), l.claim, extendCommand(l.claim, int64(60_000), false), lease.Extending, 0)
		rd.lock, rd.rules.Valid = l, &l.rules.Until
		began := time.Now()
		rd.mu.Lock()
		rd.task.Limit = 20 * time.Millisecond
		rd.rules.Start = began
		require.True(t, rd.rules.Begin(began, 20*time.Millisecond).Has(lease.Ask))
		asks := rd.asksLocked(nil)
		rd.armLocked()
		rd.mu.Unlock()
		<-rd.decided
		synctest.Wait()
		require.NoError(t, rd.enqueue(asks[0], true, time.Now()))
		require.True(t, rd.alone)
		require.NoError(t, rd.wait(context.Background(), nil))
		assert.Equal(t, 20*time.Millisecond, time.Since(began))
		require.NoError(t, c.Nodes[0].Resume())
	})
}

// A loss is told as that, though a node was not asked because of Close: who counts it must not take it for an end.
func TestRoundThatFindsALossBesideANodeThatIsClosed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		for v, closed := range map[lease.Verdict]bool{lease.Lost: false, lease.NoQuorum: true} {
			l, err := r.Lock(t.Context(), []string{"a"}, time.Minute)
			require.NoError(t, err)
			rd := r.newRound(t.Context(), l.claim, node.Command{}, lease.Extending, 0)
			rd.rules.Stage, rd.rules.Verdict = lease.Over, v
			rd.rules.Ballots[2].Err = ErrClosed
			err = l.applyExtension(rd, nil, nil)
			require.ErrorIs(t, err, verdictError(v))
			assert.Equal(t, closed, errors.Is(err, ErrClosed))
			_ = l.Unlock(t.Context())
		}
	})
}

// All timers that are late because of one standstill count it once, and those of the next one count that.
func TestStandstillsAreCountedOnceEach(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r, now := newRedlock(t, c), time.Now()
		for i := range 3 {
			now = now.Add(time.Hour)
			for range 5 {
				r.stoodStill(now.Add(-time.Second), now)
				now = now.Add(time.Millisecond)
			}
			assert.EqualValues(t, i+1, r.Stats().Standstills)
		}
	})
}

func TestQuorumIsAStrictMajorityOfTheConfiguredNodes(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4} {
		assert.Equal(t, want, quorum(n), "n=%d", n)
	}
}

// A key lives for no less than the validity that is counted from the exact ttl.
func TestMillisecondsAreRoundedUp(t *testing.T) {
	assert.Equal(t, int64(1), serverMillis(time.Millisecond))
	assert.Equal(t, int64(2), serverMillis(time.Millisecond+1))
	assert.Equal(t, int64(2), serverMillis(2*time.Millisecond))
}
