package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/judge"
)

func said(text string, err error) func(string) (figures, error) {
	return func(string) (figures, error) { return figures{Says: text}, err }
}

func later() time.Time { return time.Now().Add(time.Hour) }

// A step that goes on for longer than its share is ended, and says so.
func TestStepIsEndedWithItsShare(t *testing.T) {
	hangs := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(hangs, "main.go"), []byte("package main\nfunc main() { <-make(chan int, 1); select {} }\n"), 0o600))
	s := step{Args: []string{"run", filepath.Join(hangs, "main.go")}, read: said("All was seen.", nil)}
	d := s.run(t.Context(), time.Now().Add(100*time.Millisecond))
	require.Equal(t, failed, d.Result)
	require.Contains(t, d.Says, "its share of the time was over")
}

// All steps together take no longer than the whole, and are larger if that is.
func TestStepsShareTheTime(t *testing.T) {
	sum := time.Duration(0)
	for _, s := range steps(time.Hour, 1, "") {
		require.Positive(t, share(time.Hour, s.Name), s.Name)
		sum += share(time.Hour, s.Name)
	}
	require.LessOrEqual(t, sum, time.Hour)
	for _, whole := range []time.Duration{15 * time.Minute, time.Hour} {
		require.Less(t, chaosTime(whole), share(whole, "chaos"))
		require.Less(t, 40*peersTime(whole), share(whole, "peers"))
		require.Greater(t, chaosTime(whole), 2*time.Minute, "each rule must have something to look at")
	}
	require.Greater(t, seeds(time.Hour), seeds(15*time.Minute))

	all, began := steps(15*time.Minute, 1, ""), time.Now()
	ends := shared(15*time.Minute, all, began)
	for i, s := range all {
		begins := began
		if i > 0 {
			begins = ends[i-1]
		}
		require.Equal(t, share(15*time.Minute, s.Name), ends[i].Sub(begins), s.Name)
	}
	require.LessOrEqual(t, ends[len(ends)-1].Sub(began), 15*time.Minute)
}

// A step passes if its command does and leaves figures.
func TestStepFailsWithItsCommandAndWithoutFigures(t *testing.T) {
	good := step{Name: "good", Args: []string{"version"}, read: said("12 looked at.", nil)}
	d := good.run(t.Context(), later())
	require.Equal(t, passed, d.Result)
	require.Equal(t, "12 looked at.", d.Says)
	require.Contains(t, d.Last, "go version")
	require.Equal(t, "(cd proof && go version)", d.Command)

	command := step{Name: "command", Args: []string{"nonsense"}, read: said("12 looked at.", nil)}
	d = command.run(t.Context(), later())
	require.Equal(t, failed, d.Result)
	require.Contains(t, d.Says, "exit status")
	require.Contains(t, d.Last, "nonsense")

	well := func(string) (figures, error) { return figures{Says: "12 looked at.", Fine: "All is well."}, nil }
	good.read, command.read = well, well
	require.Equal(t, "12 looked at. All is well.", good.run(t.Context(), later()).Says)
	require.NotContains(t, command.run(t.Context(), later()).Says, "All is well.", "what has failed must not say so")

	command.read = said("12 looked at", errors.New("12 looked at, 2 wrong: these"))
	require.Contains(t, command.run(t.Context(), later()).Says, "exit status 2. 12 looked at, 2 wrong: these")
	command.read, command.File = readMutants, filepath.Join(t.TempDir(), "none")
	require.Equal(t, "The command ended with exit status 2. It has left no figures.", command.run(t.Context(), later()).Says)

	silent := step{Name: "silent", Args: []string{"version"}, read: said("", errors.New("no figures"))}
	d = silent.run(t.Context(), later())
	require.Equal(t, failed, d.Result)
	require.Equal(t, "no figures", d.Says)
}

// What an earlier run has left is no result of this one.
func TestStepReadsNothingOld(t *testing.T) {
	old := filepath.Join(t.TempDir(), "old")
	require.NoError(t, os.WriteFile(old, []byte("TestSimA 30 seeds in 12.5 s: 1.5 virtual hours"), 0o600))
	s := step{Args: []string{"version"}, File: old, read: readSimulation}
	require.Equal(t, failed, s.run(t.Context(), later()).Result)
	for _, s := range steps(time.Minute, 1, "folder") {
		require.Equal(t, s.Name == "models", s.File == "", "%s reads a file, which may be old", s.Name)
	}
}

// One step that fails is enough, and what was left out is not counted as passed.
func TestReportSaysWhatCameOut(t *testing.T) {
	for _, c := range []struct {
		results []string
		ok      bool
		says    string
	}{
		{[]string{passed, passed}, true, "All 2 steps that count passed: no broken promise was seen."},
		{[]string{passed, failed}, false, "1 of 3 steps failed: <title 1>."},
	} {
		r := begin(7)
		for i, result := range c.results {
			r.Steps = append(r.Steps, done{figures: figures{Notes: []string{"<s>"}, Head: []string{"<i>"}, Rows: [][]string{{"<u>", "`<em>`"}}}, step: step{Title: "<title " + string(rune('0'+i)) + ">", Files: []string{"there.txt", "missing.txt"}}, Result: result, Last: "<b>"})
		}
		r.Steps = append(r.Steps, done{step: step{Aside: true, Title: "others"}, Result: passed})
		r.end()
		require.Equal(t, c.ok, r.OK)
		require.Equal(t, c.says, r.Says)

		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "there.txt"), nil, 0o600))
		require.NoError(t, r.write(folder))
		html, err := os.ReadFile(filepath.Join(folder, "report.html"))
		require.NoError(t, err)
		require.Contains(t, string(html), "&lt;title 0&gt;")
		require.Contains(t, string(html), "<code>&lt;em&gt;</code>")
		require.Contains(t, string(html), `<a href="there.txt">`)
		require.NotContains(t, string(html), "missing.txt", "a step that failed may not have left it")
		require.Equal(t, !c.ok, strings.Contains(string(html), "<details open>"), "a failure shows its output")
		for _, tag := range []string{"<b>", "<i>", "<u>", "<s>", "<em>", "<title 0>"} {
			require.NotContains(t, string(html), tag)
		}
		var again report
		require.NoError(t, readJSON(filepath.Join(folder, "report.json"), &again))
		require.Equal(t, r.Says, again.Says)
	}
}

func TestFiguresAreRead(t *testing.T) {
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	f, err := readSimulation(file("TestSimA    30 seeds in   12.5 s:   1.5 virtual hours,  7.2 a minute\n" +
		"TestSimB    12 seeds in    1.5 s:  22.5 virtual hours,  900 a minute\n"))
	require.NoError(t, err)
	require.Equal(t, "42 seeds in 2 profiles, 24 hours of fake time.", f.Says)
	_, err = readSimulation(file("nothing"))
	require.ErrorContains(t, err, "no seed")

	models := []string{"TestQuorumFences", "TestQuorumExclusion", "TestQuorumFindsWhatIsWrong", "TestWorldUsual"}
	ran := "x: 1500000 states in 3.0 s\ny: 500000 states in 1.0 s\n"
	for _, name := range models {
		ran += "--- PASS: " + name + " (0.1s)\n    --- PASS: " + name + "/a (0.1s)\n"
	}
	f, err = readModels(ran)
	require.NoError(t, err)
	require.Equal(t, "2 searches, 2.0 million states. 1 worlds were broken on purpose, and in each of them it was found.", f.Says)
	for _, name := range models {
		_, err = readModels(strings.ReplaceAll(ran, name+"/a", name+"Not/a"))
		require.ErrorContains(t, err, name+" has not run")
	}
	_, err = readModels(strings.ReplaceAll(ran, "states", "stares"))
	require.ErrorContains(t, err, "no search")

	f, err = readMutants(file(`{"all":9,"mutants":[{"outcome":"killed"},{"outcome":"killed"},{"outcome":"explained"}]}`))
	require.NoError(t, err)
	require.Equal(t, "3 of 9 mistakes were tried: 2 were noticed, 1 change nothing that counts.", f.Says)
	_, err = readMutants(file(`{"mutants":[{"outcome":"killed"},{"name":"no/check","outcome":"survived"}]}`))
	require.ErrorContains(t, err, "1 were not: no/check")
	_, err = readMutants(file(`{}`))
	require.ErrorContains(t, err, "is empty")
}

// The report says of each profile what goes on in it.
func TestProfilesAreThoseOfTheSimulation(t *testing.T) {
	code, err := os.ReadFile(filepath.Join("..", "..", "test", "simulation", "simulation_test.go"))
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^func (TestSim\w+)`).FindAllStringSubmatch(string(code), -1)
	require.Len(t, profiles, len(found))
	for _, m := range found {
		require.Contains(t, profiles, m[1])
	}
}

func TestLastLinesHaveNoTables(t *testing.T) {
	require.Equal(t, "b\nc", lastLines("a\nb\n| **1** |\n| 2 |\nc\n", 2))
}

func TestFiguresOfARunAndOfOthersAreRead(t *testing.T) {
	file := func(v any) string {
		name := filepath.Join(t.TempDir(), "file")
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, text, 0o600))
		return name
	}
	v := judge.Verdict{Locks: judge.Locks{All: 9, Contended: 7, Plain: 4, AtExpiry: 2, LeastGap: 21e6}, Events: 12, Length: int64(time.Minute), Stalls: judge.Stalls{Count: 3, Time: 4e8, Lived: 1e11}, Rules: []judge.Result{
		{Rule: "overlap", Promise: "one holder", State: judge.Held, Facts: 5},
		{Rule: "keys left", Promise: "no key", State: judge.Broken, Facts: 3, Violations: 2},
	}}
	f, err := readChaos(file(v))
	require.NoError(t, err)
	require.Equal(t, "12 events in 1m0s: 1 of 2 rules were tried and held, 2 violations.", f.Says)
	require.Equal(t, [][]string{{"one holder", "5", "held"}, {"no key", "3", "broken 2 times"}}, f.Rows)

	require.Len(t, f.Notes, 3, "without its schedule")
	require.Equal(t, "9 locks. Others wanted 7 of them, too: 4 plain ones and 3 with fences. 2 followed at an expiry, the first 21ms after it.", f.Notes[0])
	require.Contains(t, f.Notes[1], "For 400ms of 1m40s in all, processes did not run although they were not frozen: in 3 stalls,")
	verdict := file(v)
	schedule := "seed 1: 5 nodes\n    1.00 s  kill of node 2 for 5s\n   12.50 s  flush for 10ms\n   13.00 s  kill of node 1 for 5s\n"
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(verdict), "schedule.txt"), []byte(schedule), 0o600))
	f, err = readChaos(verdict)
	require.NoError(t, err)
	require.Equal(t, "Set-up: seed 1: 5 nodes.", f.Notes[0])
	require.Contains(t, f.Notes[1], "3 faults in the schedule")

	v.Rules = append(v.Rules, judge.Result{Rule: "waiters", Promise: "order", State: judge.Nothing})
	f, err = readChaos(file(v))
	require.ErrorContains(t, err, "There was nothing to look at for: waiters.")
	require.Equal(t, err.Error(), f.Says, "which is also said where the command has failed")
	require.Equal(t, []string{"order", "0", "nothing to look at"}, f.Rows[2])

	peers := func(own map[string]any) (figures, error) {
		return readPeers(file(map[string]any{"sums": []map[string]any{
			{"library": "a", "version": "v1", "locks": 5, "overlaps": 1, "lostUpdates": 7, "keysLeftByFailures": 1, "keysLeftByReleases": 2, "callsHung": 1},
			own,
		}}))
	}
	f, err = peers(map[string]any{"library": "redlock", "version": "v2", "locks": 6, "callsOverOneSecond": 4})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"a v1", "5", "1", "7", "3", "0", "1"}, {"redlock v2", "6", "0", "0", "0", "4", "0"}}, f.Rows)
	_, err = peers(map[string]any{"library": "redlock", "overlaps": 1})
	require.ErrorContains(t, err, "redlock had 1 overlaps")
	_, err = peers(map[string]any{"library": "redlock", "lostUpdates": 2})
	require.ErrorContains(t, err, "2 lost updates")
	_, err = peers(map[string]any{"library": "b"})
	require.ErrorContains(t, err, "redlock is not among")
	_, err = readPeers(file(map[string]any{}))
	require.ErrorContains(t, err, "redlock is not among")
}
