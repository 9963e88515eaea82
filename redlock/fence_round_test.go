package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
)

// A grant that comes when a quorum has agreed is a yes, and nothing is asked of its
// node: in a further round of a split vote, whose late answers come from the round before,
// it would be a second lock request.
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
