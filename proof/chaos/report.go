package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/seed6c881748/redlock/proof/chaos/plan"
	"github.com/seed6c881748/redlock/proof/history"
)

// report sums up a run.
func report(w io.Writer, f flags, p *plan.Plan, events []history.Event) error {
	calls, faults := make(map[string]int), make(map[string]int)
	locks, sections, writes := 0, 0, 0
	for _, e := range events {
		switch e.Kind {
		case history.Return:
			how := e.Outcome
			if e.OK {
				how = "ok"
			} else if how == "" {
				how = e.Err
			}
			calls[e.Op+", "+how]++
			if e.OK && (e.Op == history.OpLock || e.Op == history.OpTryLock) {
				locks++
			}
		case history.FaultBegin:
			faults[e.Fault]++
		case history.Enter:
			sections++
		case history.Write:
			if e.OK {
				writes++
			}
		}
	}
	_, _ = fmt.Fprintf(w, "seed %d, course %s, %v: %d nodes, %d clients\n", p.Seed, p.Course, p.Duration, p.Nodes, p.Clients)
	_, _ = fmt.Fprintf(w, "%d locks, %d critical sections, %d writes to the register\n", locks, sections, writes)
	printCounts(w, "calls", calls)
	printCounts(w, "faults", faults)
	_, _ = fmt.Fprintf(w, "history: %s\n", filepath.Join(f.out, "history.jsonl"))
	if locks == 0 {
		return errors.New("nothing was locked: this run has shown nothing")
	}
	return nil
}

func printCounts(w io.Writer, title string, counts map[string]int) {
	_, _ = fmt.Fprintf(w, "%s:\n", title)
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		_, _ = fmt.Fprintf(w, "%8d  %s\n", counts[what], what)
	}
}
