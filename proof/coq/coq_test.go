// Package coq has only tests: of the proof that is in this folder.
package coq

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// files are all parts of the proof, each after those that it uses.
var files = []string{
	"sets.v", "quorum.v",
	"fence_rules.v", "fences.v", "fence_runs.v", "fence_witness.v",
	"lease_rules.v", "lease.v", "lease_runs.v", "lease_witness.v",
	"axioms.v",
}

// A part is rules, how runs of them are written down, and what is proved of them. With a control, these are compiled as
// one text: the broken rules, the runs, the opposite, and then the proof.
type part struct {
	rules, runs, proof, controls string
	states                       string // by an opposite; breaks is defined in runs
}

var parts = []part{
	{"sets.v", "", "quorum.v", "quorum_controls.txt", "_ /\\ ~ meet _ _"},
	{"fence_rules.v", "fence_runs.v", "fences.v", "fence_controls.txt", "breaks _ _"},
	{"lease_rules.v", "lease_runs.v", "lease.v", "lease_controls.txt", "breaks _"},
}

// axioms are those of the real numbers in Coq's library.
var axioms = []string{
	"ClassicalDedekindReals.sig_forall_dec",
	"ClassicalDedekindReals.sig_not_dec",
	"FunctionalExtensionality.functional_extensionality_dep",
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(text)
}

// needsCoq skips a test where there is no Coq.
func needsCoq(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("coqc"); err != nil {
		require.NotEqual(t, "true", os.Getenv("CI"), "scripts/tools.sh installs it")
		t.Skipf("%v: apt-get install --no-install-recommends coq", err)
	}
}

// compile compiles a file of folder, which has what it uses, and returns what that prints.
func compile(t *testing.T, folder, file string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "coqc", "-q", "-w", "none", "-R", ".", "", file)
	cmd.Dir = folder
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(failed.String()))
	}
	return string(out), err
}

// compiled returns a folder with the proof, compiled as far as a file that names last, and what the last file prints.
func compiled(t *testing.T, last string) (folder, printed string) {
	t.Helper()
	folder = t.TempDir()
	for _, file := range files[:slices.Index(files, last)+1] {
		require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte(read(t, file)), 0o600))
		var err error
		printed, err = compile(t, folder, file)
		require.NoError(t, err)
	}
	return folder, printed
}

// A group of main theorems has one list of what they rest on: to print that takes Coq a second.
type group struct {
	name     string
	theorems []string
}

func mainTheorems(t *testing.T) (groups []group) {
	t.Helper()
	text := read(t, "axioms.v")
	for _, m := range regexp.MustCompile(`(?m)^Definition (\w+) := \(([\w\s,]+)\)\.$`).FindAllStringSubmatch(text, -1) {
		names := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
		groups = append(groups, group{name: m[1], theorems: names})
	}
	for _, g := range groups {
		require.Contains(t, text, "\nPrint Assumptions "+g.name+".\n")
	}
	return groups
}

func TestProof(t *testing.T) {
	needsCoq(t)
	_, printed := compiled(t, "axioms.v")
	answer := regexp.MustCompile(`(?m)^(?:Closed under the global context|Axioms:)$`)
	starts := answer.FindAllStringIndex(printed, -1)
	groups := mainTheorems(t)
	require.Len(t, starts, len(groups), "each group has its assumptions: %s", printed)
	starts = append(starts, []int{len(printed)})
	for i, g := range groups {
		uses := "no axioms"
		if said := printed[starts[i][0]:starts[i+1][0]]; strings.HasPrefix(said, "Axioms:") {
			uses = strings.Join(axiomsIn(t, g.name, said), ", ")
		}
		for _, theorem := range g.theorems {
			_, _ = fmt.Fprintf(t.Output(), "proved: %s (%s)\n", theorem, uses)
		}
	}
}

// axiomsIn returns the axioms that Coq has listed, which must be those of the real numbers.
func axiomsIn(t *testing.T, of, said string) (names []string) {
	t.Helper()
	axiom := regexp.MustCompile(`(?m)^([A-Za-z][\w.]*)(?:$| :)`)
	for _, m := range axiom.FindAllStringSubmatch(strings.TrimPrefix(said, "Axioms:"), -1) {
		names = append(names, m[1])
	}
	require.NotEmpty(t, names, "%s rest on something that this test cannot read: %s", of, said)
	require.Subset(t, axioms, names, "%s rest on what is no axiom of the real numbers", of)
	return names
}

func TestNothingIsLeftOut(t *testing.T) {
	comment := regexp.MustCompile(`(?s)\(\*.*?\*\)`)
	shortcut := regexp.MustCompile(`\b(Admitted|admit|give_up|Abort|Axioms?|Conjecture|Parameters?|Unset|bypass_check)\b`)
	all, _ := filepath.Glob("*.v")
	controls, _ := filepath.Glob("*_controls.txt")
	require.ElementsMatch(t, files, all, "each is compiled")
	for _, file := range slices.Concat(all, controls) {
		require.Empty(t, shortcut.FindString(comment.ReplaceAllString(read(t, file), "")), file)
	}
}

// A control breaks a rule or an assumption in a copy: its old lines become the new ones. Then two things must be so. Coq
// accepts the opposite, which shows a run in which all that is assumed still holds, and the claim does not. And it refuses
// the proof, within that of the theorem or lemma that falls. So the rule is needed, and the proof uses it: without the
// opposite, a control would only say that this proof needs the rule.
type control struct {
	part
	name, what, falls string
	old, new          []string
	opposite          string
}

// readControls reads those of a part: "## name: what", old lines with -, new ones with +, "falls" with the name of what
// falls, and "opposite" with what follows.
func readControls(t *testing.T, p part) (all []*control) {
	t.Helper()
	_, text, _ := strings.Cut(read(t, p.controls), "\n## ")
	for one := range strings.SplitSeq(text, "\n## ") {
		title, rest, _ := strings.Cut(one, "\n")
		edit, opposite, _ := strings.Cut(rest, "\nopposite\n")
		c := &control{part: p, opposite: opposite}
		c.name, c.what, _ = strings.Cut(title, ": ")
		for line := range strings.SplitSeq(edit, "\n") {
			switch theorem, falls := strings.CutPrefix(line, "falls "); {
			case falls:
				c.falls = theorem
			case strings.HasPrefix(line, "-"):
				c.old = append(c.old, line[1:])
			case strings.HasPrefix(line, "+"):
				c.new = append(c.new, line[1:])
			default:
				t.Fatalf("%s, %s: %q", p.controls, c.name, line)
			}
		}
		all = append(all, c)
	}
	return all
}

// broken is the text of the file that the control changes, as it is afterwards.
func (c *control) broken(t *testing.T) string {
	t.Helper()
	text, old := "\n"+read(t, c.rules), "\n"+strings.Join(c.old, "\n")+"\n"
	require.NotEqual(t, c.old, c.new)
	require.Equal(t, 1, strings.Count(text, old), "the old text is there once")
	lines := append([]string{""}, c.new...)
	return strings.Replace(text, old, strings.Join(lines, "\n")+"\n", 1)[1:]
}

// importing takes out of a text that it uses the files of the part, which become one text with it.
func (p part) importing(text string) string {
	line := regexp.MustCompile(`(?m)^Require Import [\w ]+\.$`)
	return line.ReplaceAllStringFunc(text, func(line string) string {
		names := strings.Fields(strings.TrimSuffix(line, "."))[2:]
		names = slices.DeleteFunc(names, func(name string) bool {
			return slices.Contains([]string{p.rules, p.runs, p.proof}, name+".v")
		})
		if len(names) == 0 {
			return ""
		}
		return "Require Import " + strings.Join(names, " ") + "."
	})
}

// proofOf finds the lines of a text between the statement of a theorem and its Qed, counted from 0.
func proofOf(t *testing.T, text, theorem string) (from, to int) {
	t.Helper()
	at := regexp.MustCompile(`(?ms)^(?:Theorem|Lemma) ` + theorem + ` :.*?^(Proof\.)$.*?^(Qed\.)$`).FindStringSubmatchIndex(text)
	require.NotNil(t, at, "there is no %s", theorem)
	return strings.Count(text[:at[2]], "\n"), strings.Count(text[:at[4]], "\n")
}

func TestControls(t *testing.T) {
	needsCoq(t)
	folder, _ := compiled(t, "quorum.v")
	two := make(chan struct{}, 2) // at a time
	var all []*control
	for _, p := range parts {
		all = append(all, readControls(t, p)...)
	}
	for i, c := range all {
		if testing.Short() && i%2 == 1 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			two <- struct{}{}
			defer func() { <-two }()
			refused(t, c, folder, fmt.Sprintf("control_%d.v", i))
			_, _ = fmt.Fprintf(t.Output(), "broken, %s: %s. The opposite is proved, and %s falls\n", c.name, c.what, c.falls)
		})
	}
}

// refused checks that Coq accepts the opposite, and that the proof stops where the control says.
func refused(t *testing.T, c *control, folder, file string) {
	t.Helper()
	text := c.broken(t)
	if c.runs != "" {
		text += c.importing(read(t, c.runs))
	}
	text += "\nModule Opposite.\n" + c.opposite + "\nCheck (opposite : " + c.states + ").\nEnd Opposite.\n"
	proof := c.importing(read(t, c.proof))
	from, to := proofOf(t, proof, c.falls)
	require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte(text+proof), 0o600))
	_, err := compile(t, folder, file)
	require.Error(t, err, "the proof goes through")
	at := regexp.MustCompile(`(?s)File "[^"]*", line (\d+), characters \d+-\d+:\s+Error`).FindStringSubmatch(err.Error())
	require.NotNil(t, at, "%v", err)
	line, _ := strconv.Atoi(at[1])
	line -= 1 + strings.Count(text, "\n")
	require.GreaterOrEqual(t, line, 0, "Coq does not come as far as the proof: %v", err)
	require.True(t, line > from && line <= to, "it is not the proof of %s that falls: %v", c.falls, err)
}

// The head of each file of rules says which function of the library does what.
func TestRulesNameWhatDoesThemInTheLibrary(t *testing.T) {
	name := regexp.MustCompile(`([\w./]+\.(?:go|lua))(?:: (\w+))?`)
	for _, file := range []string{"sets.v", "fence_rules.v", "lease_rules.v"} {
		head, _, _ := strings.Cut(read(t, file), "*)")
		named := name.FindAllStringSubmatch(head, -1)
		require.NotEmpty(t, named, file)
		for _, m := range named {
			if text := read(t, root, m[1]); strings.HasSuffix(m[1], ".go") {
				require.Regexp(t, `(?m)^func (\(.*\) )?`+m[2]+`\(`, text, "%s: %s", file, m[1])
			}
		}
	}
}

func TestSafetyNamesTheTheorems(t *testing.T) {
	var named, all []string
	for _, m := range regexp.MustCompile(`\[\*\*(\w+)\*\*\]\(\.\./proof/coq/(\w+\.v)\)`).FindAllStringSubmatch(read(t, root, "docs", "safety.md"), -1) {
		named = append(named, m[1])
		proofOf(t, read(t, m[2]), m[1])
	}
	for _, g := range mainTheorems(t) {
		all = append(all, g.theorems...)
	}
	require.Subset(t, named, all, "docs/safety.md names them")
}
