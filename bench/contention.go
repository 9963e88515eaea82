package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/tables"
)

// A contest is equal processes that want the same resource.
type contest struct {
	processes, goroutines int
	hold                  time.Duration
}

var contests = []contest{
	{4, 4, 0},
	{1, 16, 0},
	{32, 1, 0},
	{4, 4, time.Millisecond},
	{1, 16, time.Millisecond},
	{32, 1, time.Millisecond},
	{4, 4, 10 * time.Millisecond},
	{1, 16, 10 * time.Millisecond},
	{32, 1, 10 * time.Millisecond},
}

func (c contest) name() string { return fmt.Sprintf("%d x %d", c.processes, c.goroutines) }

// contention measures how fast and how evenly a lock goes from hand to hand.
func contention(s settings, out *section) error {
	t := tables.New(fmt.Sprintf("Processes x goroutines lock, hold and unlock again and again for %v. "+
		"The %v before that is not counted: until all are in line, the first ones have all the turns. "+
		"A turn is one possession; a hand-over is a turn after somebody else's. "+
		"Fairness is Jain's index over the goroutines' turns: 1 is equal shares", s.contestTime, s.warmUp),
		slices.Concat([]string{"contest", "hold", "client"}, boutColumns)...)
	for _, c := range few(s, contests) {
		for _, client := range peerNames {
			err := onServers(s.nodes, func(cluster *testcluster.Cluster) error {
				turns, err := c.run(s, cluster, client)
				b := judge(turns, c.processes*c.goroutines, s.contestTime)
				t.Add(append([]string{c.name(), c.hold.String(), client}, b.cells()...)...)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name(), client, err)
			}
		}
	}
	return out.table(t)
}

// run runs all processes of the contest.
func (c contest) run(s settings, cluster *testcluster.Cluster, client string) ([]possession, error) {
	from := time.Now().Add(time.Second) // All processes have started by then.
	counted := from.Add(s.warmUp)
	o := order{
		Role: "contend", Client: client, Addrs: cluster.Addrs(), TTL: s.ttl, Goroutines: c.goroutines, Hold: c.hold,
		From: from, Counted: counted, To: counted.Add(s.contestTime),
	}
	told, err := obey[[]possession](o, c.processes)
	return o.together(told), err
}

// A bout is what the possessions of a contest amount to.
type bout struct {
	hands, turns      float64 // per second
	fairness          float64
	p50, p99, longest time.Duration // of the waits
	overlaps          int
}

var boutColumns = []string{
	"hand-overs/s", "turns/s", "fairness", "wait p50 ms", "wait p99 ms", "longest wait ms", "overlaps",
}

// judge sums the turns of so many callers up.
func judge(turns []possession, callers int, length time.Duration) (b bout) {
	slices.SortFunc(turns, func(a, b possession) int { return int(a.From - b.From) })
	counts := make([]float64, callers)
	waits := make([]time.Duration, len(turns))
	last, held := -1, int64(0)
	for i, turn := range turns {
		counts[turn.Who]++
		waits[i] = turn.Waited
		if turn.Who != last {
			b.hands++
		}
		if turn.From < held {
			b.overlaps++
		}
		last, held = turn.Who, max(held, turn.To)
	}
	slices.Sort(waits)
	b.hands, b.turns = b.hands/length.Seconds(), float64(len(turns))/length.Seconds()
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
