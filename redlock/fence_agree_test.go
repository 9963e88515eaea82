package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

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
		rd.grants.Count(i, node.Outcome{Stance: node.Yes, Fence: fence})
	}
	rd.grants.Agree(2)
	fence, granted := rd.fence()
	assert.EqualValues(t, 5, fence)
	assert.Equal(t, 3, granted)
}
