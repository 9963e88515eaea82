package fences

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed6c881748/redlock/internal/node"
)

func TestOf(t *testing.T) {
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
		{[]int64{Max, 1, 0}, Max, 1, 2},
	} {
		fence, exact, granted := Of(tc.fences, 2)
		assert.Equal(t, tc.fence, fence, tc.fences)
		assert.Equal(t, tc.exact, exact, tc.fences)
		assert.Equal(t, tc.granted, granted, tc.fences)
	}
	assert.True(t, Counts(5, 0), "a grant")
	assert.True(t, Counts(5, 5))
	assert.False(t, Counts(6, 5), "another lock may have 6")
	assert.False(t, Counts(4, 5))
}

// A node may say what it likes. Beyond the largest fence, Lua's numbers are not exact.
func TestDecodeTakesNoFenceThatIsNone(t *testing.T) {
	decode := Decode(func(any) node.Outcome { return node.Outcome{Stance: node.No} })
	for fence, stance := range map[int64]node.Stance{-1: node.No, 0: node.No, 1: node.Yes, Max: node.Yes, Max + 1: node.No} {
		assert.Equal(t, stance, decode(fence).Stance, fence)
	}
}
