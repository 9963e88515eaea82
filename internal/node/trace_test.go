package node

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The marks of few nodes are in the trace itself, those of many are not.
func TestTraceHasMarksForAllNodes(t *testing.T) {
	for _, nodes := range []int{1, 7, 8, 9, 100} {
		var foreign, own Trace
		foreign.BeginForeign(nil, nodes, 0)
		own.Begin(nil, nodes)
		require.Len(t, own.places, nodes)
		for i := range own.places {
			assert.Zero(t, own.at(i))
			own.places[i].mark = MarkReleased
			assert.Equal(t, MarkSent|markUnknown, foreign.at(i), "node %d of %d", i, nodes)
		}
	}
}

// A release that finds nothing repeats one of which nobody knows whether it was carried out. After one that was not,
// it shows a loss.
func TestTraceReleaseThatFindsNothing(t *testing.T) {
	yes, no := Outcome{Stance: Yes}, Outcome{Stance: No}
	nonsense := Unexpected("unlock", "QUEUED")
	for name, test := range map[string]struct {
		answers []Outcome
		want    Stance // of the last
	}{
		"at first":       {[]Outcome{no}, No},
		"twice":          {[]Outcome{no, no}, No},
		"after one":      {[]Outcome{yes, no, no}, Yes},
		"after nonsense": {[]Outcome{nonsense, no, no}, Yes},
		"nonsense":       {[]Outcome{yes, nonsense}, Silent},
	} {
		var trace Trace
		trace.Begin(nil, 1)
		q, last := Request{Task: &Task{Kind: Release, Trace: &trace}}, Outcome{}
		for _, out := range test.answers {
			last = q.heard(out)
		}
		assert.Equal(t, test.want, last.Stance, name)
	}
}
