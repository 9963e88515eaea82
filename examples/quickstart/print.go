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
type style struct {
	ok, no, up, down                 string // marks
	bold, cyan, green, yellow, faint string // switch a colour on; empty without colours
	reset                            string // switches all of them off
}

var (
	// plain is for files and pipes.
	plain = style{ok: "ok", no: "no", up: "up", down: "down"}

	// marks is for a terminal whose user wants no colours.
	marks = style{ok: "✓", no: "✗", up: "●", down: "○"}

	// colours is for a terminal.
	colours = style{
		ok: "✓", no: "✗", up: "●", down: "○",
		bold: "\x1b[1m", cyan: "\x1b[36m", green: "\x1b[32m", yellow: "\x1b[33m", faint: "\x1b[2m", reset: "\x1b[0m",
	}
)

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
		p.print("   " + p.style.cyan + call + p.style.reset + "\n")
	}
	p.print("\n")
}

// intro prints what the story is about, and what its marks mean.
func (p *printer) intro(servers string) {
	s := &p.style
	p.print(fmt.Sprintf("%sredlock%s: one lock over %s.\n", s.bold, s.reset, servers))
	p.print(fmt.Sprintf("%s%s%s means done, %s%s%s refused, and rightly so. Each line begins with the time in s.\n",
		s.green, s.ok, s.reset, s.yellow, s.no, s.reset))
}

func (p *printer) heading(title string) {
	p.print("\n" + p.style.bold + title + p.style.reset + "\n")
}

// ok says that something has succeeded.
func (p *printer) ok(format string, args ...any) {
	p.line(p.style.green+p.style.ok, format, args...)
}

// no says that something has failed, and rightly so.
func (p *printer) no(format string, args ...any) {
	p.line(p.style.yellow+p.style.no, format, args...)
}

// say says something else.
func (p *printer) say(format string, args ...any) {
	p.line(strings.Repeat(" ", len([]rune(p.style.ok))), format, args...)
}

// line prints a sentence and when it was said, in seconds since the start.
func (p *printer) line(mark, format string, args ...any) {
	s := &p.style
	at := fmt.Sprintf("%6.3f", time.Since(p.start).Seconds())
	p.print(s.faint + at + s.reset + "  " + mark + s.reset + "  " + fmt.Sprintf(format, args...) + "\n")
}

// details prints lines about the sentence before.
func (p *printer) details(lines ...string) {
	indent := strings.Repeat(" ", len("12.345  ")+len([]rune(p.style.ok))+4)
	p.print(p.style.faint + indent + strings.Join(lines, "\n"+indent) + p.style.reset + "\n")
}

func (p *printer) print(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Where nobody can read the story, it still decides about the exit status.
	_, _ = io.WriteString(p.out, s)
}

// nodes prints which nodes are connected.
func (p *printer) nodes(nodes []redlock.NodeStats) {
	shown := make([]string, len(nodes))
	for i, n := range nodes {
		mark := p.style.green + p.style.up
		if !n.Up {
			mark = p.style.yellow + p.style.down
		}
		shown[i] = n.Node + " " + mark + p.style.reset
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
		return "less than 0.1ms"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", d.Seconds()*1000)
	default:
		return d.Round(time.Millisecond).String()
	}
}
