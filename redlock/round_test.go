package redlock

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/fences"
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
	for _, n := range c.Nodes[:2] {
		require.NoError(t, n.Set("a", "loser", time.Minute))
	}
	a, err := r.prepare(t.Context(), []string{"a"}, time.Minute, nil)
	require.NoError(t, err)
	cand := a.newCandidate(t.Context(), 1, nil)
	cand.round = r.newRound(t.Context(), OpLock, cand.claim, cand.lockCommand(), node.LockRequest, decideLock, 1)
	cand.round.ask(cand.start, 100*time.Millisecond)
	<-cand.round.decided
	v, _ := cand.round.result()
	require.Equal(t, taken, v)
	for _, n := range c.Nodes[:2] {
		require.NoError(t, n.Del("a"))
	}
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
		l, err := cand.outcome(t.Context())
		require.NoError(t, err)
		assert.Equal(t, start.Add(validity(time.Minute, DefaultDriftFactor)), l.Until(), "from the first request on")
		require.NoError(t, c.Nodes[0].Resume())
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
		assert.Equal(t, 1, r.nodes[2].Status().Backlog)
		<-cand.round.allVoted()
		assert.Equal(t, ErrNodeTimeout, cand.round.copyVotes()[2].Err)
		require.NoError(t, c.Nodes[2].Resume())
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
		require.NoError(t, c.Nodes[2].Resume())
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
		require.False(t, r.nodes[2].Status().Up)
		cand := refusedCandidate(t, r, c)
		cand.askRefused()
		<-cand.round.allVoted()
		v, _ := cand.round.result()
		assert.Equal(t, granted, v)
		time.Sleep(5 * time.Second)
		require.True(t, r.nodes[2].Status().Up)
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
		rd := r.newRound(t.Context(), OpExtend, l.claim, extendCommand(l.claim, serverMillis(time.Hour)), node.Ask, decideExtend, 0)
		rd.ask(time.Now(), time.Second)
		<-rd.decided
		time.Sleep(time.Until(start.Add(5 * time.Second)))
		synctest.Wait()
		requireNoKeys(t, c)
	})
}

// newClaim makes a claim of a Redlock with so many nodes.
func newClaim(resources []string, keys []any, owner string, ttl time.Duration, nodes int) *claim {
	r := &core{nodes: make([]*node.Node, nodes)}
	le, _ := r.lease(ttl, &options{})
	return r.newClaim(&target{resources: resources, keys: keys}, owner, le)
}

func TestQuorumIsAStrictMajorityOfTheConfiguredNodes(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4} {
		assert.Equal(t, want, quorum(n), "n=%d", n)
	}
}

func TestDecideLock(t *testing.T) {
	for _, c := range []struct {
		n    int
		t    tally
		want verdict
	}{
		{5, tally{}, undecided},
		{5, tally{yes: 2, no: 2}, undecided},
		{5, tally{yes: 3}, granted},
		{5, tally{yes: 3, no: 2}, granted},
		{5, tally{no: 3}, taken},
		{5, tally{no: 1, unanswered: 2}, taken},
		{5, tally{unanswered: 3}, noQuorum},
		{5, tally{no: 2, unanswered: 3}, noQuorum},
		{5, tally{yes: 2, unanswered: 3}, noQuorum},
		{4, tally{yes: 2, no: 1}, undecided},
		{4, tally{yes: 2, no: 2}, taken}, // Two against two ends.
		{4, tally{yes: 2, unanswered: 2}, noQuorum},
		{4, tally{yes: 2, unanswered: 1}, undecided},
		{2, tally{yes: 1}, undecided},
		{2, tally{yes: 1, no: 1}, taken},
		{2, tally{yes: 1, unanswered: 1}, noQuorum},
		{1, tally{yes: 1}, granted},
		{1, tally{no: 1}, taken},
		{1, tally{unanswered: 1}, noQuorum},
	} {
		assert.Equal(t, c.want, decideLock(c.t, quorum(c.n), c.n), "n=%d %+v", c.n, c.t)
	}
}

func TestDecideExtendProvesALossOnlyByAnswers(t *testing.T) {
	for _, c := range []struct {
		n    int
		t    tally
		want verdict
	}{
		{5, tally{no: 3}, lost},
		{5, tally{no: 2, unanswered: 1}, undecided}, // The two that are out may prove it lost.
		{5, tally{yes: 1, no: 2, unanswered: 1}, undecided},
		{5, tally{yes: 2, no: 2, unanswered: 1}, noQuorum},
		{5, tally{no: 3, unanswered: 1}, lost},
		{5, tally{unanswered: 3}, noQuorum},
		{5, tally{yes: 3, no: 2}, granted},
		{4, tally{no: 2}, lost},
		{4, tally{no: 1, unanswered: 1}, undecided},
		{4, tally{yes: 2, no: 1, unanswered: 1}, noQuorum},
		{3, tally{no: 1, unanswered: 1}, undecided},
		{3, tally{yes: 1, no: 1, unanswered: 1}, noQuorum},
		{3, tally{unanswered: 2}, noQuorum},
	} {
		assert.Equal(t, c.want, decideExtend(c.t, quorum(c.n), c.n), "n=%d %+v", c.n, c.t)
	}
}

func TestDecideUnlock(t *testing.T) {
	for _, c := range []struct {
		n    int
		t    tally
		want verdict
	}{
		{5, tally{yes: 3}, granted},
		{5, tally{yes: 2, no: 1}, undecided}, // The two that are out may make it lost.
		{5, tally{yes: 2, no: 1, unanswered: 1}, granted},
		{5, tally{yes: 2, no: 2}, undecided},
		{5, tally{yes: 2, no: 2, unanswered: 1}, granted},
		{5, tally{yes: 2, no: 3}, lost},
		{5, tally{no: 3}, lost},
		{5, tally{yes: 2, unanswered: 3}, noQuorum},
		{5, tally{yes: 1, no: 1, unanswered: 3}, noQuorum},
		{2, tally{yes: 1, no: 1}, lost},
		{1, tally{no: 1}, lost},
		{1, tally{yes: 1}, granted},
	} {
		assert.Equal(t, c.want, decideUnlock(c.t, quorum(c.n), c.n), "n=%d %+v", c.n, c.t)
	}
}

func TestDecideReleaseCountsOnlyNodesThatHadTheLock(t *testing.T) {
	for _, c := range []struct {
		n    int
		t    tally
		want verdict
	}{
		{5, tally{yes: 3}, granted},
		{5, tally{yes: 2, no: 2}, undecided},
		{5, tally{yes: 2, no: 2, unanswered: 1}, noQuorum}, // The silent one could make it either.
		{5, tally{yes: 2, no: 1, unanswered: 1}, undecided},
		{5, tally{yes: 2, no: 3}, lost},
		{5, tally{no: 3}, lost},
		{5, tally{unanswered: 3}, noQuorum},
		{5, tally{no: 2, unanswered: 2}, undecided}, // The last one may make it lost.
		{5, tally{no: 2, unanswered: 3}, noQuorum},
		{3, tally{yes: 1, no: 1, unanswered: 1}, noQuorum},
		{3, tally{yes: 1, no: 1}, undecided},
		{4, tally{yes: 2, no: 1}, undecided},
		{4, tally{yes: 2, no: 2}, lost},
		{4, tally{yes: 2, no: 1, unanswered: 1}, noQuorum},
		{2, tally{yes: 1, unanswered: 1}, noQuorum},
		{2, tally{yes: 1, no: 1}, lost},
		{1, tally{no: 1}, lost},
		{1, tally{yes: 1}, granted},
		{1, tally{unanswered: 1}, noQuorum},
	} {
		assert.Equal(t, c.want, decideRelease(c.t, quorum(c.n), c.n), "n=%d %+v", c.n, c.t)
	}
}

// Whatever the votes: a verdict falls when all are in, it never changes as
// more come in but for the better known reason of a failure, a yes needs a
// quorum of yes votes, and two rounds cannot both get one from disjoint votes.
func FuzzDecide(f *testing.F) {
	f.Add(uint8(5), []byte{0, 1, 2, 0, 1})
	f.Add(uint8(4), []byte{0, 0, 1, 1})
	f.Fuzz(func(t *testing.T, nodes uint8, votes []byte) {
		n := int(nodes%9) + 1
		if len(votes) < n {
			return
		}
		for name, judge := range map[string]func(tally, int, int) verdict{"lock": decideLock, "extend": decideExtend, "unlock": decideUnlock, "release": decideRelease} {
			var seen tally
			last := judge(seen, quorum(n), n)
			require.Equal(t, undecided, last)
			for _, v := range votes[:n] {
				switch v % 3 {
				case 0:
					seen.yes++
				case 1:
					seen.no++
				default:
					seen.unanswered++
				}
				now := judge(seen, quorum(n), n)
				if last == granted && name != "unlock" || last == lost || last == noQuorum && name == "extend" {
					require.Equal(t, last, now)
				}
				if last != undecided && last != granted {
					require.NotEqual(t, granted, now, "%s: a failure became a success: %+v", name, seen)
				}
				if last == granted {
					require.Equal(t, granted, now, "%s: a success became a failure: %+v", name, seen)
				}
				if now == granted && name != "unlock" {
					require.Greater(t, 2*seen.yes, n)
				}
				if now == granted && name == "unlock" {
					require.Greater(t, 2*(seen.yes+seen.no), n)
				}
				last = now
			}
			require.NotEqual(t, undecided, last, "%s: all votes are in: %+v", name, seen)
		}
	})
}

func TestDrift(t *testing.T) {
	assert.Equal(t, 102*time.Millisecond, drift(10*time.Second, 0.01))
	assert.Equal(t, 2*time.Millisecond, drift(10*time.Second, 0))
	assert.Equal(t, 9898*time.Millisecond, validity(10*time.Second, 0.01))
	assert.Equal(t, int64(1), serverMillis(time.Millisecond))
	assert.Equal(t, int64(2), serverMillis(time.Millisecond+1))
	assert.Equal(t, int64(2), serverMillis(2*time.Millisecond))
}

// The validity never exceeds what the node was told, with any clocks whose
// rates differ by less than the factor.
func FuzzDrift(f *testing.F) {
	f.Add(int64(10*time.Second), 0.01)
	f.Add(int64(math.MaxInt64), 0.999)
	f.Fuzz(func(t *testing.T, ns int64, factor float64) {
		d := time.Duration(ns)
		if d < time.Millisecond || math.IsNaN(factor) || factor < 0 || factor >= 1 {
			return
		}
		v := validity(d, factor)
		require.Less(t, v, d)
		ms := serverMillis(d)
		require.GreaterOrEqual(t, ms, int64(d/time.Millisecond))
		require.LessOrEqual(t, ms-int64(d/time.Millisecond), int64(1))
		if v > 0 {
			require.LessOrEqual(t, float64(v), float64(d)*(1-factor)+1)
		}
	})
}

func TestValidityLimits(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ timeout, pace, want time.Duration }{
		{250 * ms, ms, 100 * ms},
		{250 * ms, 20 * ms, 160 * ms},
		{250 * ms, 100 * ms, 250 * ms},
		{50 * ms, 20 * ms, 50 * ms},
		{time.Minute, 20 * ms, 160 * ms},
	} {
		assert.Equal(t, c.want, splitLimit(c.timeout, c.pace), "node timeout %v, pace %v", c.timeout, c.pace)
	}
}

// For how long a quorum of keys lives, of which one has no expiry.
func TestQuorumOfKeysHasALife(t *testing.T) {
	assert.Equal(t, 2*time.Second, needed([]time.Duration{time.Second, -1, 2 * time.Second}, 2))
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
		rd.Vote(i, node.Outcome{Stance: node.Yes, Fence: fence}, time.Now())
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
		a, err := r.prepare(t.Context(), []string{"x"}, ttl, nil)
		require.NoError(t, err)
		cand := a.newCandidate(t.Context(), 1, nil)
		rd := r.newRound(t.Context(), OpLock, cand.claim, node.Command{}, node.LockRequest, decideLock, 1)
		cand.round, rd.grants = rd, fences.NewGrants(3)
		for i, fence := range []int64{5, 9, 9} {
			rd.Vote(i, node.Outcome{Stance: node.Yes, Fence: fence}, time.Now())
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

func TestFenceOfAQuorumThatAgrees(t *testing.T) {
	rd := &round{r: &core{need: 2}, grants: fences.NewGrants(3)}
	for i, fence := range []int64{5, 5, 9} { // The last one came after the decision.
		rd.grants.Weigh(i, node.Outcome{Stance: node.Yes, Fence: fence})
	}
	rd.grants.Agree(2)
	fence, granted := rd.fence()
	assert.EqualValues(t, 5, fence)
	assert.Equal(t, 3, granted)
}
