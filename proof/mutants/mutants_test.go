package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

func all(t *testing.T) []*mutant {
	t.Helper()
	ms, err := readAll("patches")
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

func TestPatchesApplyToTheCode(t *testing.T) {
	for _, m := range all(t) {
		dir := t.TempDir()
		err := copyFiles(root, dir, m.files)
		if err == nil {
			err = m.apply(dir)
		}
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		for _, path := range m.files {
			is, _ := os.ReadFile(filepath.Join(dir, path))
			if was, err := os.ReadFile(filepath.Join(root, path)); err == nil && string(was) == string(is) {
				t.Errorf("%s: %s is not changed", m.Name, path)
			}
		}
	}
}

func TestPatchesNameTestsThatThereAre(t *testing.T) {
	declared := map[string][]string{}
	name := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, m := range all(t) {
		for _, ts := range m.Tests {
			folder := filepath.Join(root, m.Module, ts.Package)
			if declared[folder] == nil {
				files, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
				for _, file := range files {
					text, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					for _, match := range name.FindAllStringSubmatch(string(text), -1) {
						declared[folder] = append(declared[folder], match[1])
					}
				}
			}
			for _, test := range ts.Names {
				if !slices.Contains(declared[folder], test) {
					t.Errorf("%s: there is no %s in %s", m.Name, test, folder)
				}
			}
		}
	}
}

func TestPatchesAreToldApart(t *testing.T) {
	seen := map[string]string{}
	for _, m := range all(t) {
		if other := seen[m.Section+m.Group+m.What]; other != "" {
			t.Errorf("%s and %s say the same", other, m.Name)
		}
		seen[m.Section+m.Group+m.What] = m.Name
	}
}

func TestTheDocumentsAreWrittenFromThePatches(t *testing.T) {
	folder, copied := filepath.Join(root, "docs", "generated"), t.TempDir()
	pages := []string{"mutants.md", "defects.md"}
	for _, name := range pages {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(copied, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeTables(copied, all(t)); err != nil {
		t.Fatal(err)
	}
	for _, name := range pages {
		is, _ := os.ReadFile(filepath.Join(folder, name))
		if ought, _ := os.ReadFile(filepath.Join(copied, name)); string(is) != string(ought) {
			t.Errorf("docs/generated/%s is not what the patches say: go run ./mutants -write ../docs/generated", name)
		}
	}
}

const header = "Mutant: x\nSection: y\nTest: . TestX\n\n--- a/f\n+++ b/f\n"

func TestPatchFindsItsPlace(t *testing.T) {
	for name, test := range map[string]struct{ diff, text, want string }{
		"where it says":      {"@@ -2 +2 @@\n-b\n+c\n", "b\nb\nb\n", "b\nc\nb\n"},
		"elsewhere":          {"@@ -1 +1 @@\n-b\n+c\n", "a\nb\na\n", "a\nc\na\n"},
		"with context":       {"@@ -1,2 +1,3 @@\n a\n+x\n b\n", "0\na\nb\n", "0\na\nx\nb\n"},
		"one behind another": {"@@ -1 +0,0 @@\n-a\n@@ -3 +2 @@\n-c\n+d\n", "a\nb\nc\n", "b\nd\n"},
		"nowhere":            {"@@ -2 +2 @@\n-b\n+c\n", "a\n", ""},
	} {
		m, err := parse(header + test.diff)
		if err != nil {
			t.Fatal(name, err)
		}
		file := filepath.Join(t.TempDir(), "f")
		if err = os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		err = m.apply(filepath.Dir(file))
		if got, _ := os.ReadFile(file); err == nil && string(got) != test.want || (err == nil) == (test.want == "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestPatchThatIsMalformedIsRefused(t *testing.T) {
	diff := "@@ -1 +1 @@\n-a\n+b\n"
	for name, text := range map[string]string{
		"no diff":           header,
		"no empty line":     "Mutant: x\nSection: y\nTest: . TestX\n--- a/f\n+++ b/f\n" + diff,
		"unknown key":       "Colour: red\n" + header + diff,
		"no tests":          "Mutant: x\nSection: y\n\n--- a/f\n+++ b/f\n" + diff,
		"tests and excuses": "Survives: x\n" + header + diff,
		"no package":        "Test: TestX TestY\n" + header + diff,
	} {
		if _, err := parse(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A patch that is not read would be one that nobody misses.
func TestPatchInTheWrongPlaceIsRefused(t *testing.T) {
	for _, name := range []string{"slug.patch", "area/slug.diff", "area/deep/slug.patch"} {
		folder := t.TempDir()
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(header+"@@ -1 +1 @@\n-a\n+b\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(folder); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunOfNoMutantFails(t *testing.T) {
	err := run(t.Context(), []string{"-run", "fixes/nosuch"}, t.Output())
	if err == nil || !strings.Contains(err.Error(), `"fixes/nosuch"`) {
		t.Error(err)
	}
}

// The run itself is tried on a module of one function.
func TestMutantsAreKilledOrNot(t *testing.T) {
	r := &runner{root: t.TempDir(), scratch: t.TempDir(), timeout: time.Minute}
	for name, text := range map[string]string{
		"go.mod": "module x\n\ngo 1.25\n",
		"x.go":   "package x\n\nfunc one() int {\n\treturn 1\n}\n",
		"x_test.go": "package x\n\nimport \"testing\"\n\n" +
			"func TestX(t *testing.T) {\n\tif one() > 1 {\n\t\tt.Error(\"more\")\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(r.root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for becomes, want := range map[string]struct {
		outcome
		failure string
	}{
		"return 2":     {killed, "x_test.go:7: more"},
		"panic(\"x\")": {killed, "panic: x"},
		"select {}":    {killed, "panic: test timed out"},
		"return 0":     {survived, ""},
		"return \"1\"": {broken, ""},
	} {
		m, err := parse("Mutant: x\nSection: y\nTest: . TestX\nTimeout: 3s\n\n--- a/x.go\n+++ b/x.go\n@@ -4 +4 @@\n-\treturn 1\n+\t" + becomes + "\n")
		if err != nil {
			t.Fatal(err)
		}
		m.Name = "a/x"
		got := r.try(t.Context(), m)
		if m.Timeout = ""; becomes == "select {}" {
			r.timeout = 3 * time.Second
			if hung := r.try(t.Context(), m); hung.Outcome != broken {
				t.Errorf("a test that was too slow: %s: %s", hung.Outcome, hung.Failure)
			}
			r.timeout = time.Minute
		}
		if got.Outcome != want.outcome || want.failure != "" && !strings.HasPrefix(got.Failure, want.failure) {
			t.Errorf("%s: %s: %s", becomes, got.Outcome, got.Failure)
		}
	}
}
