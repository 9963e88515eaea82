package trace_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/trace"
)

// A node that is not seen may have what an attempt lacks, so nothing is said of it.
func TestStoryWithoutANode(t *testing.T) {
	for _, unseen := range []bool{false, true} {
		var wrong []string
		s := &trace.Story{Nodes: 3, Tell: func(_ int64, what string) { wrong = append(wrong, what) }}
		add := func(op string, node int) {
			s.Add(history.Event{Op: op, Node: &node, Resources: []string{"a\x1b[31m"}, Holder: "x"})
		}
		if unseen {
			add(history.StepGap, 1)
		}
		add(history.StepGrant, 0)
		add(history.StepExpire, 0)
		if require.Equal(t, unseen, len(wrong) == 0); !unseen {
			require.Contains(t, wrong[0], `a\x1b[31m`)
		}
		require.Zero(t, s.Locks)
	}
}
