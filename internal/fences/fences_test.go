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
	assert.Equal(t, node.No, decode([]any{int64(5), int64(6)}).Stance, "none was above it")
}
