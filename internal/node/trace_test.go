package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The marks of few nodes are in the trace itself, those of many are not.
func TestTraceHasMarksForAllNodes(t *testing.T) {
	for _, nodes := range []int{1, 7, 8, 9, 100} {
		var foreign, own Trace
		foreign.BeginForeign(nil, nodes, time.Minute, 0)
		own.Begin(nil, nodes, time.Minute)
		assert.Equal(t, make([]Mark, nodes), own.marks)
		for i := range own.marks {
			own.marks[i] = MarkReleased
			assert.Equal(t, MarkSent|markUnknown, foreign.marks[i], "node %d of %d", i, nodes)
		}
	}
}
