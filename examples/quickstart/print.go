package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// A printer tells the story, a line per event. The workers and the hook use it
// at the same time.
type printer struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
}

func newPrinter(out io.Writer) *printer {
	return &printer{out: out, start: time.Now()}
}

// act prints a heading.
func (p *printer) act(format string, args ...any) {
	p.print("\n== " + fmt.Sprintf(format, args...) + " ==\n\n")
}

// say prints a sentence and when it was said, in seconds since the start.
func (p *printer) say(format string, args ...any) {
	p.print(fmt.Sprintf("%6.3f  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...)))
}

// list prints the details of the sentence before.
func (p *printer) list(lines []string) {
	p.print("          " + strings.Join(lines, "\n          ") + "\n")
}

func (p *printer) print(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Where nobody can read the story, it still decides about the exit status.
	_, _ = io.WriteString(p.out, s)
}

// votes prints what each node said, if err is about a vote.
func (p *printer) votes(err error) {
	var failed *redlock.QuorumError
	if !errors.As(err, &failed) {
		return
	}
	var lines []string
	pending := false
	for _, v := range failed.Votes {
		lines = append(lines, v.String())
		pending = pending || errors.Is(v.Err, redlock.ErrPending)
	}
	if pending {
		lines = append(lines, "(The outcome was clear before every node was heard.)")
	}
	p.list(lines)
}

// inspection prints what each node stores.
func (p *printer) inspection(in redlock.Inspection) {
	lines := make([]string, len(in.Nodes))
	for i, n := range in.Nodes {
		switch {
		case n.Err != nil:
			lines[i] = fmt.Sprintf("%s: no answer: %v", n.Node, n.Err)
		case n.Holder == "":
			lines[i] = fmt.Sprintf("%s: not locked", n.Node)
		default:
			lines[i] = fmt.Sprintf("%s: held by %s for %s", n.Node, n.Holder, n.TTL)
		}
	}
	p.list(lines)
}

// nodeEvent is the demo's redlock.Hook. A program with a log uses
// redlock.SlogHook instead.
func (p *printer) nodeEvent(_ context.Context, e redlock.Event) {
	switch e.Kind {
	case redlock.EventNodeUp:
		p.say("%s is up.", e.Node)
	case redlock.EventNodeDown:
		p.say("%s is down (%v).", e.Node, e.Err)
	case redlock.EventNodeCleaned:
		p.say("%s no longer stores locks that were given up while it was down (%d).", e.Node, e.Cleaned)
	case redlock.EventDecided, redlock.EventSettled:
		// Who asked for a vote tells what became of it.
	}
}

// failed prints why the demo has failed.
func (p *printer) failed(err error) {
	p.say("FAILED: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
}
