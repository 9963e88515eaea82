package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/proof/judge"
)

// readChaos tells what became of each rule. A rule that had nothing to look at has shown nothing, which is a failure.
func readChaos(file string) (f figures, err error) {
	var v judge.Verdict
	if err = readJSON(file, &v); err != nil {
		return f, err
	}
	held, wrong := 0, 0
	f.Head = []string{"what must be", "facts", "result"}
	for _, r := range v.Rules {
		result := string(r.State)
		switch r.State {
		case judge.Held:
			held++
		case judge.Nothing:
			result = "nothing to look at"
		case judge.Broken:
			result = fmt.Sprintf("broken %d times", r.Violations)
			wrong += r.Violations
		default:
		}
		f.Rows = append(f.Rows, []string{r.Promise, fmt.Sprint(r.Facts), result})
	}
	f.Notes = chaosNotes(&v, filepath.Join(filepath.Dir(file), "schedule.txt"))
	f.Says = fmt.Sprintf("%d events in %v: %d of %d rules were tried and held, %d violations.",
		v.Events, time.Duration(v.Length).Round(time.Second), held, len(v.Rules), wrong)
	if untried := v.Named(judge.Nothing); len(untried) > 0 {
		f.Says += " There was nothing to look at for: " + strings.Join(untried, ", ") + "."
		return f, errors.New(f.Says)
	}
	return f, nil
}

// chaosNotes say how the run was set up, and what its judge let pass.
func chaosNotes(v *judge.Verdict, schedule string) []string {
	l := v.Locks
	notes := []string{
		fmt.Sprintf("%d locks. Others wanted %d of them, too: %d plain ones and %d with fences. %d followed at an expiry, the first %v after it.",
			l.All, l.Contended, l.Plain, l.Contended-l.Plain, l.AtExpiry, time.Duration(l.LeastGap).Round(time.Microsecond)),
		fmt.Sprintf("The machine may be busy: a loss signal may be %v late, and so may work that begins. For %v of %v in all, "+
			"processes did not run although they were not frozen: in %d stalls, and just before and after freezes. That time does not count.",
			time.Duration(v.Run.SignalSlack), time.Duration(v.Stalls.Time).Round(time.Millisecond),
			time.Duration(v.Stalls.Lived).Round(time.Second), v.Stalls.Count),
		"A fact is one case to which a rule applied: a call, a lock, a read or write, a node in the end.",
	}
	text, err := os.ReadFile(schedule)
	if err != nil {
		return notes
	}
	setUp, faults, _ := strings.Cut(string(text), "\n")
	return append([]string{
		"Set-up: " + setUp + ".",
		fmt.Sprintf("%d faults in the schedule; docs/reliability.md says what each is.", strings.Count(faults, "\n")),
	}, notes...)
}

// profiles says what goes on in each; docs/testing.md says more.
var profiles = map[string]string{
	"TestSimRandomSchedules":         "all calls at random, under all faults that lose no key",
	"TestSimWaiting":                 "several processes wait for the same resources, and messages are lost",
	"TestSimQuarantine":              "nodes lose all their data, again and again",
	"TestSimReleaseByAnotherProcess": "one process takes a lock, and another one releases it",
	"TestSimLostReleases":            "several release one lock, while answers are lost",
	"TestSimOverload":                "up to 400 callers at slow nodes, and packets that come late",
	"TestSimSemaphore":               "semaphores: callers of several processes, which may differ in k",
	"TestSimHeldLocks":               "locks are kept alive, while nodes fail and lose keys",
	"TestSimMinHold":                 "locks with a min hold, over connections that deliver late",
	"TestSimGrowing":                 "the set of nodes changes by one node at a time",
}

// sum adds up a group of what was matched.
func sum(matches [][]string, group int) (all float64) {
	for _, m := range matches {
		n, _ := strconv.ParseFloat(m[group], 64)
		all += n
	}
	return all
}

var pace = regexp.MustCompile(`(\S+) +(\d+) seeds in +([\d.]+) s: +([\d.]+) virtual hours`)

// readSimulation sums up the lines that the profiles leave.
func readSimulation(file string) (f figures, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return f, err
	}
	all := pace.FindAllStringSubmatch(string(text), -1)
	f.Head = []string{"profile", "what goes on", "seeds", "fake time (h)", "took (s)"}
	for _, m := range all {
		f.Rows = append(f.Rows, []string{m[1], profiles[m[1]], m[2], m[4], m[3]})
	}
	if sum(all, 2) == 0 {
		return f, fmt.Errorf("%s tells of no seed", file)
	}
	f.Says = fmt.Sprintf("%.0f seeds in %d profiles, %.0f hours of fake time.", sum(all, 2), len(f.Rows), sum(all, 4))
	f.Fine = "No promise was broken."
	return f, nil
}

var states = regexp.MustCompile(`(\d+) states in`)

// readModels sums up what the searches over the rules of a node and of rounds say.
func readModels(output string) (f figures, err error) {
	searches := states.FindAllStringSubmatch(output, -1)
	broken := 0
	for _, name := range []string{"TestQuorumFences", "TestQuorumExclusion", "TestQuorumFindsWhatIsWrong", "TestWorldUsual"} {
		n := strings.Count(output, "--- PASS: "+name+"/")
		if n == 0 {
			return f, fmt.Errorf("%s has not run, or nothing of it has passed: of that nothing is shown", name)
		}
		if strings.HasSuffix(name, "FindsWhatIsWrong") {
			broken += n
		}
	}
	if sum(searches, 1) == 0 {
		return f, errors.New("the output tells of no search")
	}
	f.Says = fmt.Sprintf("%d searches, %.1f million states. %d worlds were broken on purpose, and in each of them it was found.",
		len(searches), sum(searches, 1)/1e6, broken)
	f.Fine = "Nothing was wrong in the others."
	return f, nil
}

// readMutants counts the kill list.
func readMutants(file string) (f figures, err error) {
	var list struct {
		All     int
		Mutants []struct{ Name, Mutant, Outcome string }
	}
	if err = readJSON(file, &list); err != nil {
		return f, err
	}
	count := map[string]int{}
	var wrong []string
	f.Notes = []string{"In the file and in the output, killed is the word for noticed."}
	f.Head = []string{"patch", "mistake", "result"}
	for _, m := range list.Mutants {
		count[m.Outcome]++
		result := m.Outcome
		switch result {
		case "killed":
			result = "noticed"
		case "explained":
		default:
			wrong = append(wrong, m.Name)
		}
		f.Rows = append(f.Rows, []string{m.Name, m.Mutant, result})
	}
	if len(list.Mutants) == 0 {
		return f, fmt.Errorf("%s is empty", file)
	}
	f.Says = fmt.Sprintf("%d of %d mistakes were tried: %d were noticed", len(list.Mutants), list.All, count["killed"])
	if n := count["explained"]; n > 0 {
		f.Says += fmt.Sprintf(", %d change nothing that counts", n)
	}
	if len(wrong) > 0 {
		return f, fmt.Errorf("%s, %d were not: %s", f.Says, len(wrong), strings.Join(wrong, "; "))
	}
	f.Says += "."
	return f, nil
}

// readPeers reads each library's figures over all kinds of faults. What the others did is no failure.
func readPeers(file string) (f figures, err error) {
	var list struct {
		Sums []struct {
			Library, Version string
			judge.Tally
		}
	}
	if err = readJSON(file, &list); err != nil {
		return f, err
	}
	own := -1
	f.Head = []string{"library", "locks", "overlaps", "lost updates", "keys left", "calls over 1 s", "calls that hung"}
	for i, s := range list.Sums {
		row := []string{s.Library + " " + s.Version}
		for _, n := range []int{s.Locks, s.Overlaps, s.LostUpdates, s.OrphansFailed + s.OrphansReleased, s.Slow, s.Hung} {
			row = append(row, fmt.Sprint(n))
		}
		f.Rows = append(f.Rows, row)
		if s.Library == "redlock" {
			own = i
		}
	}
	if own < 0 {
		return f, errors.New("redlock is not among the libraries")
	}
	if s := list.Sums[own]; s.Overlaps+s.LostUpdates > 0 {
		return f, fmt.Errorf("redlock had %d overlaps and %d lost updates", s.Overlaps, s.LostUpdates)
	}
	f.Says = fmt.Sprintf("%d libraries. docs/reliability.md says how to read this, and what each of them promises.", len(f.Rows))
	return f, nil
}

func readJSON(file string, to any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err = json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
