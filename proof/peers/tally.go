package main

import (
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

const (
	slow = time.Second      // By which a call is longer than it was told to wait.
	hung = 10 * time.Second // The same, of one that hangs.
)

// Figures are what one library did under one group of faults.
type Figures struct {
	Library string `json:"library"`
	Version string `json:"version"`
	Faults  string `json:"faults"`
	Seed    uint64 `json:"seed"`
	Seconds int    `json:"seconds"`

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

// tally counts. Only of a library that wakes up those who wait, it looks for wake-ups that were lost.
func tally(events []history.Event, samples []sample, ttl time.Duration, wakes bool) (f Figures) {
	h := read(events, ttl)
	pairs, longest := overlaps(h.holdings())
	f.Overlaps, f.LongestOverlap, f.LostUpdates = pairs, longest.Milliseconds(), lostUpdates(events)
	f.OrphansFailed, f.OrphansReleased = h.orphans(samples)
	for _, e := range events {
		if e.Kind == history.Keys {
			f.LeftInTheEnd += len(e.Keys)
		}
	}
	asleep := 0
	for _, c := range h.calls {
		if c.locked {
			f.Locks++
		}
		if wakes && c.op == history.OpLock && h.slept(c, samples) {
			asleep++
		}
		if c.to == never && c.down != never {
			continue // Its process was killed, which is no fault of its own.
		}
		took := h.awake(c) - c.told
		f.Longest = max(f.Longest, took.Milliseconds())
		if took > slow {
			f.Slow++
		}
		if took > hung {
			f.Hung++
		}
	}
	if wakes {
		f.NoWakeUp = &asleep
	}
	return f
}
