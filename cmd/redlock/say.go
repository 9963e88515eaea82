package main

// How the tool writes: its answer, remarks and colour.

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// An output is where the tool writes its answer. It remembers the first error, which execute
// makes the tool's: half an answer, as on a disk that is full, must not look like all of it.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if o.err == nil && err != nil {
		o.err = fmt.Errorf("cannot write the answer: %w", err)
	}
	return n, err
}

// printf writes to an output, which remembers an error; or to standard error, where there is
// nobody else to tell.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// answer writes what a command has done: as JSON, if that is asked for, or as a text.
func (t *tool) answer(v any, format string, args ...any) {
	if t.global.json {
		writeJSON(t.out, v)
		return
	}
	printf(t.out, format, args...)
}

// noteTimeout is how long a remark may take to be written. A terminal that is stopped (Ctrl-S)
// must not hold up what is to be done about the lock.
const noteTimeout = 200 * time.Millisecond

// note writes a remark to standard error.
func (t *tool) note(text string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if t.global.json {
			writeJSON(t.errOut, struct {
				Note string `json:"note"`
			}{text})
			return
		}
		printf(t.errOut, "%s %s\n", t.styleFor(t.errOut).yellow("redlock:"), text)
	}()
	select {
	case <-done:
	case <-time.After(noteTimeout):
	}
}

// A style colours text, or leaves it as it is.
type style struct{ on bool }

// styleFor returns the style for what is written to w.
func (t *tool) styleFor(w io.Writer) style {
	switch t.global.color {
	case "always":
		return style{true}
	case "never":
		return style{false}
	}
	// https://no-color.org: any value but an empty one.
	return style{isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (s style) bold(text string) string   { return s.sequence("1", text) }
func (s style) dim(text string) string    { return s.sequence("2", text) }
func (s style) red(text string) string    { return s.sequence("31", text) }
func (s style) green(text string) string  { return s.sequence("32", text) }
func (s style) yellow(text string) string { return s.sequence("33", text) }

func (s style) sequence(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	if o, ok := w.(*output); ok {
		w = o.w
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
