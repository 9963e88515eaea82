package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A result is what became of one mutant.
type result struct {
	Name    string   `json:"name"`
	What    string   `json:"mutant"`
	Outcome outcome  `json:"outcome"`
	Tests   []string `json:"tests,omitempty"`   // that were to notice it
	Failed  []string `json:"failed,omitempty"`  // those of them that have
	Failure string   `json:"failure,omitempty"` // its first line; or why the mutant could not be tried
	Seconds float64  `json:"seconds"`

	killers *suite // Failed, and how to run them
}

type outcome string

const (
	killed    outcome = "killed"    // a test that it names has failed
	survived  outcome = "survived"  // none has
	explained outcome = "explained" // it says why no test notices it, and compiles
	broken    outcome = "broken"    // it does not apply, or does not compile
)

// A runner tries mutants on the tree at root, and leaves that as it is: the go command gets the changed files as an
// overlay, so nothing is compiled again but what depends on them.
type runner struct {
	root, scratch string
	timeout       time.Duration // of the tests of one package
}

// try runs the tests that must notice the mutant, package by package, until one fails.
func (r *runner) try(ctx context.Context, m *mutant) result {
	began := time.Now()
	res := result{Name: m.Name, What: m.What}
	for _, t := range m.Tests {
		res.Tests = append(res.Tests, t.shown(m.Module)...)
	}
	res.Outcome, res.Failure = r.tryIn(ctx, m, &res)
	res.Seconds = time.Since(began).Round(time.Millisecond).Seconds()
	return res
}

func (r *runner) tryIn(ctx context.Context, m *mutant, res *result) (came outcome, failure string) {
	dir := filepath.Join(r.scratch, strings.ReplaceAll(m.Name, "/", "-"))
	defer func() { _ = os.RemoveAll(dir) }()
	root, args, err := r.prepare(m, dir)
	if err != nil {
		return broken, err.Error()
	}
	module := filepath.Join(root, m.Module)
	if m.Survives != "" {
		cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, args...), "./...")...)
		cmd.Dir = module
		if out, err := cmd.CombinedOutput(); err != nil {
			return broken, strings.TrimSpace(string(out))
		}
		return explained, m.Survives
	}
	if m.Timeout != "" {
		args = append(args, "-timeout="+m.Timeout)
	}
	for _, t := range m.Tests {
		got := r.test(ctx, module, t, m.Env, args)
		switch {
		case strings.HasPrefix(got.line, "panic: test timed out") && m.Timeout == "":
			return broken, got.line + ": a mutant that makes its tests hang has to say so"
		case got.broken != "":
			return broken, got.broken
		case len(got.failed) > 0:
			res.Failed, res.killers = got.failed, &suite{m.Module, m.Env, tests{t.Package, got.failed}}
			return killed, got.line
		}
	}
	return survived, ""
}

// prepare makes the change in copies below dir: of the files that it is about, or of the whole tree if the tests read them
// themselves. It returns the root in which to run the go command, and the arguments that it takes.
func (r *runner) prepare(m *mutant, dir string) (root string, args []string, err error) {
	files := m.files
	if m.Copied == "yes" {
		if files, err = allFiles(r.root); err != nil {
			return "", nil, err
		}
	}
	if err = copyFiles(r.root, dir, files); err == nil {
		err = m.apply(dir)
	}
	if err != nil || m.Copied == "yes" {
		return dir, nil, err
	}
	overlay := map[string]map[string]string{"Replace": {}}
	for _, path := range files {
		overlay["Replace"][filepath.Join(r.root, path)] = filepath.Join(dir, path)
	}
	file := filepath.Join(dir, "overlay.json")
	list, _ := json.Marshal(overlay)
	return r.root, []string{"-overlay=" + file}, os.WriteFile(file, list, 0o600)
}

// allFiles are those of a tree that git knows, and those that it would not ignore.
func allFiles(root string) ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	return strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00"), nil
}

func copyFiles(from, to string, paths []string) error {
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(from, path))
		if errors.Is(err, fs.ErrNotExist) {
			continue // Deleted, and not committed yet.
		}
		copied := filepath.Join(to, path)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(copied), 0o700), os.WriteFile(copied, text, 0o700)) // Scripts are among them.
		if err != nil {
			return err
		}
	}
	return nil
}

// A verdict is what a run of tests came to.
type verdict struct {
	failed []string // the tests that have failed, without subtests
	line   string   // the first one of the failure
	passed int
	broken string // why there was no run
}

// test runs some tests of one package. A test that hangs until the timeout has failed; on a busy machine, that alone
// says nothing of the code.
func (r *runner) test(ctx context.Context, module string, t tests, env, args []string) verdict {
	run := []string{
		"test", "-json", "-short", "-count=1", "-vet=off", "-ldflags=-s -w", "-timeout=" + r.timeout.String(),
		"-run=^(" + strings.Join(t.Names, "|") + ")$",
	}
	cmd := exec.CommandContext(ctx, "go", append(append(run, args...), t.Package)...)
	cmd.Dir, cmd.Env = module, append(os.Environ(), env...)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	v, why := read(out)
	if len(v.failed) > 0 {
		return v
	}
	if exit := (*exec.ExitError)(nil); err != nil {
		if errors.As(err, &exit) {
			why += string(exit.Stderr)
		}
		v.broken = strings.TrimSpace(why + "\n" + err.Error())
	} else if v.passed < len(t.Names) {
		v.broken = fmt.Sprintf("%s: %d of %d tests were run: %s", t.Package, v.passed, len(t.Names), strings.Join(t.Names, " "))
	}
	return v
}

// read reads what go test -json has written: also what it says of no test.
func read(out []byte) (v verdict, rest string) {
	texts, running, crashed := map[string]string{}, []string(nil), false
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		test, sub, _ := strings.Cut(e.Test, "/")
		texts[test] += e.Output
		switch {
		case e.Action == "fail" && test == "":
			crashed = true // Unless a test has failed. A test that hangs or ends the process has no end of its own.
		case e.Action == "fail" && !slices.Contains(v.failed, test):
			v.failed = append(v.failed, test)
		case test == "" || sub != "":
		case e.Action == "run" || e.Action == "cont":
			running = append(running, test)
		case e.Action == "pause" || e.Action == "pass" || e.Action == "skip":
			running = slices.DeleteFunc(running, func(name string) bool { return name == test })
			if e.Action != "pause" {
				v.passed++
			}
		}
	}
	if len(v.failed) == 0 && crashed {
		v.failed = running
	}
	if len(v.failed) > 0 {
		v.line = failure(texts[v.failed[0]])
	}
	return v, texts[""]
}

var (
	located = regexp.MustCompile(`^\w+_test\.go:\d+:`)
	noise   = regexp.MustCompile(`^(===|---|Error Trace:|Test:|/|goroutine|$)`)
	label   = regexp.MustCompile(`^(Error|Messages):\s*`)
)

// failure returns the line of a failed test's output that says most: of a crash, its own; otherwise the place, if there is
// one, and what was wrong there.
func failure(output string) string {
	place, what, other := "", "", ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "panic: "), strings.HasPrefix(line, "fatal error: "):
			return cut(line)
		case place == "" && located.MatchString(line):
			place = line
		case label.MatchString(line):
			what += " " + label.ReplaceAllString(line, "")
		case other == "" && !noise.MatchString(line):
			other = line
		}
	}
	return cut(cmp.Or(place+what, other))
}

func cut(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 160 {
		return string(r[:160]) + "…"
	}
	return s
}
