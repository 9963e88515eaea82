package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// A style says how the story looks.
type style int

const (
	plain   style = iota // for files and pipes
	marks                // for a terminal whose user wants no colours
	colours              // for a terminal
)

// The colours, as what switches each of them on.
const (
	bold   = "\x1b[1m"
	cyan   = "\x1b[36m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	faint  = "\x1b[2m"
)

// paint returns a text in a colour, if there are colours.
func (s style) paint(colour, text string) string {
	if s != colours {
		return text
	}
	return colour + text + "\x1b[0m"
}

// good and bad are marks, or else words.
func (s style) good(word, mark string) string { return s.paint(green, s.mark(word, mark)) }
func (s style) bad(word, mark string) string  { return s.paint(yellow, s.mark(word, mark)) }

func (s style) mark(word, mark string) string {
	if s == plain {
		return word
	}
	return mark
}

// styleOf returns the style for what is written to f; see https://no-color.org for NO_COLOR.
func styleOf(f *os.File, env func(string) string) style {
	info, err := f.Stat()
	switch {
	case err != nil || info.Mode()&os.ModeCharDevice == 0, env("TERM") == "dumb":
		return plain
	case env("NO_COLOR") != "":
		return marks
	case runtime.GOOS == "windows" && env("WT_SESSION") == "":
		return plain // A console that may know neither colours nor marks.
	default:
		return colours
	}
}

// A printer tells the story. It is safe for concurrent use.
type printer struct {
	style style
	start time.Time

	mu  sync.Mutex
	out io.Writer
}

func newPrinter(out io.Writer, s style) *printer {
	return &printer{style: s, start: time.Now(), out: out}
}

// act prints an act's title and its calls.
func (p *printer) act(number int, a act) {
	p.heading(fmt.Sprintf("%d. %s", number, a.title))
	for _, call := range a.calls {
		p.print("   " + p.style.paint(cyan, call) + "\n")
	}
	p.print("\n")
}

// intro prints what the story is about, and what its marks mean.
func (p *printer) intro(servers string) {
	p.print(fmt.Sprintf("%s: one lock over %s.\n", p.style.paint(bold, "redlock"), servers))
	p.print(fmt.Sprintf("%s means done, %s refused, and rightly so. Each line begins with the time in s.\n",
		p.style.good("ok", "✓"), p.style.bad("no", "✗")))
}

func (p *printer) heading(title string) {
	p.print("\n" + p.style.paint(bold, title) + "\n")
}

// ok says that something has succeeded.
func (p *printer) ok(format string, args ...any) { p.line(p.style.good("ok", "✓"), format, args...) }

// no says that something has failed, and rightly so.
func (p *printer) no(format string, args ...any) { p.line(p.style.bad("no", "✗"), format, args...) }

// say says something else.
func (p *printer) say(format string, args ...any) { p.line(p.style.mark("  ", " "), format, args...) }

// line prints a sentence and when it was said, in seconds since the start.
func (p *printer) line(mark, format string, args ...any) {
	at := fmt.Sprintf("%6.3f", time.Since(p.start).Seconds())
	p.print(p.style.paint(faint, at) + "  " + mark + "  " + fmt.Sprintf(format, args...) + "\n")
}

// details prints lines about the sentence before.
func (p *printer) details(lines ...string) {
	indent := strings.Repeat(" ", len("12.345      ")) + p.style.mark("  ", " ")
	p.print(p.style.paint(faint, indent+strings.Join(lines, "\n"+indent)) + "\n")
}

func (p *printer) print(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Where nobody can read the story, it still decides about the exit status.
	_, _ = io.WriteString(p.out, s)
}

// connected prints which nodes are.
func (p *printer) connected(nodes []redlock.NodeStats) {
	shown := make([]string, len(nodes))
	for i, n := range nodes {
		mark := p.style.good("up", "●")
		if !n.Up {
			mark = p.style.bad("down", "○")
		}
		shown[i] = n.Node + " " + mark
	}
	p.say("%s", strings.Join(shown, "   "))
}

// votes prints what each node said, if err is about a vote.
func (p *printer) votes(err error) {
	var failed *redlock.QuorumError
	if !errors.As(err, &failed) {
		return
	}
	lines := make([]string, len(failed.Votes))
	for i, v := range failed.Votes {
		lines[i] = v.String()
		if errors.Is(v.Err, redlock.ErrPending) {
			lines[i] += ", as the result was clear"
		}
	}
	p.details(lines...)
}

// failed prints why the demo has failed.
func (p *printer) failed(err error) {
	p.say("FAILED: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
}

// ms is a duration for the reader.
func ms(d time.Duration) string {
	switch {
	case d < 100*time.Microsecond:
		return "<0.1ms"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", d.Seconds()*1000)
	default:
		return d.Round(time.Millisecond).String()
	}
}
