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

// fencedRound is a round with fencing of so many nodes, with an hour to go.
func fencedRound(now time.Time, nodes int) *Round {
	c := &Config{Need: Need(nodes), Clock: func(now time.Time) (time.Time, time.Duration) { return now, 0 }}
	r := &Round{Config: c, Kind: Locking, Start: now, Validity: time.Hour, Patience: time.Hour}
	r.Ballots, r.Fencing = make([]Ballot, nodes), NewFencing(nodes)
	return r
}

// told has node i, which was asked, grant the lock or raise its counter, and say what that was before.
func (r *Round) told(t *testing.T, i int, counter, found int64) (all Effect) {
	t.Helper()
	require.True(t, r.Asked(i))
	for e := r.Vote(i, &node.Outcome{Stance: node.Yes, Fence: counter, Found: found}, r.Start); ; e = r.Next(r.Start) {
		if all |= e; !e.Has(More) {
			return all &^ More
		}
	}
}

// A grant that comes when a quorum has agreed is a yes, and nothing is asked of its node.
func TestFenceGrantAfterTheAgreementIsLeftAlone(t *testing.T) {
	now := time.Now()
	r := fencedRound(now, 3)
	r.Begin(now, time.Second)
	r.told(t, 0, 9, 0)
	assert.True(t, r.told(t, 1, 9, 0).Has(Done))
	assert.EqualValues(t, 9, r.Fencing.Fence)
	assert.Equal(t, Counted|Settled, r.told(t, 2, 5, 0))
	assert.False(t, r.Asked(2))
	require.NoError(t, r.Ballots[2].Err)
}

// All numbers that counted nodes have not found, up to the fence, are the lock's.
func TestBlock(t *testing.T) {
	type answer struct {
		node           int
		counter, found int64
	}
	for _, tc := range []struct {
		name    string
		answers []answer
		fence   int64
		below   int64
	}{
		{"what all have found", []answer{{0, 90, 7}, {1, 90, 7}}, 90, 7},
		{"the largest that was found", []answer{{0, 90, 7}, {1, 90, 50}}, 90, 50},
		{"in whatever order", []answer{{1, 90, 50}, {0, 90, 7}}, 90, 50},
		{"a raise keeps what the grant has found", []answer{{0, 10, 7}, {1, 90, 8}, {0, 90, 10}}, 90, 8},
		{"others between the grant and the raise", []answer{{0, 10, 7}, {1, 90, 8}, {0, 90, 12}}, 90, 89},
		{"a raise that does not know", []answer{{0, 10, 7}, {1, 90, 8}, {0, 90, 0}}, 90, 89},
		{"a repeated request", []answer{{0, 90, 7}, {1, 90, 0}}, 90, 89},
		{"a raise after a repeated request", []answer{{0, 10, 0}, {1, 90, 8}, {0, 90, 10}}, 90, 9},
		{"no counter", []answer{{0, 1, 0}, {1, 1, 0}}, 1, 0},
		{"a late grant is raised", []answer{{0, 10, 7}, {1, 90, 8}, {2, 20, 9}, {2, 90, 20}}, 90, 9},
		{"others between a late grant and its raise", []answer{{0, 10, 7}, {1, 90, 8}, {2, 20, 9}, {2, 90, 22}}, 90, 89},
		{"a node that does not count", []answer{{0, 10, 7}, {1, 90, 8}, {2, 95, 94}, {0, 90, 10}}, 90, 8},
		{"a lie", []answer{{0, 90, 7}, {1, 90, 90}}, 90, 89},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := time.Now()
			r := fencedRound(now, 3)
			r.Fencing.OwnBlock()
			r.Begin(now, time.Hour)
			for _, a := range tc.answers {
				r.told(t, a.node, a.counter, a.found)
			}
			require.Equal(t, Granted, r.Verdict)
			assert.Equal(t, tc.fence, r.Fencing.Fence)
			assert.Equal(t, tc.below, r.Fencing.Below)
		})
	}
}

// What comes late changes nothing: who has got the lock looks at its numbers while votes may still be entered.
func TestBlockIsFinal(t *testing.T) {
	now := time.Now()
	r := fencedRound(now, 5)
	r.Fencing.OwnBlock()
	r.Begin(now, time.Hour)
	for i := range int64(3) {
		r.told(t, int(i), 90, 7+i)
	}
	require.Equal(t, Granted, r.Verdict)
	r.told(t, 3, 90, 50)
	r.told(t, 4, 95, 94)
	assert.EqualValues(t, 90, r.Fencing.Fence)
	assert.EqualValues(t, 9, r.Fencing.Below)
}

// A second raise begins where the first one has left the counters.
func TestBlockOfTwoRaises(t *testing.T) {
	now := time.Now()
	r := fencedRound(now, 5)
	r.Fencing.OwnBlock()
	r.Begin(now, time.Hour)
	r.told(t, 0, 10, 7)
	r.told(t, 1, 20, 8)
	assert.True(t, r.told(t, 2, 30, 9).Has(Raised|Ask))
	r.told(t, 0, 30, 10)
	r.told(t, 3, 95, 40) // Above the fence: it counts in the second raise.
	require.True(t, r.Asked(1))
	r.Vote(1, &node.Outcome{Stance: node.No}, now)
	require.True(t, r.Asked(4))
	assert.True(t, r.Vote(4, &node.Outcome{Stance: node.No}, now).Has(Decided|More))
	assert.True(t, r.Next(now).Has(Ask))
	r.told(t, 0, 95, 30)
	assert.True(t, r.told(t, 2, 95, 30).Has(Done))
	assert.Equal(t, Granted, r.Verdict)
	assert.EqualValues(t, 95, r.Fencing.Fence)
	assert.EqualValues(t, 40, r.Fencing.Below)
}

// Without OwnBlock the fence is all that is the lock's, whatever nodes say.
func TestBlockIsAskedFor(t *testing.T) {
	now := time.Now()
	r := fencedRound(now, 1)
	r.Begin(now, time.Hour)
	r.told(t, 0, 90, 7)
	assert.EqualValues(t, 89, r.Fencing.Below)
}
