package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func said(text string, err error) func(string) (string, error) {
	return func(string) (string, error) { return text, err }
}

// A step passes if its command does and leaves figures.
func TestStepFailsWithItsCommandAndWithoutFigures(t *testing.T) {
	good := step{Name: "good", Args: []string{"version"}, read: said("12 looked at.", nil)}
	d := good.run(t.Context())
	require.Equal(t, passed, d.Result)
	require.Equal(t, "12 looked at.", d.Says)
	require.Contains(t, d.Last[0], "go version")
	require.Equal(t, "(cd proof && go version)", d.Command)

	command := step{Name: "command", Args: []string{"nonsense"}, read: said("12 looked at.", nil)}
	d = command.run(t.Context())
	require.Equal(t, failed, d.Result)
	require.Contains(t, d.Says, "exit status")
	require.Contains(t, d.Last[0], "nonsense")

	silent := step{Name: "silent", Args: []string{"version"}, read: said("", errors.New("no figures"))}
	d = silent.run(t.Context())
	require.Equal(t, failed, d.Result)
	require.Equal(t, "no figures", d.Says)
}

// One step that fails is enough, and what was left out is not counted as passed.
func TestReportSaysWhatCameOut(t *testing.T) {
	for _, c := range []struct {
		results []string
		whole   bool
		ok      bool
		says    string
	}{
		{[]string{passed, passed}, true, true, "All 2 steps passed: no promise was broken."},
		{[]string{passed}, false, true, "1 of the steps were run, and passed."},
		{[]string{passed, failed}, true, false, "1 of 2 steps failed: <title 1>."},
	} {
		r := begin(t.Context(), 7)
		for i, result := range c.results {
			r.Steps = append(r.Steps, done{Title: "<title " + string(rune('0'+i)) + ">", Result: result, Last: []string{"<b>"}})
		}
		r.end(c.whole)
		require.Equal(t, c.ok, r.OK)
		require.Equal(t, c.says, r.Says)

		folder := t.TempDir()
		require.NoError(t, r.write(folder))
		html, err := os.ReadFile(filepath.Join(folder, "report.html"))
		require.NoError(t, err)
		require.Contains(t, string(html), "&lt;title 0&gt;")
		require.NotContains(t, string(html), "<b>")
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
	says, err := readSimulation(file("TestSimA    30 seeds in   12.5 s:   1.5 virtual hours,  7.2 a minute\n" +
		"TestSimB    12 seeds in    1.5 s:  22.5 virtual hours,  900 a minute\n"))
	require.NoError(t, err)
	require.Equal(t, "42 seeds in 2 profiles, 24 hours of fake time: no promise was broken.", says)
	_, err = readSimulation(file("nothing"))
	require.ErrorContains(t, err, "no seed")

	says, err = readModels("x: 1500000 states in 3.0 s\ny: 500000 states in 1.0 s\n    --- PASS: TestFenceModelFindsWhatIsWrong/a (0.1s)\n")
	require.NoError(t, err)
	require.Equal(t, "2 searches, 2.0 million states: nothing wrong. In each of 1 models that were broken on purpose, it was found.", says)
	_, err = readModels("ok")
	require.Error(t, err)

	says, err = readMutants(file(`{"mutants":[{"outcome":"killed"},{"outcome":"killed"},{"outcome":"explained"}]}`))
	require.NoError(t, err)
	require.Equal(t, "3 mistakes: 2 were noticed, 1 change nothing that counts.", says)
	_, err = readMutants(file(`{"mutants":[{"outcome":"killed"},{"outcome":"survived"}]}`))
	require.ErrorContains(t, err, "1 were not")
	_, err = readMutants(file(`{}`))
	require.ErrorContains(t, err, "is empty")
}

func TestStepsCanBeChosen(t *testing.T) {
	all := steps(sizes{}, 1, "")
	chosen, err := choose(all, "models,chaos")
	require.NoError(t, err)
	require.Equal(t, []string{"models", "chaos"}, []string{chosen[0].Name, chosen[1].Name})
	_, err = choose(all, "models,chao")
	require.ErrorContains(t, err, `"chao"`)
}
