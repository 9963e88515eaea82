package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A lock request whose release has overtaken it in the caller's mind, though not
// on the wire: it is dropped, and the round hears of it at once.
func TestRoundThatWasGivenUpSendsNoLockRequest(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		cl := newClaim([]string{"a"}, []any{"a"}, "", time.Minute, 1)
		rd := r.newRound(t.Context(), OpLock, cl, lockCommand(cl), node.LockRequest, decideLock, 1)
		r.nodes[0].Release(&cl.Trace, 0)
		rd.ask(time.Now(), time.Second)
		<-rd.decided
		assert.Equal(t, node.ErrWithdrawn, rd.copyVotes()[0].Err)
		requireNoKeys(t, c)
	})
}

// What the hook was told is what the call returns, even if a quorum says yes
// between the end of the waiting and the look at the votes.
func TestRoundHasNoQuorumAfterTheCallWasCutShort(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		told := make(chan Event, 10)
		r := newRedlock(t, c, WithHook(func(_ context.Context, e Event) {
			if len(e.Resources) == 1 && e.Resources[0] == "a" {
				told <- e
			}
		}))
		warm(t, r)
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		cl := newClaim([]string{"a"}, []any{"a"}, "", time.Minute, 3)
		rd := r.newRound(t.Context(), OpLock, cl, lockCommand(cl), node.LockRequest, decideLock, 1)
		rd.ask(time.Now(), 100*time.Millisecond)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, rd.wait(cancelled, nil), context.Canceled)
		time.Sleep(10 * time.Millisecond)
		v, votes := rd.result()
		assert.Equal(t, 3, votes.yes)
		assert.Equal(t, undecided, v)
		require.Len(t, told, 2)
		require.ErrorIs(t, (<-told).Err, context.Canceled)
		require.ErrorIs(t, (<-told).Err, context.Canceled)
	})
}

// refusedCandidate asks three nodes for a lock, within 100 ms. The first two refuse it at
// once, as somebody else has it, and then it is given up there.
func refusedCandidate(t *testing.T, r *Redlock, c *testcluster.Cluster) *candidate {
	t.Helper()
	require.NoError(t, c.First(2).Set("a", "loser", time.Minute))
	a := new(acquisition)
	require.NoError(t, a.prepare(t.Context(), &r.core, []string{"a"}, time.Minute, nil))
	cand := a.newCandidate(t.Context(), 1, turn{})
	cand.round = r.newRound(t.Context(), OpLock, cand.claim, cand.request(), node.LockRequest, decideLock, 1)
	cand.round.ask(cand.start, 100*time.Millisecond)
	<-cand.round.decided
	v, _ := cand.round.result()
	require.Equal(t, taken, v)
	require.NoError(t, c.First(2).Del("a"))
	return cand
}

// The time limit of the first requests is not that of later ones, nor that of a vote that is
// still out: whatever comes before the later limit counts.
func TestRoundGivesNodesThatAreAskedAgainTheirOwnTime(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithNodeTimeout(200*time.Millisecond))
		warm(t, r)
		start := time.Now()
		require.NoError(t, c.Nodes[2].Slow(75*time.Millisecond, 75*time.Millisecond))
		cand := refusedCandidate(t, r, c)
		rd := cand.round
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, c.Nodes[0].Hang()) // It answers neither.
		require.NoError(t, c.Nodes[1].Slow(35*time.Millisecond, 35*time.Millisecond))
		cand.askRefused()
		<-rd.decided
		assert.Equal(t, 150*time.Millisecond, time.Since(start), "with the slow vote of the first request")
		v, _ := rd.result()
		assert.Equal(t, granted, v)
		<-rd.allVoted()
		assert.Equal(t, 250*time.Millisecond, time.Since(start))
		votes := rd.copyVotes()
		assert.Equal(t, ErrNodeTimeout, votes[0].Err)
		require.NoError(t, votes[1].Err)
		require.NoError(t, votes[2].Err)
		l, err := cand.outcome()
		require.NoError(t, err)
		assert.Equal(t, start.Add(validity(time.Minute, DefaultDriftFactor)), l.Until(), "from the first request on")
	})
}

// A node that has not answered in time is not asked again: its first request may still be on the
// way, and of one claim a node never has two.
func TestRoundDoesNotAskASilentNodeAgain(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.Nodes[2].Hang())
		cand := refusedCandidate(t, r, c)
		time.Sleep(150 * time.Millisecond)
		cand.askRefused()
		assert.Equal(t, 1, r.nodes[2].Stats().Backlog)
		<-cand.round.allVoted()
		assert.Equal(t, ErrNodeTimeout, cand.round.copyVotes()[2].Err)
	})
}

// A round that asks again has an event for each decision, and one when all have voted.
func TestRoundThatAsksAgainHasEvents(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var told []Event
		r := newRedlock(t, c, WithHook(func(_ context.Context, e Event) {
			if e.Kind == EventDecided || e.Kind == EventSettled {
				told = append(told, e)
			}
		}))
		warm(t, r)
		told = nil
		require.NoError(t, c.Nodes[2].Hang())
		cand := refusedCandidate(t, r, c)
		cand.askRefused()
		<-cand.round.decided
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, told, 3)
		for i, kind := range []EventKind{EventDecided, EventDecided, EventSettled} {
			assert.Equal(t, kind, told[i].Kind)
		}
		require.ErrorIs(t, told[0].Err, ErrTaken)
		require.NoError(t, told[1].Err)
		require.NoError(t, told[2].Err)
		assert.Equal(t, ErrNodeTimeout, told[2].Votes[2].Err)
	})
}

// A lock request that waits for a connection is withdrawn when its time is over, also if other
// nodes were asked again meanwhile: it could set the key when the lock has ended.
func TestRoundWithdrawsARequestThatWaitsThoughOthersAreAskedAgain(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		nodes := nodesOf(c)
		third := nodes[2].Pool
		nodes[2].Pool = PoolFunc(func(ctx context.Context) (redis.Conn, error) {
			time.Sleep(time.Second)
			return third.GetContext(ctx)
		})
		r := newOver(t, nodes, WithConnectTimeout(5*time.Second))
		warm(t, r)
		c.Nodes[2].Proxy().Reset()
		synctest.Wait()
		require.False(t, r.nodes[2].Stats().Up)
		cand := refusedCandidate(t, r, c)
		cand.askRefused()
		<-cand.round.allVoted()
		v, _ := cand.round.result()
		assert.Equal(t, granted, v)
		time.Sleep(5 * time.Second)
		require.True(t, r.nodes[2].Stats().Up)
		assert.Empty(t, keys(t, c.Nodes[2]))
	})
}

// An extension that passed its checks just before the release must not give the
// keys that are left a new life.
func TestRoundOfAnExtensionDoesNotLengthenAMinHold(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		start := time.Now()
		l, err := r.TryLock(t.Context(), []string{"a"}, 10*time.Second, WithMinHold(5*time.Second))
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, l.Unlock(t.Context()))
		rd := r.newRound(t.Context(), OpExtend, l.claim, extendCommand(l.claim, serverMillis(time.Hour), false), node.Ask, decideExtend, 0)
		rd.ask(time.Now(), time.Second)
		<-rd.decided
		time.Sleep(time.Until(start.Add(5 * time.Second)))
		synctest.Wait()
		requireNoKeys(t, c)
	})
}

// newClaim makes a claim of a Redlock with so many nodes.
func newClaim(resources []string, keys []any, owner string, ttl time.Duration, nodes int) *claim {
	r := &core{nodes: make([]*link.Link, nodes)}
	le, _ := r.lease(ttl, &options{})
	return r.newClaim(&target{resources: resources, keys: keys}, owner, le)
}

// A grant that comes when a quorum has agreed is a yes, and nothing is asked of its
// node: when nodes are asked again in a split vote, and this one had not answered the first
// request, it would be a second lock request.
func TestFenceGrantAfterTheAgreementIsLeftAlone(t *testing.T) {
	r, err := New(forbiddenNodes(t, 3), WithFencing())
	require.NoError(t, err)
	rd := r.newRound(t.Context(), OpLock, newClaim([]string{"x"}, []any{"x"}, "", ttl, 3), node.Command{}, node.LockRequest, decideLock, 1)
	rd.grants = fences.NewGrants(3)
	rd.requests[2].Task = nil // As again leaves a node that has not answered.
	for i, fence := range []int64{9, 9, 5} {
		rd.Receive(i, node.Outcome{Stance: node.Yes, Fence: fence}, time.Now())
	}
	fence, grants := rd.fence()
	assert.EqualValues(t, 9, fence)
	assert.Equal(t, 3, grants)
	assert.Nil(t, rd.requests[2].Task)
	require.NoError(t, rd.ballots[2].err)
	assert.Zero(t, rd.pending)
	require.NoError(t, r.Close(t.Context()))
}

// A quorum agrees by a grant that came after the decision and before the raise: the fence is
// there, whatever those answer that are asked to raise.
func TestFenceGrantsThatAgreeBeforeARaiseAreEnough(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithFencing())
		warm(t, r)
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		a := new(acquisition)
		require.NoError(t, a.prepare(t.Context(), &r.core, []string{"x"}, ttl, nil))
		cand := a.newCandidate(t.Context(), 1, turn{})
		rd := r.newRound(t.Context(), OpLock, cand.claim, node.Command{}, node.LockRequest, decideLock, 1)
		cand.round, rd.grants = rd, fences.NewGrants(3)
		for i, fence := range []int64{5, 9, 9} {
			rd.Receive(i, node.Outcome{Stance: node.Yes, Fence: fence}, time.Now())
		}
		fence, _ := rd.fence()
		require.Zero(t, fence, "it was decided without an agreement")
		cand.raise(time.Second)
		fence, _ = rd.fence()
		assert.EqualValues(t, 9, fence)
		v, _ := rd.result()
		assert.Equal(t, granted, v)
		<-rd.allVoted()
	})
}

// A node that was asked to raise its counter, and says that it is lower, is not asked once more
// for that: it would go on for ever.
func TestFenceGrantIsLateOnlyOnce(t *testing.T) {
	rd := &round{grants: fences.NewGrants(3), requests: make([]node.Request, 3)}
	rd.grants.Exact = 9
	low := node.Outcome{Stance: node.Yes, Fence: 5}
	assert.True(t, rd.isLateGrant(0, low))
	assert.False(t, rd.isLateGrant(0, node.Outcome{Stance: node.Yes, Fence: 9}))
	assert.False(t, rd.isLateGrant(0, node.Outcome{Stance: node.No}))
	rd.latest = &node.Task{Kind: node.Ask}
	rd.requestLocked(0)
	assert.False(t, rd.isLateGrant(0, low))
}

// A timer that is late looks first at what has arrived; then the vote says that it was this process that stood still.
func TestRoundWhoseTimerIsLateLooksFirst(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		ask := func() *round {
			cl := newClaim([]string{"a"}, []any{"a"}, "", time.Minute, 3)
			rd := r.newRound(t.Context(), OpLock, cl, lockCommand(cl), node.LockRequest, decideLock, 1)
			rd.ask(time.Now(), 250*time.Millisecond)
			return rd
		}
		looks := func(rd *round, late time.Duration) bool {
			return rd.looksFirst(rd.latest, rd.requests, time.Now().Add(250*time.Millisecond+late))
		}
		require.NoError(t, c.Slow(5*time.Millisecond, 5*time.Millisecond))
		rd := ask()
		require.False(t, looks(rd, node.MinStandstill-1), "a busy machine")
		require.True(t, looks(rd, 677*time.Millisecond))
		<-rd.decided
		v, _ := rd.result()
		require.Equal(t, granted, v)
		time.Sleep(time.Second)
		for i, n := range r.nodes {
			n.Release(&rd.claim.Trace, i)
		}
		time.Sleep(time.Second)

		before := r.Stats()
		require.NoError(t, c.Slow(time.Second, time.Second))
		rd = ask()
		now := time.Now()
		require.True(t, looks(rd, 677*time.Millisecond))
		<-rd.decided
		assert.Equal(t, node.Arrival, time.Since(now), "it looks, and waits no longer")
		v, _ = rd.result()
		require.Equal(t, noQuorum, v)
		err := rd.fail(ErrNoQuorum)
		require.ErrorContains(t, err, "node1: node timeout, as this process stood still for 677ms")
		require.ErrorIs(t, err.Votes[0].Err, ErrNodeTimeout)
		after := r.Stats()
		assert.Equal(t, before.Standstills+1, after.Standstills)
		assert.False(t, looks(rd, time.Second), "nothing is waited for")
		assert.Equal(t, before.Nodes[0].Votes, after.Nodes[0].Votes, "it says nothing about the node")
		time.Sleep(2 * time.Second)
	})
}

// Each lock that is taken and released makes two rounds, which are most of what it allocates.
func TestRoundFitsASizeOfTheAllocator(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(smallRound{})+8, uintptr(1152))
	assert.LessOrEqual(t, unsafe.Sizeof(Lock{}), uintptr(256))
}

// All timers that are late because of one standstill count it once, and those of the next one count that.
func TestStandstillsAreCountedOnceEach(t *testing.T) {
	r := newOver(t, forbiddenNodes(t, 3))
	now := time.Now()
	for i := range 3 {
		now = now.Add(time.Hour)
		for range 5 {
			r.stoodStill(now.Add(-time.Second), now)
			now = now.Add(time.Millisecond)
		}
		assert.EqualValues(t, i+1, r.Stats().Standstills)
	}
}
