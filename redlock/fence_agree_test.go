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
func TestAGrantAfterTheAgreementIsLeftAlone(t *testing.T) {
	r, err := New(forbiddenNodes(t, 3), WithFencing())
	require.NoError(t, err)
	rd := r.newRound(t.Context(), OpLock, newClaim([]string{"x"}, []any{"x"}, "", ttl, 3), node.Command{}, node.LockRequest, decideLock, 1)
	rd.grants = newGrants(3)
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
func TestGrantsThatAgreeBeforeARaiseAreEnough(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithFencing())
		warm(t, r)
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		a, err := r.prepare(t.Context(), []string{"x"}, ttl, nil)
		require.NoError(t, err)
		cand := a.newCandidate(t.Context(), 1, nil)
		rd := r.newRound(t.Context(), OpLock, cand.claim, node.Command{}, node.LockRequest, decideLock, 1)
		cand.round, rd.grants = rd, newGrants(3)
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
func TestAGrantIsLateOnlyOnce(t *testing.T) {
	rd := &round{grants: newGrants(3), requests: make([]node.Request, 3)}
	rd.grants.exact = 9
	low := node.Outcome{Stance: node.Yes, Fence: 5}
	assert.True(t, rd.isLateGrant(0, low))
	assert.False(t, rd.isLateGrant(0, node.Outcome{Stance: node.Yes, Fence: 9}))
	assert.False(t, rd.isLateGrant(0, node.Outcome{Stance: node.No}))
	rd.latest = &node.Task{Kind: node.Ask}
	rd.requestLocked(0)
	assert.False(t, rd.isLateGrant(0, low))
}

func TestFenceOf(t *testing.T) {
	for _, tc := range []struct {
		fences         []int64
		fence          int64
		exact, granted int
	}{
		{nil, 0, 0, 0},
		{[]int64{0, 0, 0}, 0, 0, 0},
		{[]int64{7, 7, 7}, 7, 3, 3},
		{[]int64{0, 7, 7}, 7, 2, 2},
		{[]int64{8, 7, 8, 0, 1}, 8, 2, 4},
		{[]int64{7, 9, 7}, 7, 2, 3}, // A quorum has said 7: it need not be the largest.
		{[]int64{9, 7, 7, 8, 0}, 7, 2, 4},
		{[]int64{fences.Max, 1, 0}, fences.Max, 1, 2},
	} {
		fence, exact, granted := fenceOf(tc.fences, 2)
		assert.Equal(t, tc.fence, fence, tc.fences)
		assert.Equal(t, tc.exact, exact, tc.fences)
		assert.Equal(t, tc.granted, granted, tc.fences)
	}
	assert.True(t, counts(5, 0), "a grant")
	assert.True(t, counts(5, 5))
	assert.False(t, counts(6, 5), "another lock may have 6")
	assert.False(t, counts(4, 5))
}

func TestTheFenceOfAQuorumThatAgrees(t *testing.T) {
	rd := &round{r: &core{need: 2}, grants: newGrants(3)}
	rd.grants.fences = []int64{5, 5, 9} // The last one came after the decision.
	rd.grants.agree(2)
	fence, granted := rd.fence()
	assert.EqualValues(t, 5, fence)
	assert.Equal(t, 3, granted)
}
