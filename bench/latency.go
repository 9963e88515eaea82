package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// blockWarmup is how many locks at the start of each block do not count: the
// processor's caches are still full of what another client did.
const blockWarmup = 10

// A stretch is what one client measured in one round.
type stretch struct {
	lock, both  []time.Duration
	ops, failed int
	err         error // the first failure
}

// A latencyFigure is a percentile of one of a stretch's measurements.
type latencyFigure struct {
	name string
	of   func(stretch) float64 // in µs
}

var latencyFigures = []latencyFigure{
	{"lock p50", func(s stretch) float64 { return micros(percentile(s.lock, 50)) }},
	{"lock p99", func(s stretch) float64 { return micros(percentile(s.lock, 99)) }},
	{"lock+unlock p50", func(s stretch) float64 { return micros(percentile(s.both, 50)) }},
	{"lock+unlock p99", func(s stretch) float64 { return micros(percentile(s.both, 99)) }},
}

// latency measures a single caller. The clients take turns after every block,
// so that a disturbance of the machine hits all of them alike.
func latency(s settings, out *section, clients []client) ([][]stretch, error) {
	stretches := make([][]stretch, len(clients))
	workers := make([]worker, len(clients))
	for i, c := range clients {
		workers[i] = c.newWorker()
	}
	for round := range s.rounds {
		now := make([]stretch, len(clients))
		for block := range s.blocks {
			for i, c := range clients {
				key := fmt.Sprintf("%s:latency:%d:%d", c.name, round, block)
				now[i].measure(workers[i], key, s.blockSize, s.fresh)
				time.Sleep(pause)
			}
		}
		for i, c := range clients {
			if now[i].ops == 0 {
				return nil, fmt.Errorf("%s: no lock succeeded: %w", c.name, now[i].err)
			}
			slices.Sort(now[i].lock)
			slices.Sort(now[i].both)
			stretches[i] = append(stretches[i], now[i])
		}
	}
	return stretches, printLatency(s, out, clients, stretches)
}

// measure adds one block.
func (t *stretch) measure(w worker, key string, size int, fresh bool) {
	ctx := context.Background()
	for i := range blockWarmup + size {
		k := key
		if fresh {
			k = key + ":" + strconv.Itoa(i)
		}
		start := time.Now()
		err := w.lock(ctx, k)
		locked := time.Since(start)
		if err == nil {
			err = w.unlock(ctx)
		}
		both := time.Since(start)
		switch {
		case err != nil:
			t.failed++
			if t.err == nil {
				t.err = err
			}
		case i >= blockWarmup:
			t.ops++
			t.lock, t.both = append(t.lock, locked), append(t.both, both)
		}
	}
}

func printLatency(s settings, out *section, clients []client, stretches [][]stretch) error {
	columns, peerColumns := []string{"client"}, []string{"peer"}
	for _, f := range latencyFigures {
		columns = append(columns, f.name+" µs best", "median")
		peerColumns = append(peerColumns, f.name+" best", "median")
	}
	times := newTable(fmt.Sprintf("Latency of one caller: %d rounds, in each of which every client has %d blocks of %d locks. "+
		"The percentiles are those of a round; best and median are over the rounds", s.rounds, s.blocks, s.blockSize),
		append(columns, "failed %")...)
	compared := newTable(clients[0].name+" divided by its peer (below 1 is better): the best rounds, and the median of the rounds' ratios",
		peerColumns...)
	for i, c := range clients {
		row, peerRow := []string{c.name}, []string{c.name}
		for _, f := range latencyFigures {
			own, first := each(stretches[i], f.of), each(stretches[0], f.of)
			row = append(row, fmt.Sprintf("%.0f", slices.Min(own)), fmt.Sprintf("%.0f", median(own)))
			peerRow = append(peerRow, ratio(slices.Min(first), slices.Min(own)), number(median(ratios(first, own)), "%.2f"))
		}
		ops, failed := 0, 0
		for _, t := range stretches[i] {
			ops, failed = ops+t.ops, failed+t.failed
		}
		times.add(append(row, fmt.Sprintf("%.2f", 100*float64(failed)/float64(ops+failed)))...)
		if i > 0 {
			compared.add(peerRow...)
		}
	}
	if err := out.table(times); err != nil {
		return err
	}
	return out.table(compared)
}
