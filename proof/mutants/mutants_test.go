package main

import (
	"errors"
	"os"
	"os/exec"
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
	ms, err := readAll("areas")
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

func TestOldTextsAreInTheCode(t *testing.T) {
	for _, m := range all(t) {
		if _, err := m.changed(root); err != nil {
			t.Error(err)
		}
	}
}

func TestMutantsNameTestsThatThereAre(t *testing.T) {
	declared := map[string][]string{}
	name := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	for _, m := range all(t) {
		for _, ts := range m.Tests {
			folder := filepath.Join(root, m.about["module"], ts.Package)
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

func TestDefectsAreWrittenFromTheMutants(t *testing.T) {
	ought, err := defectsPage(all(t))
	if err != nil {
		t.Fatal(err)
	}
	if is, _ := os.ReadFile(filepath.Join(root, "docs", "generated", "defects.md")); string(is) != ought {
		t.Error("docs/generated/defects.md is not what the mutants say: go run ./mutants -defects >../docs/generated/defects.md")
	}
}

func TestDefectThatLacksAKeyIsRefused(t *testing.T) {
	for _, about := range []string{"defect x", "kind Load\nfound x\npromise x", "defect x\nkind X\nfound x\npromise x"} {
		ms, err := parse("area", "# x\n## slug: x\ntest . TestX\n"+about+"\nin f\n-a\n+b\n")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := defectsPage(ms); err == nil {
			t.Errorf("%q: no error", about)
		}
	}
}

const head = "# What the area is for.\n\n## slug: what is wrong\ntest . TestX\nin "

func TestOldTextBecomesNewText(t *testing.T) {
	for name, test := range map[string]struct{ edits, text, want string }{
		"a line":                  {"f.md\n-b\n+c\n", "a\nb\n", "a\nc\n"},
		"taken away":              {"f.md\n-b\n", "a\nb\nc", "a\nc"},
		"an empty line":           {"f.md\n-a\n-\n+a\n", "a\n\nb", "a\nb"},
		"added":                   {"f.md\n-b\n+b\n+x\n", "a\nb\n", "a\nb\nx\n"},
		"in any order":            {"f.md\n-c\n+d\n-a\n+b\n", "a\nc\n", "b\nd\n"},
		"a new text like an old":  {"f.md\n-a\n+b\n-b\n+a\n", "a\nb\n", "b\na\n"},
		"further in":              {"f.go\n-if a {\n-\tb()\n-}\n+if a {\n+\tc()\n+}\n", "\t\tif a {\n\t\t\tb()\n\t\t}\n", "\t\tif a {\n\t\t\tc()\n\t\t}\n"},
		"further out":             {"f.lua\n-    a()\n+    b()\n+  c()\n", "  a()\n", "  b()\nc()\n"},
		"an empty line is left":   {"f.go\n-a()\n+b()\n+\n+c()\n", "\ta()\n", "\tb()\n\n\tc()\n"},
		"indented, not Go or Lua": {"f.yml\n-b: 1\n+b: 2\n", "a:\n  b: 1\n", ""},
		"other space":             {"f.go\n-a(b, c)\n+d\n", "a(b,c)\n", ""},
		"part of a line":          {"f.go\n-a\n+b\n", "aa\n", ""},
		"nowhere":                 {"f.md\n-b\n+c\n", "a\n", ""},
		"twice":                   {"f.md\n-b\n+c\n", "b\nb\n", ""},
		"twice, once indented":    {"f.go\n-b\n+c\n", "b\n\tb\n", ""},
		"mixed indentation":       {"f.go\n-\ta `\n+\ta `\n+   b\n+ c\n", "\ta `\n", "\ta `\n   b\n c\n"},
		"behind an empty line":    {"f.go\n-\n-\ta()\n+\n+\tb()\n", "\n\t\ta()\n", "\n\t\tb()\n"},
		"one twice":               {"f.md\n-a\n+b\n-a\n+c\n", "a\n", ""},
		"two begin at a line":     {"f.md\n-a\n+b\n-a\n-b\n+c\n", "a\nb\n", ""},
		"the end of a file":       {"f.md\n-b\n+c\n", "a\nb", "a\nc"},
		"two share a line":        {"f.md\n-a\n-b\n+x\n-b\n-c\n+y\n", "a\nb\nc\n", ""},
		"the same":                {"f.md\n-b\n+b\n", "b\n", ""},
	} {
		ms, err := parse("area", head+test.edits)
		if err != nil {
			t.Fatal(name, err)
		}
		folder := t.TempDir()
		file, _, _ := strings.Cut(test.edits, "\n")
		if err = write(folder, map[string]string{file: test.text}); err != nil {
			t.Fatal(err)
		}
		got, err := ms[0].changed(folder)
		if err == nil && got[file] != test.want || (err == nil) == (test.want == "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "area/slug") {
			t.Errorf("%s: the mutant is not named: %v", name, err)
		}
	}
}

func TestAreaThatIsMalformedIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":               "",
		"no line of the area":   strings.TrimPrefix(head, "# What the area is for.\n\n") + "f\n-a\n+b\n",
		"no mutant":             "# x\ntest . TestX\n",
		"no slug":               "# x\n## what is wrong\ntest . TestX\nin f\n-a\n+b\n",
		"a slug with a slash":   "# x\n## a/b: what is wrong\ntest . TestX\nin f\n-a\n+b\n",
		"the slug of another":   head + "f\n-a\n+b\n\n## slug: more\ntest . TestX\nin f\n-a\n+c\n",
		"unknown key":           "# x\n## slug: x\ncolour red\ntest . TestX\nin f\n-a\n+b\n",
		"a key without value":   "# x\n## slug: x\nenv\ntest . TestX\nin f\n-a\n+b\n",
		"no tests":              "# x\n## slug: x\nin f\n-a\n+b\n",
		"tests and excuses":     "# x\n## slug: x\nsurvives x\ntest . TestX\nin f\n-a\n+b\n",
		"no package":            "# x\n## slug: x\ntest TestX TestY\nin f\n-a\n+b\n",
		"no change":             head + "f\n",
		"no old text":           head + "f\n+a\n",
		"text in no file":       "# x\n## slug: x\ntest . TestX\n-a\n+b\n",
		"not yes":               "# x\n## slug: x\ntest . TestX\nsubset no\nin f\n-a\n+b\n",
		"no duration":           "# x\n## slug: x\ntest . TestX\ntimeout 30\nin f\n-a\n+b\n",
		"no variable":           "# x\n## slug: x\ntest . TestX\nenv SIM_SEEDS\nin f\n-a\n+b\n",
		"a key twice":           "# x\n## slug: x\ntest . TestX\nfound a\nfound b\nin f\n-a\n+b\n",
		"text below empty line": head + "f\n-a\n+b\n\n-c\n+d\n",
	} {
		if _, err := parse("area", text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A file that is not read would be mutants that nobody misses.
func TestFileThatIsNoAreaIsRefused(t *testing.T) {
	for _, name := range []string{"area.patch", "area/slug.mutants"} {
		folder := t.TempDir()
		if err := write(folder, map[string]string{name: head + "f\n-a\n+b\n"}); err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(folder); err == nil || !strings.Contains(err.Error(), "area") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One whose old text has gone is told before anything is run.
func TestMutantWithoutItsOldTextStopsTheRun(t *testing.T) {
	r := &runner{root: t.TempDir()}
	ms, err := parse("area", head+"x.go\n-return 1\n+return 2\n")
	if err = errors.Join(err, write(r.root, map[string]string{"x.go": "package x\n"})); err != nil {
		t.Fatal(err)
	}
	if _, err := r.choose(ms, "other", false); err == nil || !strings.Contains(err.Error(), "area/slug: x.go") {
		t.Error(err)
	}
}

func TestRunOfNoMutantFails(t *testing.T) {
	err := run(t.Context(), []string{"-run", "fixes/nosuch"}, t.Output())
	if err == nil || !strings.Contains(err.Error(), `"fixes/nosuch"`) {
		t.Error(err)
	}
	var b strings.Builder
	if err = run(t.Context(), []string{"-list", "-run", "^fixes/"}, &b); err != nil || !strings.HasPrefix(b.String(), "fixes/") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// x is a module of one function, whose test fails if that returns more than 1.
func x(t *testing.T) *runner {
	t.Helper()
	r := &runner{root: t.TempDir(), scratch: t.TempDir(), timeout: time.Minute}
	if err := write(r.root, map[string]string{
		"go.mod": "module x\n\ngo 1.25\n",
		"x/x.go": "package x\n\nfunc one() int {\n\treturn 1\n}\n",
		"x/x_test.go": "package x\n\nimport \"testing\"\n\n" +
			"func TestX(t *testing.T) {\n\tif one() > 1 {\n\t\tt.Error(\"more\")\n\t}\n}\n",
	}); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMutantsAreKilledOrNot(t *testing.T) {
	r := x(t)
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
		ms, err := parse("a", "# x\n## x: y\ntest ./x TestX\ntimeout 3s\nin x/x.go\n-return 1\n+"+becomes+"\n")
		if err != nil {
			t.Fatal(err)
		}
		got := r.try(t.Context(), ms[0])
		if becomes == "select {}" {
			delete(ms[0].about, "timeout")
			r.timeout = 3 * time.Second
			if hung := r.try(t.Context(), ms[0]); hung.Outcome != broken {
				t.Errorf("a test that was too slow: %s: %s", hung.Outcome, hung.Failure)
			}
			r.timeout = time.Minute
		}
		if got.Outcome != want.outcome || want.failure != "" && !strings.HasPrefix(got.Failure, want.failure) {
			t.Errorf("%s: %s: %s", becomes, got.Outcome, got.Failure)
		}
	}
}

func TestMutantIsTriedInACopyOrOnlyCompiled(t *testing.T) {
	r := x(t)
	if out, err := exec.Command("git", "init", "-q", r.root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for about, want := range map[string]outcome{"test ./x TestX\ncopied yes": killed, "survives nobody looks": explained} {
		ms, err := parse("a", "# x\n## x: y\n"+about+"\nin x/x.go\n-return 1\n+return 2\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := r.try(t.Context(), ms[0]); got.Outcome != want {
			t.Errorf("%s: %s: %s", about, got.Outcome, got.Failure)
		}
	}
}

// A test that runs beside the one that panics or hangs may be the first in the list.
func TestWhatAProcessSaidLastIsFoundWhicheverTestRan(t *testing.T) {
	v, _ := read([]byte(`{"Action":"run","Test":"TestA"}
{"Action":"run","Test":"TestB"}
{"Action":"output","Test":"TestB","Output":"panic: test timed out after 1m0s\n"}
{"Action":"fail"}
`))
	if v.line != "panic: test timed out after 1m0s" || len(v.failed) != 2 {
		t.Error(v)
	}
}
