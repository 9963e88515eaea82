package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	passes = `func TestFine(t *testing.T) { t.Log("of no interest") }
func TestLeftOut(t *testing.T) { t.Skip("not here") }`
	fails  = `func TestBad(t *testing.T) { t.Run("inner", func(t *testing.T) { t.Error("what is wrong") }) }`
	panics = `func TestPanic(t *testing.T) { t.Log("said before"); go func() { panic("out of nowhere") }(); select {} }`
	broken = `func TestNone(t *testing.T) { undefined() }`
)

func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		tests  string
		status int
		shows  []string
		hides  []string
	}{
		"all pass":           {passes, 0, []string{"ok  \tt", "2 tests in 1 packages, 0 failed, 1 skipped", "s  TestFine t\n"}, []string{"of no interest"}},
		"one fails":          {passes + "\n" + fails, 1, []string{"--- FAIL: TestBad/inner", "what is wrong", "FAIL\tt", "3 tests in 1 packages, 1 failed", "FAILED: TestBad t\n"}, []string{"of no interest"}},
		"one panics":         {passes + "\n" + panics, 1, []string{"said before", "panic: out of nowhere", "main_test.go:6", "FAIL\tt", "FAILED: t\n"}, []string{"of no interest"}},
		"it doesn't compile": {broken, 1, []string{"undefined: undefined", "FAIL\tt [build failed]", "0 tests"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "go.mod", "module t\n")
			write(t, "main_test.go", "package t\n\nimport \"testing\"\n"+c.tests+"\n")
			var out bytes.Buffer
			assert.Equal(t, c.status, run([]string{"-vet=off", raceFlag, "./..."}, &out))
			for _, s := range c.shows {
				assert.Contains(t, out.String(), s)
			}
			for _, s := range c.hides {
				assert.NotContains(t, out.String(), s)
			}
			assert.Equal(t, 1, strings.Count(out.String(), "ran: go test -vet=off "+raceFlag+" ./...\n"))
		})
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Clean(name), []byte(text), 0o600))
}
