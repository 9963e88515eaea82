package judge

import (
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// By how much calls are longer than they were told to wait that are slow, or hang.
const (
	Slow = time.Second
	Hung = 10 * time.Second
)

// A Tally is what a library did in a run. Rules are about promises, which differ: by this, libraries can be compared.
type Tally struct {
	Locks    int `json:"locks"`    // Acquired.
	Overlaps int `json:"overlaps"` // Pairs of locks that were valid at the same time, as their library says.
	// LongestOverlap and Longest are milliseconds.
	LongestOverlap int64 `json:"longestOverlapMs"`
	LostUpdates    int   `json:"lostUpdates"`

	OrphansFailed   int   `json:"keysLeftByFailures"`
	OrphansReleased int   `json:"keysLeftByReleases"`
	LeftInTheEnd    int   `json:"keysLeftInTheEnd"`
	Slow            int   `json:"callsOverOneSecond"`
	Longest         int64 `json:"longestCallMs"` // Beyond what it was told to wait.
	Hung            int   `json:"callsHung"`
	NoWakeUp        *int  `json:"lostWakeUps,omitempty"` // nil where waiters poll.
}

// Count tallies a history. Only of a library that wakes up those who wait, it looks for wake-ups that were lost.
func Count(events []history.Event, wakes bool) (t Tally) {
	r := newRun(events)
	pairs, longest := overlaps(r.holdings())
	t.Locks, t.Overlaps, t.LongestOverlap = len(r.locks), pairs, time.Duration(longest).Milliseconds()
	left, _ := r.orphans(tidied)
	for _, o := range left {
		if o.released {
			t.OrphansReleased++
		} else {
			t.OrphansFailed++
		}
	}
	for _, e := range events {
		if e.Kind == history.Keys {
			t.LeftInTheEnd += len(e.Keys)
		}
	}
	for res, operations := range r.operations { // Writes that a register took, and that are not in its value.
		t.LostUpdates += granted(operations) - int(r.final[res].Value)
	}
	asleep := 0
	for _, c := range r.inOrder {
		if wakes && c.begin.Op == history.OpLock && r.slept(c) {
			asleep++
		}
		if _, down := r.down[c.client]; down && c.end == nil {
			continue // Its process was killed, which is no fault of its own.
		}
		took := time.Duration(r.awake(c) - max(0, c.begin.Bound-c.begin.At))
		t.Longest = max(t.Longest, took.Milliseconds())
		if took > Slow {
			t.Slow++
		}
		if took > Hung {
			t.Hung++
		}
	}
	if wakes {
		t.NoWakeUp = &asleep
	}
	return t
}

// awake is how long a call took while its process could run.
func (r *run) awake(c *call) int64 {
	p := period{c.begin.At, c.returned(r)}
	return p.to - p.from - p.common(r.stood(c.client, history.Freeze))
}
