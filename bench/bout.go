package main

import (
	"fmt"
	"slices"
	"time"
)

// A bout is what the possessions of one fleet amount to.
type bout struct {
	hands, turns      float64       // per second
	fairness          float64       // among all callers
	p50, p99, longest time.Duration // of the waits
	overlaps          int           // of all
}

// judge sums the turns of a contest up for one of its fleets.
func judge(fleets []fleet, number int, turns []possession, length time.Duration) (b bout) {
	var fleetOf []int // by caller
	for i, f := range fleets {
		fleetOf = append(fleetOf, slices.Repeat([]int{i}, f.processes*f.goroutines)...)
	}
	slices.SortFunc(turns, func(a, b possession) int { return int(a.From - b.From) })
	counts, held := make([]float64, len(fleetOf)), map[string]int64{}
	var waits []time.Duration
	last := -1
	for _, turn := range turns {
		counts[turn.Who]++
		for _, res := range fleets[fleetOf[turn.Who]].resources {
			if turn.From < held[res] {
				b.overlaps++
			}
			held[res] = max(held[res], turn.To)
		}
		if fleetOf[turn.Who] == number {
			waits = append(waits, turn.Waited)
			if turn.Who != last {
				b.hands++
			}
		}
		last = turn.Who
	}
	slices.Sort(waits)
	b.hands, b.turns = b.hands/length.Seconds(), float64(len(waits))/length.Seconds()
	b.fairness = jain(counts)
	b.p50, b.p99, b.longest = percentile(waits, 50), percentile(waits, 99), percentile(waits, 100)
	return b
}

func (b bout) cells() []string {
	return []string{
		fmt.Sprintf("%.0f", b.hands), fmt.Sprintf("%.0f", b.turns), fmt.Sprintf("%.3f", b.fairness),
		millis(b.p50), millis(b.p99), millis(b.longest), fmt.Sprint(b.overlaps),
	}
}

// jain is Jain's index of fairness: 1 if all have the same share, 1/n if one has
// everything.
func jain(shares []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

func perSecond(n int, length time.Duration) string {
	return fmt.Sprintf("%.0f", float64(n)/length.Seconds())
}
