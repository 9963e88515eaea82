package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/plan"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
)

var (
	errBroken  = errors.New("a promise was broken")
	errIdle    = errors.New("next to nothing was done under locks: this run has shown nothing")
	errStalls  = errors.New("processes did not run for more than a tenth of their time: this run has shown little")
	errUntried = errors.New("a rule had nothing to look at, in a run that is long enough for all of them")
)

// conclude judges what happened, and says what came out.
func conclude(name string, events []history.Event) error {
	v := judge.Judge(events)
	s := sum(events)
	s.print(os.Stdout)
	fmt.Print(v)
	fmt.Printf("history: %s\n", name)
	switch {
	case !v.OK():
		fmt.Printf("replay:  %s\n", v.Run.Command)
		return errBroken
	case v.Run.Course == plan.Soak:
		return concludeSoak(events)
	case float64(s.calls[writes]) < time.Duration(v.Length).Seconds():
		return errIdle // Locks alone would not do: those of the client that nobody disturbs need no other's.
	case v.Stalls.Time > v.Stalls.Lived/10:
		return errStalls // What was late was excused.
	case triesAll(v.Run) && len(v.Named(judge.Nothing)) > 0:
		return fmt.Errorf("%w: %s", errUntried, strings.Join(v.Named(judge.Nothing), ", "))
	}
	return nil
}

// triesAll reports whether a run has all faults, and quarantine, for so long that each rule has something to look at: a minute
// has one to eleven loss signals. Of a shorter run, or one with some faults, the verdict says which rules had nothing.
func triesAll(run history.Header) bool {
	d, err := time.ParseDuration(run.Settings["duration"])
	return err == nil && d >= 2*time.Minute && run.Course == plan.All && run.MaxTTL > 0
}

// A summary is what was done in a run.
type summary struct{ calls, faults map[string]int }

// writes are those of the register that were granted.
const writes = "write: ok"

func sum(events []history.Event) summary {
	s := summary{calls: make(map[string]int), faults: make(map[string]int)}
	for _, e := range events {
		switch {
		case e.Kind == history.Return:
			how, _, _ := strings.Cut(cmp.Or(e.Outcome, e.Err, "ok"), "\n")
			s.calls[e.Op+": "+how]++
		case e.Kind == history.FaultBegin && e.Fault != history.Stall: // That nobody made.
			s.faults[e.Fault]++
		case (e.Kind == history.Read || e.Kind == history.Write) && !e.OK:
			s.calls[string(e.Kind)+": refused"]++
		case e.Kind == history.Write:
			s.calls[writes]++
		}
	}
	return s
}

func (s *summary) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "calls:  %s\nfaults: %s\n", counts(s.calls), counts(s.faults))
}

// counts are the names with their numbers, in the order of the names.
func counts(of map[string]int) string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s %d", what, of[what]))
	}
	return strings.Join(all, ", ")
}
