package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/tables"
)

// A contest is equal clients that want the same resource, as those of several processes do. That all are in
// one process of the system spares the machine some hundred of these.
type contest struct {
	clients, goroutines int // of each client
	hold                time.Duration
}

var (
	contests = []contest{
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
	lines = []contest{{16, 1, 2 * time.Millisecond}, {64, 1, 2 * time.Millisecond}, {256, 1, 2 * time.Millisecond}}
)

const (
	lineNodes = 3

	// lineTimes is how many contests a line lasts: in a long one, each has few turns.
	lineTimes = 5

	// resource is what all of a contest want.
	resource = "contested"
)

func (c contest) name() string { return fmt.Sprintf("%d x %d", c.clients, c.goroutines) }

// contention measures how fast and how evenly a lock goes from hand to hand.
func contention(s settings, out *section) error {
	return compete(s, out, contests, s.nodes, s.contestTime)
}

// inLine measures how well the order between processes is kept.
func inLine(s settings, out *section) error {
	return compete(s, out, lines, lineNodes, lineTimes*s.contestTime)
}

func compete(s settings, out *section, contests []contest, nodes int, length time.Duration) error {
	t := tables.New(fmt.Sprintf("Clients x goroutines lock, hold and unlock again and again for %v on %d nodes. "+
		"The %v before that is not counted: until all are in line, the first ones have all the turns. "+
		"A turn is one possession; a hand-over is a turn after somebody else's. Ahead of others are the turns of those that "+
		"were served before somebody who had waited longer, by more than an eighth of all. "+
		"Fairness is Jain's index over the goroutines' turns: 1 is equal shares", length, nodes, s.warmUp),
		"contest", "hold", "client", "ahead of others", "hand-overs/s", "turns/s", "fairness", "wait p50 ms", "wait p99 ms",
		"longest wait ms", "overlaps")
	for _, c := range few(s, contests) {
		for _, l := range []library{libraries.Redlock, libraries.RedsyncOn("redigo")} {
			err := onServers(nodes, func(cluster *testcluster.Cluster) error {
				turns, err := c.run(s, cluster, l, length)
				cells := cellsOfTurns(turns, c.clients*c.goroutines, s.warmUp, length)
				t.Add(append([]string{c.name(), c.hold.String(), l.Name}, cells...)...)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name(), l.Name, err)
			}
		}
	}
	return out.table(t)
}

// run has clients of a library wait for the resource.
func (c contest) run(s settings, cluster *testcluster.Cluster, l library, length time.Duration) ([]possession, error) {
	clients, err := openAll(slices.Repeat([]library{l}, c.clients), on(cluster.Addrs(), s.ttl, c.goroutines))
	if err != nil {
		return nil, err
	}
	defer closeClients(clients)
	var workers []libraries.Waiter
	for i := range c.clients * c.goroutines {
		workers = append(workers, clients[i/c.goroutines].NewWorker().(libraries.Waiter))
	}
	return c.play(s.warmUp+length, func(ctx context.Context, i int) (int, release, error) {
		return 0, workers[i].Unlock, workers[i].Lock(ctx, resource, 0)
	}), nil
}

// A possession is one turn: somebody had the lock. Times are since the contest began.
type possession struct {
	who      int // the goroutine, of all clients together
	slot     int // of a permit
	waited   time.Duration
	from, to time.Duration // to is 0 of a turn that had not come in the end
}

type (
	acquire func(ctx context.Context, i int) (slot int, r release, err error) // by a goroutine
	release func(context.Context) error
)

// play has all goroutines lock, hold and unlock for so long, and returns their turns by when they began.
func (c contest) play(length time.Duration, lock acquire) []possession {
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	all := make([][]possession, c.clients*c.goroutines)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			asked := time.Since(start)
			for ctx.Err() == nil {
				slot, unlock, err := lock(ctx, i)
				p := possession{who: i, slot: slot, from: time.Since(start)}
				if p.waited = p.from - asked; err != nil {
					if ctx.Err() != nil { // Otherwise redsync has used up its tries.
						all[i] = append(all[i], p)
					}
					continue
				}
				toil(c.hold)
				p.to = time.Since(start)
				_ = unlock(context.WithoutCancel(ctx))
				all[i] = append(all[i], p)
				asked = time.Since(start)
			}
		})
	}
	wg.Wait()
	turns := slices.Concat(all...)
	slices.SortFunc(turns, func(a, b possession) int { return cmp.Compare(a.from, b.from) })
	return turns
}

// toil works for d. A short sleep would take longer than it should.
func toil(d time.Duration) {
	if d >= time.Millisecond {
		time.Sleep(d)
		return
	}
	for began := time.Now(); time.Since(began) < d; {
	}
}

// cellsOfTurns sums the turns of so many callers up.
func cellsOfTurns(turns []possession, callers int, warmUp, length time.Duration) []string {
	counts, waits := make([]float64, callers), []time.Duration(nil)
	last, held, hands, overlaps, longest := -1, time.Duration(0), 0, 0, time.Duration(0)
	for _, turn := range turns {
		if turn.from < warmUp {
			continue
		}
		if longest = max(longest, turn.waited); turn.to == 0 {
			continue
		}
		counts[turn.who]++
		waits = append(waits, turn.waited)
		if turn.who != last {
			hands++
		}
		if turn.from < held {
			overlaps++
		}
		last, held = turn.who, max(held, turn.to)
	}
	slices.Sort(waits)
	return []string{
		fmt.Sprintf("%.1f %%", 100*ahead(turns, callers/8, warmUp)),
		fmt.Sprintf("%.0f", float64(hands)/length.Seconds()), fmt.Sprintf("%.0f", float64(len(waits))/length.Seconds()),
		fmt.Sprintf("%.3f", jain(counts)), millis(percentile(waits, 50)), millis(percentile(waits, 99)), millis(longest),
		fmt.Sprint(overlaps),
	}
}

// ahead returns which share of those that were served after the warm-up had more than so many before them who
// had waited longer.
func ahead(turns []possession, most int, warmUp time.Duration) float64 {
	var asked, waiting []time.Duration
	for _, p := range turns {
		asked = append(asked, p.from-p.waited)
	}
	slices.Sort(asked)
	next, served, ahead := 0, 0, 0
	for _, p := range turns {
		for ; next < len(asked) && asked[next] < p.from; next++ {
			waiting = append(waiting, asked[next])
		}
		place, found := slices.BinarySearch(waiting, p.from-p.waited)
		if p.to == 0 || !found {
			continue // Who was not served waits to the end.
		}
		waiting = slices.Delete(waiting, place, place+1)
		if p.from < warmUp {
			continue
		}
		if served++; place > most {
			ahead++
		}
	}
	return float64(ahead) / float64(max(served, 1))
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
