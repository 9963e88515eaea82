package main

// How the tool writes: its answer, remarks, colour, and lines that fit into a terminal.

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

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
	t.foldf(t.out, format, args...)
}

// foldf writes a text for people, with its lines broken where the answer goes to a terminal: w is the answer, or what
// becomes a part of it.
func (t *tool) foldf(w io.Writer, format string, args ...any) {
	printf(w, "%s", fold(fmt.Sprintf(format, args...), columns(t.out), ""))
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
func isTerminal(w any) bool { return term.IsTerminal(descriptor(w)) }

// descriptor is that of the file that w writes to; -1 if it is none.
func descriptor(w any) int {
	if o, ok := w.(*output); ok {
		w = o.w
	}
	if f, ok := w.(*os.File); ok {
		return int(f.Fd())
	}
	return -1
}

// narrowest is the width below which a terminal itself has to break lines.
const narrowest = 40

// columns is the width of the terminal that w is; 0 if it is none, or does not say: then no line is to be broken.
func columns(w any) int {
	width, _, err := term.GetSize(descriptor(w))
	if err != nil || width <= 0 {
		return 0
	}
	return max(width, narrowest)
}

// fold breaks the lines of a text that are longer than width, if that is not 0, between words. What was broken
// off begins with further, or, without one, is set in further than the line.
func fold(text string, width int, further string) string {
	if width == 0 {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimLeft(line, " ")
		gap := line[:len(line)-len(body)] // before the next word
		begin, at := cmp.Or(further, gap+"    "), 0
		for word := range strings.SplitSeq(body, " ") {
			n := cells(strings.TrimSuffix(word, "\n"))
			if at > 0 && n > 0 && at+len(gap)+n > width {
				out.WriteString("\n")
				gap, at = begin, 0
			}
			out.WriteString(gap + word)
			at += len(gap) + n
			gap = " "
		}
	}
	return out.String()
}

// cells is how many columns of a terminal a text takes. The sequences of a style take none.
func cells(text string) int {
	n, sequence := 0, false
	for _, r := range text {
		switch {
		case r == '\x1b':
			sequence = true
		case sequence:
			sequence = r != 'm'
		default:
			n += cellsOf(r)
		}
	}
	return n
}

// cellsOf is how many columns a character takes: two in the scripts of East Asia and for pictures.
func cellsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
		r >= 0x3000 && r <= 0x303e, r >= 0xff01 && r <= 0xff60, r >= 0x1f300 && r <= 0x1faff:
		return 2
	default:
		return 1
	}
}

// fit is a text in so many columns: filled up with spaces, or cut.
func fit(text string, width int) string {
	if n := cells(text); n <= width {
		return text + strings.Repeat(" ", width-n)
	}
	at := 0
	for i, r := range text {
		if at+cellsOf(r) > width-1 {
			return text[:i] + "…" + strings.Repeat(" ", width-1-at)
		}
		at += cellsOf(r)
	}
	return text
}
