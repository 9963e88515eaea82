package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	f.Head = []string{"what must be", "looked at", "result"}
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
	f.Says = fmt.Sprintf("%d events in %v: %d of %d rules were tried and held, %d violations.",
		v.Events, time.Duration(v.Length).Round(time.Second), held, len(v.Rules), wrong)
	if untried := v.Named(judge.Nothing); len(untried) > 0 {
		f.Says += " There was nothing to look at for: " + strings.Join(untried, ", ") + "."
		return f, errors.New(f.Says)
	}
	return f, nil
}

var pace = regexp.MustCompile(`(\S+) +(\d+) seeds in +([\d.]+) s: +([\d.]+) virtual hours`)

// readSimulation sums up the lines that the profiles leave.
func readSimulation(file string) (f figures, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return f, err
	}
	var seeds int
	var hours float64
	f.Head = []string{"profile", "seeds", "fake time (h)", "took (s)"}
	for _, m := range pace.FindAllStringSubmatch(string(text), -1) {
		n, _ := strconv.Atoi(m[2])
		h, _ := strconv.ParseFloat(m[4], 64)
		seeds, hours = seeds+n, hours+h
		f.Rows = append(f.Rows, []string{m[1], m[2], m[4], m[3]})
	}
	if seeds == 0 {
		return f, fmt.Errorf("%s tells of no seed", file)
	}
	f.Says = fmt.Sprintf("%d seeds in %d profiles, %.0f hours of fake time.", seeds, len(f.Rows), hours)
	f.Fine = "No promise was broken."
	return f, nil
}

var states = regexp.MustCompile(`(\d+) states in`)

// readModels sums up what the searches of both models say.
func readModels(output string) (f figures, err error) {
	var sum, searches int
	for _, m := range states.FindAllStringSubmatch(output, -1) {
		n, _ := strconv.Atoi(m[1])
		sum, searches = sum+n, searches+1
	}
	broken := 0
	for _, model := range []string{"Fence", "Unknown"} {
		for _, search := range []string{"Usual", "FindsWhatIsWrong"} {
			name := "Test" + model + "Model" + search
			n := strings.Count(output, "--- PASS: "+name+"/")
			if n == 0 {
				return f, fmt.Errorf("%s has not run, or nothing of it has passed: of that model nothing is shown", name)
			}
			if search != "Usual" {
				broken += n
			}
		}
	}
	if sum == 0 {
		return f, errors.New("the output tells of no search")
	}
	f.Says = fmt.Sprintf("%d searches, %.1f million states. %d models were broken on purpose, and in each of them it was found.",
		searches, float64(sum)/1e6, broken)
	f.Fine = "Nothing was wrong in the others."
	return f, nil
}

// readMutants counts the kill list.
func readMutants(file string) (f figures, err error) {
	var list struct {
		Mutants []struct{ Mutant, Outcome string }
	}
	if err = readJSON(file, &list); err != nil {
		return f, err
	}
	count := map[string]int{}
	var wrong []string
	f.Head = []string{"mistake", "result"}
	for _, m := range list.Mutants {
		count[m.Outcome]++
		f.Rows = append(f.Rows, []string{m.Mutant, m.Outcome})
		if m.Outcome != "killed" && m.Outcome != "explained" {
			wrong = append(wrong, m.Mutant)
		}
	}
	if len(list.Mutants) == 0 {
		return f, fmt.Errorf("%s is empty", file)
	}
	f.Says = fmt.Sprintf("%d mistakes: %d were noticed", len(list.Mutants), count["killed"])
	if n := count["explained"]; n > 0 {
		f.Says += fmt.Sprintf(", %d change nothing that counts", n)
	}
	if len(wrong) > 0 {
		return f, fmt.Errorf("%s, %d were not: %s", f.Says, len(wrong), strings.Join(wrong, "; "))
	}
	f.Says += "."
	return f, nil
}

// readPeers adds up each library's figures over all kinds of faults.
func readPeers(file string) (f figures, err error) {
	type tally struct {
		Library, Version                       string
		Locks, Overlaps, LostUpdates           int
		CallsOverOneSecond, CallsHung          int
		KeysLeftByFailures, KeysLeftByReleases int
	}
	var list struct{ Figures []tally }
	if err = readJSON(file, &list); err != nil {
		return f, err
	}
	var sums []*tally
	of := map[string]*tally{}
	for _, t := range list.Figures {
		s := of[t.Library]
		if s == nil {
			s = &tally{Library: t.Library, Version: t.Version}
			of[t.Library], sums = s, append(sums, s)
		}
		s.Locks += t.Locks
		s.Overlaps += t.Overlaps
		s.LostUpdates += t.LostUpdates
		s.CallsOverOneSecond += t.CallsOverOneSecond
		s.CallsHung += t.CallsHung
		s.KeysLeftByFailures += t.KeysLeftByFailures
		s.KeysLeftByReleases += t.KeysLeftByReleases
	}
	f.Head = []string{"library", "locks", "overlaps", "lost updates", "keys left", "calls over 1 s", "calls that hung"}
	for _, s := range sums {
		row := []string{s.Library + " " + s.Version}
		for _, n := range []int{s.Locks, s.Overlaps, s.LostUpdates, s.KeysLeftByFailures + s.KeysLeftByReleases, s.CallsOverOneSecond, s.CallsHung} {
			row = append(row, fmt.Sprint(n))
		}
		f.Rows = append(f.Rows, row)
	}
	if len(f.Rows) == 0 {
		return f, fmt.Errorf("%s is empty", file)
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
