package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A step is one command, and how to read what it leaves.
type step struct {
	Name  string   `json:"name"`
	Title string   `json:"title"`
	What  string   `json:"what"` // What it tests, in a sentence or two for somebody who has never seen it.
	Dir   string   `json:"-"`    // Where the command runs, from proof/.
	Env   []string `json:"-"`
	Args  []string `json:"-"`
	Files []string `json:"files,omitempty"` // What it leaves, from the report's folder.
	Aside bool     `json:"aside,omitempty"` // It is a comparison: what it finds does not count.
	File  string   `json:"-"`               // What it leaves for read, if that does not read the output. What an earlier run has left is removed.

	read func(from string) (figures, error) // From File, or the output.
}

// figures are what a step has found: a sentence, and a table if there is more to tell.
type figures struct {
	Says  string     `json:"says"`
	Fine  string     `json:"-"`               // It says this, too, unless something has failed.
	Notes []string   `json:"notes,omitempty"` // How to read it.
	Head  []string   `json:"head,omitempty"`
	Rows  [][]string `json:"rows,omitempty"`
}

// The results of a step.
const (
	passed = "passed"
	failed = "failed"
)

// A done is a step that has run.
type done struct {
	step
	figures

	Command string  `json:"command"`
	Result  string  `json:"result"`
	Seconds float64 `json:"seconds"`
	Last    string  `json:"last"` // The last lines of the output.
}

// command is what somebody types in the repository's folder.
func (s *step) command() string {
	words := slices.Clone(s.Env)
	for _, a := range append([]string{"go"}, s.Args...) {
		if strings.ContainsAny(a, " *|^$") {
			a = "'" + a + "'"
		}
		words = append(words, a)
	}
	line := strings.Join(words, " ")
	if dir := filepath.Join("proof", s.Dir); dir != "." {
		line = "(cd " + dir + " && " + line + ")"
	}
	return line
}

// run runs the command, and ends it if it goes on until then. A step whose output cannot be read has failed: it has shown nothing.
func (s *step) run(ctx context.Context, until time.Time) done {
	d := done{step: *s, Command: s.command(), Result: passed}
	if err := os.Remove(s.File); s.File != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.Result, d.Says = failed, err.Error()
		return d
	}
	began := time.Now()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", s.Args...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), s.Env...)
	// What it has started ends with it: the go command itself passes no signal on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	d.Seconds = time.Since(began).Round(time.Second / 10).Seconds()
	d.Last = lastLines(string(out), 20)
	var readErr error
	d.figures, readErr = s.read(cmp.Or(s.File, string(out)))
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil:
		d.Result, d.Says = failed, fmt.Sprintf("It was ended after %v, as its share of the time was over: the machine is too slow or too "+
			"busy for it, or it hangs. A larger -time gives it more.", until.Sub(began).Round(time.Second))
	case err != nil:
		why := d.Says
		if errors.Is(readErr, fs.ErrNotExist) {
			why = "It has left no figures."
		} else if readErr != nil {
			why = readErr.Error()
		}
		d.Result, d.Says = failed, strings.TrimSpace(fmt.Sprintf("The command ended with %v. %s", err, why))
	case readErr != nil:
		d.Result, d.Says = failed, readErr.Error()
	case d.Fine != "":
		d.Says += " " + d.Fine
	}
	return d
}

// lastLines returns the last lines of a text, without tables in Markdown, which are for a file.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "| ") })
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
