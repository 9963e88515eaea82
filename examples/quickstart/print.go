package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// A printer tells the story. It is safe for concurrent use.
type printer struct {
	start time.Time

	mu  sync.Mutex
	out io.Writer
}

func newPrinter(out io.Writer) *printer { return &printer{start: time.Now(), out: out} }

// act prints an act's title and its calls.
func (p *printer) act(number int, a act) {
	p.print("\n%d. %s\n   %s\n\n", number, a.title, strings.Join(a.calls, "\n   "))
}

// intro prints what the story is about, and what its marks mean.
func (p *printer) intro(servers string) {
	p.print("redlock: one lock over %s.\n", servers)
	p.print("ok means done, no refused, and rightly so. Each line begins with the time in s.\n")
}

// ok says that something has succeeded.
func (p *printer) ok(format string, args ...any) { p.line("ok", format, args...) }

// no says that something has failed, and rightly so.
func (p *printer) no(format string, args ...any) { p.line("no", format, args...) }

// say says something else.
func (p *printer) say(format string, args ...any) { p.line("  ", format, args...) }

// line prints a sentence and when it was said, in seconds since the start.
func (p *printer) line(mark, format string, args ...any) {
	p.print("%6.3f  %s  %s\n", time.Since(p.start).Seconds(), mark, fmt.Sprintf(format, args...))
}

// details prints lines about the sentence before.
func (p *printer) details(lines ...string) {
	for _, line := range lines {
		p.print("%14s%s\n", "", line)
	}
}

func (p *printer) print(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Where nobody can read the story, it still decides about the exit status.
	_, _ = fmt.Fprintf(p.out, format, args...)
}

// connected prints which nodes are.
func (p *printer) connected(nodes []redlock.NodeStats) {
	shown := make([]string, len(nodes))
	for i, n := range nodes {
		shown[i] = n.Node + map[bool]string{true: " up", false: " down"}[n.Up]
	}
	p.say("%s", strings.Join(shown, "   "))
}

// votes prints what each node said, if err is about a vote.
func (p *printer) votes(err error) {
	var failed *redlock.QuorumError
	if !errors.As(err, &failed) {
		return
	}
	for _, v := range failed.Votes {
		line := v.String()
		if errors.Is(v.Err, redlock.ErrPending) {
			line += ", as the result was clear"
		}
		p.details(line)
	}
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
