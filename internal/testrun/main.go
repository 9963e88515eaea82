// Command testrun runs "go test" with its arguments and exits with its status. It prints one
// line for each package and everything about what failed, and at the end what was run, how
// long it took, and the slowest tests.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const slowest = 10

func main() {
	os.Exit(run(os.Args[1:], os.Stdout))
}

func run(args []string, out io.Writer) (status int) {
	start := time.Now()
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "testrun:", err)
		return 1
	}
	r := newReport(out, slices.Contains(args, "-v"))
	r.read(events)
	err = cmd.Wait()
	_, _ = fmt.Fprintf(out, "\nran: go test %s\n", strings.Join(args, " "))
	r.summary(time.Since(start))
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	if err != nil || len(r.failed) > 0 {
		return 1
	}
	return 0
}

// An event is a line of go test -json; see go doc test2json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

// A test is a top-level one, with its subtests.
type test struct{ pkg, name string }

func (t test) String() string {
	return strings.TrimSpace(t.name + " " + t.pkg[strings.LastIndexByte(t.pkg, '/')+1:])
}

type took struct {
	test
	seconds float64
}

type report struct {
	out     io.Writer
	verbose bool

	// What tests that have not ended yet have printed. It is shown if they fail, or if their
	// package ends before them.
	printed map[test]*strings.Builder

	times             []took
	packages, skipped int
	failed            []test // without a name: a package of which no test is known to have failed
}

func newReport(out io.Writer, verbose bool) *report {
	return &report{out: out, verbose: verbose, printed: map[test]*strings.Builder{}}
}

func (r *report) read(events io.Reader) {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			e := event{}
			if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
				r.add(e)
			} else {
				_, _ = fmt.Fprint(r.out, line)
			}
		}
		if err != nil {
			return
		}
	}
}

func (r *report) add(e event) {
	name, _, isSub := strings.Cut(e.Test, "/")
	t := test{e.Package, name}
	switch {
	case e.Action == "output" && (r.verbose || name == ""):
		if name == "" && strings.HasPrefix(e.Output, "FAIL\t") {
			r.endTests(e.Package, true)
		}
		_, _ = fmt.Fprint(r.out, brief(e.Output))
	case e.Action == "output":
		if r.printed[t] == nil {
			r.printed[t] = &strings.Builder{}
		}
		r.printed[t].WriteString(e.Output)
	case e.Action == "build-output":
		_, _ = fmt.Fprint(r.out, e.Output)
	case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
		// It has begun, is paused, goes on.
	case name == "":
		r.endPackage(e)
	case !isSub:
		r.endTest(t, e)
	}
}

func (r *report) endTest(t test, e event) {
	switch e.Action {
	case "fail":
		r.failed = append(r.failed, t)
		r.show(t)
	case "skip":
		r.skipped++
	}
	delete(r.printed, t)
	r.times = append(r.times, took{t, e.Elapsed})
}

func (r *report) endPackage(e event) {
	if e.Action != "skip" { // It has tests.
		r.packages++
	}
	r.endTests(e.Package, e.Action == "fail")
	inIt := func(t test) bool { return t.pkg == e.Package }
	if e.Action == "fail" && !slices.ContainsFunc(r.failed, inIt) {
		r.failed = append(r.failed, test{pkg: e.Package})
	}
}

// endTests shows, if their package has failed, what tests have printed that did not come to
// their ends: there was a panic, or no time was left.
func (r *report) endTests(pkg string, failed bool) {
	for t := range r.printed {
		if t.pkg != pkg {
			continue
		}
		if failed {
			r.show(t)
		}
		delete(r.printed, t)
	}
}

func (r *report) show(t test) {
	if b := r.printed[t]; b != nil {
		_, _ = fmt.Fprint(r.out, b)
	}
}

// brief leaves out what a package prints that its line says once more, the names of all
// packages whose coverage is measured, and packages that have no tests.
func brief(output string) string {
	if output == "PASS\n" || strings.HasPrefix(output, "coverage: ") || strings.Contains(output, "[no test files]") {
		return ""
	}
	if line, _, found := strings.Cut(output, " of statements in "); found {
		return line + "\n"
	}
	return output
}

func (r *report) summary(length time.Duration) {
	_, _ = fmt.Fprintf(r.out, "%d tests in %d packages, %d failed, %d skipped: %.0f s\n",
		len(r.times), r.packages, len(r.failed), r.skipped, length.Seconds())
	slices.SortStableFunc(r.times, func(a, b took) int {
		switch {
		case a.seconds > b.seconds:
			return -1
		case a.seconds < b.seconds:
			return 1
		}
		return 0
	})
	_, _ = fmt.Fprintln(r.out, "the slowest:")
	for _, t := range r.times[:min(slowest, len(r.times))] {
		_, _ = fmt.Fprintf(r.out, "%8.2f s  %s\n", t.seconds, t.test)
	}
	for _, t := range r.failed {
		_, _ = fmt.Fprintln(r.out, "FAILED:", t)
	}
}
