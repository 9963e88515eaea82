package fences

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed6c881748/redlock/internal/node"
)

// A node may say what it likes. Beyond the largest fence, Lua's numbers are not exact.
func TestDecodeTakesNoFenceThatIsNone(t *testing.T) {
	decode := Decode(func(any) node.Outcome { return node.Outcome{Stance: node.No} })
	for fence, stance := range map[int64]node.Stance{-1: node.No, 0: node.No, 1: node.Yes, Max: node.Yes, Max + 1: node.No} {
		assert.Equal(t, stance, decode(fence).Stance, fence)
	}
}

func TestDecodeTakesWhatWasFound(t *testing.T) {
	decode := Decode(func(any) node.Outcome { return node.Outcome{Stance: node.No} })
	for _, tc := range []struct {
		reply any
		want  node.Outcome
	}{
		{int64(5), node.Outcome{Stance: node.Yes, Fence: 5}},
		{[]any{int64(5), int64(3)}, node.Outcome{Stance: node.Yes, Fence: 5, Found: 3}},
		{[]any{int64(5), int64(5)}, node.Outcome{Stance: node.Yes, Fence: 5, Found: 5}},
		{[]any{int64(Max), int64(0)}, node.Outcome{Stance: node.Yes, Fence: Max}},
		{[]any{int64(5), int64(6)}, node.Outcome{Stance: node.No}},
		{[]any{int64(5), int64(-1)}, node.Outcome{Stance: node.No}},
		{[]any{int64(0), int64(0)}, node.Outcome{Stance: node.No}},
		{[]any{int64(5), "3"}, node.Outcome{Stance: node.No}},
		{[]any{int64(5)}, node.Outcome{Stance: node.No}},
		{[]any{int64(5), int64(3), ""}, node.Outcome{Stance: node.No}}, // A refusal.
	} {
		assert.Equal(t, tc.want, decode(tc.reply), tc.reply)
	}
}
