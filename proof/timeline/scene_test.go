package timeline

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
)

// us is a time of the history in microseconds, as the scene has it.
const us = 1000

// held is an acquisition of c1 at 10 µs, which returns at 20 with a lock until 500.
func held() []history.Event {
	return []history.Event{
		{At: 10 * us, Kind: history.Call, Client: "c1", Op: history.OpLock, Call: 1, Resources: []string{"b", "a"}},
		{At: 20 * us, Kind: history.Return, Client: "c1", Op: history.OpLock, Call: 1, OK: true, Until: 500 * us, Fence: 7},
	}
}

func TestTracksDoNotOverlap(t *testing.T) {
	var events []history.Event
	for call, at := range []int64{10, 15, 30, 45, 100} { // Each lasts for 20: the third and fourth find free tracks.
		events = append(events,
			history.Event{At: at * us, Kind: history.Call, Client: "c1", Op: history.OpTryLock, Call: call + 1, Resources: []string{"a"}},
			history.Event{At: (at + 20) * us, Kind: history.Return, Client: "c1", Op: history.OpTryLock, Call: call + 1, Outcome: history.OutcomeTaken})
	}
	s := newScene(events, nil)
	assert.Equal(t, 3, s.Lanes[0].Tracks)
	for i, a := range s.Threads {
		for _, b := range s.Threads[i+1:] {
			assert.False(t, a.Track == b.Track && a.From <= b.To && b.From <= a.To, "%v and %v", a, b)
		}
	}
	for _, c := range s.Calls {
		assert.Equal(t, s.Threads[c.Thread.number].From, c.From, "calls are still in their threads")
	}
}

func TestLanes(t *testing.T) {
	node := 1
	s := newScene([]history.Event{
		{Kind: history.Run, Run: &history.Header{Nodes: 3}},
		{At: 1 * us, Kind: history.Up, Client: "c10"},
		{At: 2 * us, Kind: history.Up, Client: "c2"},
		{At: 3 * us, Kind: history.FaultBegin, Fault: "kill", Node: &node, Detail: "-9"},
		{At: 4 * us, Kind: history.Down, Client: "c2", Err: "killed"},
		{At: 5 * us, Kind: history.Up, Client: "c2.2"},
		{At: 6 * us, Kind: history.FaultBegin, Fault: "overload"},
		{At: 7 * us, Kind: history.FaultEnd, Fault: "kill", Node: &node},
		{At: 8 * us, Kind: history.FaultBegin, Fault: "kill", Node: &node},
		{At: 9 * us, Kind: history.FaultBegin, Fault: "pause", Client: "c2.2"},
	}, []judge.Violation{{From: 4 * us, Clients: []string{"c2.2", "nobody", "c10", "c2"}}})
	var lanes []string
	for _, l := range s.Lanes {
		lanes = append(lanes, l.Name)
	}
	assert.Equal(t, []string{"all", "c2", "c10", "node 0", "node 1", "node 2"}, lanes)
	var faults [][3]int64
	for _, f := range s.Faults {
		faults = append(faults, [3]int64{int64(f.Lane), f.From, f.To})
	}
	assert.Equal(t, [][3]int64{{4, 3, 7}, {0, 6, -1}, {4, 8, -1}, {1, 9, -1}}, faults)
	require.Len(t, s.Lives, 3)
	assert.Equal(t, int64(4), s.Lives[1].To)
	assert.Equal(t, "killed", s.Texts[s.Lives[1].Ended])
	assert.Equal(t, []int{1, 2}, s.Violations[0].Lanes)
}

// What was cut short, is not whole, or makes no sense is drawn as far as it goes: whoever wrote it, there is a page.
func TestHistoriesThatAreNotWhole(t *testing.T) {
	all := map[string][]history.Event{
		"nothing":   nil,
		"no header": held(),
		"no call":   held()[1:],
		"no return": held()[:1],
		"lock unknown": {
			{At: 5, Kind: history.Call, Client: "c1", Op: history.OpUnlock, Call: 4, Lock: 3},
			{At: 6, Kind: history.Enter, Client: "c1", Lock: 3},
		},
		"leave only":        append(held(), history.Event{At: 30 * us, Kind: history.Leave, Client: "c1", Lock: 1}),
		"end of no fault":   {{At: 5, Kind: history.FaultEnd, Fault: "kill", Client: "c1"}},
		"votes of no call":  {{At: 5, Kind: history.Votes, Client: "c1", Call: 5, Votes: []history.Vote{{Node: 1}}}},
		"down without up":   {{At: 5, Kind: history.Down, Client: "c1"}},
		"an odd client":     {{At: 5, Kind: history.Up, Client: "c1.x"}, {At: 6, Kind: history.Up, Client: "."}},
		"register of none":  {{At: 5, Kind: history.Register}},
		"write of no field": append(held(), history.Event{At: 30 * us, Kind: history.Write, Client: "c1", Lock: 1}),
	}
	nowhere := -1
	for _, kind := range []history.Kind{history.Call, history.Up, history.FaultBegin, history.Votes, history.Keys} {
		e := history.Event{Kind: kind, Op: history.OpLock, Node: &nowhere, Votes: []history.Vote{{Node: -1, Says: "yes"}}}
		votes := history.Event{Kind: history.Votes, Client: "c1", Call: 1, Votes: e.Votes}
		all["nowhere, "+string(kind)] = append(held(), e, e, votes)
	}
	for name, events := range all {
		require.NoError(t, Write(io.Discard, events, judge.Judge(events)), name)
	}
}
