package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
)

func TestAgreement(t *testing.T) {
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
		{[]int64{9, 1, 0}, 9, 1, 2},
	} {
		fence, exact, granted := Agreed(tc.fences, 2)
		assert.Equal(t, tc.fence, fence, tc.fences)
		assert.Equal(t, tc.exact, exact, tc.fences)
		assert.Equal(t, tc.granted, granted, tc.fences)
	}
}

// A grant that comes when a quorum has agreed is a yes, and nothing is asked of its node.
func TestFenceGrantAfterTheAgreementIsLeftAlone(t *testing.T) {
	now := time.Now()
	c := &Config{Need: 2, Clock: func(now time.Time) (time.Time, time.Duration) { return now, 0 }}
	r := &Round{Config: c, Kind: Locking, Start: now, Validity: time.Second, Ballots: make([]Ballot, 3), Fencing: NewFencing(3)}
	r.Begin(now, time.Second)
	vote := func(i int, counter int64) (all Effect) {
		require.True(t, r.Asked(i))
		for e := r.Vote(i, &node.Outcome{Stance: node.Yes, Fence: counter}, now); ; e = r.Next(now) {
			if all |= e; !e.Has(More) {
				return all &^ More
			}
		}
	}
	vote(0, 9)
	assert.True(t, vote(1, 9).Has(Done))
	assert.EqualValues(t, 9, r.Fencing.Fence)
	assert.Equal(t, Counted|Settled, vote(2, 5))
	assert.False(t, r.Asked(2))
	require.NoError(t, r.Ballots[2].Err)
}
