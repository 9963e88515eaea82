package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// pause between two turns, in which the slower nodes' part of the last locks of
// a client that does not wait for them comes to its end.
const pause = 30 * time.Millisecond

// A turn is what one client did in one round.
type turn struct {
	ops, failed  int64
	err          error // the first failure
	took         time.Duration
	client       time.Duration // processor time
	servers      time.Duration // processor time of all servers
	allocs, size uint64        // objects and bytes
}

func (t turn) rate() float64      { return float64(t.ops) / t.took.Seconds() }
func (t turn) clientCPU() float64 { return micros(t.client) / float64(max(t.ops, 1)) }
func (t turn) serverCPU() float64 { return micros(t.servers) / float64(max(t.ops, 1)) }
func (t turn) objects() float64   { return float64(t.allocs) / float64(max(t.ops, 1)) }
func (t turn) bytes() float64     { return float64(t.size) / float64(max(t.ops, 1)) }

// throughput measures lock+unlock/s and what they cost, with each number of goroutines.
func throughput(s settings, out *section, cluster *testcluster.Cluster, clients []client) ([]sweepPoint, error) {
	keys := "one key per goroutine"
	if s.fresh {
		keys = "a new key for every lock"
	}
	var points []sweepPoint
	for _, g := range s.goroutines {
		turns, err := rounds(s, cluster, clients, g)
		if err != nil {
			return nil, err
		}
		points = append(points, sweepPoint{g, turns})
		title := fmt.Sprintf("Throughput: goroutines: %d, %s, %d rounds of %v for each client. op = lock+unlock that succeeded",
			g, keys, s.rounds, s.time)
		if err := printTurns(out, title, clients, turns); err != nil {
			return nil, err
		}
	}
	reportSweep(s, out, clients, points)
	return points, nil
}

// rounds gives every client its turn in every round, after one to warm up. The
// result is by client.
func rounds(s settings, cluster *testcluster.Cluster, clients []client, goroutines int) ([][]turn, error) {
	turns := make([][]turn, len(clients))
	for round := range s.rounds + 1 {
		for i, c := range clients {
			length := s.time
			if round == 0 {
				length = min(length, 300*time.Millisecond)
			}
			// A key of an earlier round is not used again: redsync with fail-fast can
			// leave it behind on a node, where it would then refuse the next lock.
			prefix := fmt.Sprintf("%s:%d:%d:", c.name, goroutines, round)
			t, err := takeTurn(cluster, c, goroutines, length, prefix, s.fresh)
			if err != nil {
				return nil, err
			}
			if t.ops == 0 {
				return nil, fmt.Errorf("%s: no lock succeeded: %w", c.name, t.err)
			}
			if round > 0 {
				turns[i] = append(turns[i], t)
			}
			time.Sleep(pause)
		}
	}
	return turns, nil
}

// takeTurn has goroutines lock and unlock for the given time.
func takeTurn(cluster *testcluster.Cluster, c client, goroutines int, length time.Duration, prefix string, fresh bool) (turn, error) {
	servers, err := serverCPU(cluster)
	if err != nil {
		return turn{}, err
	}
	runtime.GC() // Nobody pays for another one's garbage.
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := cpuTime(), time.Now()

	var stop atomic.Bool
	results := make([]turn, goroutines)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() { results[i] = cycles(c.newWorker(), prefix+strconv.Itoa(i), fresh, &stop) })
	}
	time.Sleep(length)
	stop.Store(true)
	wg.Wait()

	t := turn{took: time.Since(start), client: cpuTime() - cpu}
	runtime.ReadMemStats(&after)
	t.allocs, t.size = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	for _, r := range results {
		t.ops += r.ops
		t.failed += r.failed
		t.err = errors.Join(t.err, r.err)
	}
	now, err := serverCPU(cluster)
	t.servers = now - servers
	return t, err
}

// cycles locks and unlocks until it is told to stop.
func cycles(w worker, key string, fresh bool, stop *atomic.Bool) turn {
	ctx := context.Background()
	var t turn
	for i := 0; !stop.Load(); i++ {
		k := key
		if fresh {
			k = key + ":" + strconv.Itoa(i)
		}
		err := w.lock(ctx, k)
		if err == nil {
			err = w.unlock(ctx)
		}
		if err == nil {
			t.ops++
			continue
		}
		t.failed++
		if t.err == nil {
			t.err = err
		}
	}
	return t
}

func printTurns(out *section, title string, clients []client, turns [][]turn) error {
	costs := newTable(title, "client", "op/s best", "op/s median", "client CPU µs/op best", "median",
		"servers' CPU µs/op median", "allocs/op median", "B/op median", "failed %")
	for i, c := range clients {
		rates, cpus := each(turns[i], turn.rate), each(turns[i], turn.clientCPU)
		var ops, failed int64
		for _, t := range turns[i] {
			ops, failed = ops+t.ops, failed+t.failed
		}
		costs.add(c.name, fmt.Sprintf("%.0f", slices.Max(rates)), fmt.Sprintf("%.0f", median(rates)),
			number(slices.Min(cpus), "%.1f"), number(median(cpus), "%.1f"),
			number(median(each(turns[i], turn.serverCPU)), "%.1f"),
			fmt.Sprintf("%.1f", median(each(turns[i], turn.objects))),
			fmt.Sprintf("%.0f", median(each(turns[i], turn.bytes))),
			fmt.Sprintf("%.2f", 100*float64(failed)/float64(ops+failed)))
	}
	if err := out.aside(costs); err != nil {
		return err
	}
	if len(clients) < 2 {
		return nil
	}
	compared := newTable(clients[0].name+" divided by its peer (op/s: above 1 is better, costs: below 1 is better)",
		"peer", "op/s of the best rounds", "op/s median of the rounds' ratios", "client CPU/op", "servers' CPU/op", "allocs/op", "B/op")
	medianRatio := func(i int, f func(turn) float64) string {
		return number(median(ratios(each(turns[0], f), each(turns[i], f))), "%.2f")
	}
	for i := 1; i < len(clients); i++ {
		compared.add(clients[i].name,
			ratio(slices.Max(each(turns[0], turn.rate)), slices.Max(each(turns[i], turn.rate))),
			medianRatio(i, turn.rate), medianRatio(i, turn.clientCPU), medianRatio(i, turn.serverCPU),
			medianRatio(i, turn.objects), medianRatio(i, turn.bytes))
	}
	return out.aside(compared)
}
