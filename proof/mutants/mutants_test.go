package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const root = "../.."

func all(t *testing.T) []*mutant {
	t.Helper()
	ms, err := readAll("areas")
	require.NoError(t, err)
	return ms
}

func TestOldTextsAreInTheCode(t *testing.T) {
	_, err := (&runner{root: root}).choose(all(t), "", false)
	require.NoError(t, err)
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
					require.NoError(t, err)
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
	require.NoError(t, err)
	if is, _ := os.ReadFile(filepath.Join(root, "docs", "generated", "defects.md")); string(is) != ought {
		t.Error("docs/generated/defects.md is not what the mutants say: go run ./mutants -defects >../docs/generated/defects.md")
	}
}

const head = "# What the area is for.\n\n## slug: what is wrong\ntest . TestX\nin "

func TestOldTextBecomesNewText(t *testing.T) {
	for name, test := range map[string]struct{ edits, text, want string }{
		"added":             {"f.md\n-b\n+b\n+x\n", "a\nb\n", "a\nb\nx\n"},
		"in any order":      {"f.md\n-c\n+d\n-a\n+b\n", "a\nc\n", "b\nd\n"},
		"further in":        {"f.go\n-if a {\n-\tb()\n-}\n+if a {\n+\tc()\n+}\n", "\t\tif a {\n\t\t\tb()\n\t\t}\n", "\t\tif a {\n\t\t\tc()\n\t\t}\n"},
		"further out":       {"f.lua\n-    a()\n+    b()\n+  c()\n", "  a()\n", "  b()\nc()\n"},
		"part of a line":    {"f.go\n-a\n+b\n", "aa\n", ""},
		"nowhere":           {"f.md\n-b\n+c\n", "a\n", ""},
		"twice":             {"f.md\n-b\n+c\n", "b\nb\n", ""},
		"mixed indentation": {"f.go\n-\ta `\n+\ta `\n+   b\n+ c\n", "\ta `\n", "\ta `\n   b\n c\n"},
		"one twice":         {"f.md\n-a\n+b\n-a\n+c\n", "a\n", ""},
		"two share a line":  {"f.md\n-a\n-b\n+x\n-b\n-c\n+y\n", "a\nb\nc\n", ""},
		"the same":          {"f.md\n-b\n+b\n", "b\n", ""},
	} {
		ms, err := parse("area", head+test.edits)
		require.NoError(t, err, name)
		folder := t.TempDir()
		file, _, _ := strings.Cut(test.edits, "\n")
		require.NoError(t, write(folder, map[string]string{file: test.text}))
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
		"nothing":             "",
		"no mutant":           "# x\ntest . TestX\n",
		"no slug":             "# x\n## what is wrong\ntest . TestX\nin f\n-a\n+b\n",
		"the slug of another": head + "f\n-a\n+b\n\n## slug: more\ntest . TestX\nin f\n-a\n+c\n",
		"unknown key":         "# x\n## slug: x\ncolour red\ntest . TestX\nin f\n-a\n+b\n",
		"no tests":            "# x\n## slug: x\nin f\n-a\n+b\n",
		"no change":           head + "f\n",
		"no old text":         head + "f\n+a\n",
		"a key twice":         "# x\n## slug: x\ntest . TestX\nfound a\nfound b\nin f\n-a\n+b\n",
	} {
		_, err := parse("area", text)
		require.Error(t, err, name)
	}
}

// x is a module of one function, whose test fails if that returns more than 1.
func x(t *testing.T) *runner {
	t.Helper()
	r := &runner{root: t.TempDir(), scratch: t.TempDir(), timeout: time.Minute}
	require.NoError(t, write(r.root, map[string]string{
		"go.mod": "module x\n\ngo 1.25\n",
		"x/x.go": "package x\n\nfunc one() int {\n\treturn 1\n}\n",
		"x/x_test.go": "package x\n\nimport \"testing\"\n\n" +
			"func TestX(t *testing.T) {\n\tif one() > 1 {\n\t\tt.Error(\"more\")\n\t}\n}\n",
	}))
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
		require.NoError(t, err)
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
