package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	Name    string
	What    string
	Outcome outcome
	Tests   []string // that were to notice it
	Failed  []string // those of them that have
	Failure string   // its first line; or why the mutant could not be tried
	Seconds float64
}

type outcome string

const (
	killed    outcome = "killed"    // a test that it names has failed
	survived  outcome = "survived"  // none has
	explained outcome = "explained" // it says why no test notices it, and compiles
	broken    outcome = "broken"    // it does not apply, or does not compile
)

// A runner tries mutants on the tree at root, and leaves that as it is: the go command gets the changed files as an
// overlay, so nothing is compiled again but what depends on them. With -p=1 each go command is one heavy process at a time.
type runner struct {
	root, scratch string
	timeout       time.Duration // of the tests of one package, unless the mutant has one
}

// try runs the tests that must notice the mutant, package by package, until one fails.
func (r *runner) try(ctx context.Context, m *mutant) result {
	began := time.Now()
	res := result{Name: m.Name, What: m.What}
	for _, t := range m.Tests {
		res.Tests = append(res.Tests, t.Names...)
	}
	dir := filepath.Join(r.scratch, m.Name)
	defer func() { _ = os.RemoveAll(dir) }()
	root, args, err := r.prepare(m, dir)
	switch module := filepath.Join(root, m.about["module"]); {
	case err != nil:
		res.Outcome, res.Failure = broken, err.Error()
	case m.about["survives"] != "":
		res.Outcome, res.Failure = explained, m.about["survives"]
		cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-p=1"}, args...), "./...")...)
		cmd.Dir = module
		if out, err := cmd.CombinedOutput(); err != nil {
			res.Outcome, res.Failure = broken, strings.TrimSpace(string(out))
		}
	default:
		r.tryTests(ctx, m, &res, module, args)
	}
	res.Seconds = time.Since(began).Round(time.Millisecond).Seconds()
	return res
}

func (r *runner) tryTests(ctx context.Context, m *mutant, res *result, module string, args []string) {
	hangs := m.about["timeout"] != ""
	if hangs {
		args = append(args, "-timeout="+m.about["timeout"])
	}
	res.Outcome = survived
	for _, t := range m.Tests {
		switch v := r.test(ctx, module, t, m.Env, args); {
		case strings.HasPrefix(v.line, "panic: test timed out") && !hangs:
			res.Outcome, res.Failure = broken, v.line+": a mutant that makes its tests hang has to say so"
			return
		case v.broken != "":
			res.Outcome, res.Failure = broken, v.broken
			return
		case len(v.failed) > 0:
			res.Outcome, res.Failure, res.Failed = killed, v.line, v.failed
			return
		}
	}
}

// prepare makes the change in copies below dir: of the files that it is about, or of the whole tree if the tests read them
// themselves. It returns the root in which to run the go command, and the arguments that it takes.
func (r *runner) prepare(m *mutant, dir string) (root string, args []string, err error) {
	texts, err := m.changed(r.root)
	if err != nil {
		return "", nil, err
	}
	if m.about["copied"] == "yes" {
		return dir, nil, errors.Join(copyTree(r.root, dir), write(dir, texts))
	}
	overlay := map[string]map[string]string{"Replace": {}}
	for path := range texts {
		overlay["Replace"][filepath.Join(r.root, path)] = filepath.Join(dir, path)
	}
	list, _ := json.Marshal(overlay)
	texts["overlay.json"] = string(list)
	return r.root, []string{"-overlay=" + filepath.Join(dir, "overlay.json")}, write(dir, texts)
}

// A verdict is what a run of tests came to.
type verdict struct {
	failed []string // the tests that have failed, without subtests
	line   string   // the first one of the failure
	passed int
	broken string // why there was no run
}

// test runs some tests of one package. A test that hangs until the timeout has failed; on a busy machine, that
// alone says nothing of the code.
func (r *runner) test(ctx context.Context, module string, t tests, env, args []string) verdict {
	args = append([]string{
		"test", "-json", "-short", "-p=1", "-count=1", "-vet=off", "-ldflags=-s -w", "-timeout=" + r.timeout.String(),
	}, args...)
	args = append(args, "-run=^("+strings.Join(t.Names, "|")+")$", t.Package)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = module, append(os.Environ(), env...), 10*time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	v, why := read(out)
	switch {
	case len(v.failed) > 0:
	case err != nil:
		v.broken = strings.TrimSpace(why + stderr.String() + "\n" + err.Error())
	case v.passed < len(t.Names):
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
	for _, test := range v.failed { // Of several that ran when the process ended, any may have what it said last.
		v.line += texts[test]
	}
	v.line = failure(v.line)
	return v, texts[""]
}

var noise = regexp.MustCompile(`^(===.*|---.*|Error Trace:.*|Test:.*|/.*|goroutine.*|(Error|Messages):)\s*`)

// failure returns what a failed test says first: of a crash, that line; otherwise the place, and what was wrong there.
func failure(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			said = []string{line}
			break
		}
		said = append(said, strings.Fields(noise.ReplaceAllString(line, ""))...)
	}
	if r := []rune(strings.Join(said, " ")); len(r) > 160 {
		return string(r[:160]) + "…"
	}
	return strings.Join(said, " ")
}
