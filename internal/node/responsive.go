package node

import (
	_ "embed"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/conn"
)

// This file is about a node that is connected, but whose votes never come in time, or are none: it is too slow, or
// its server refuses what it is asked (OOM, MISCONF, LOADING). Locks can count on it no more than on one that is
// down. What is sent to it stays the same, as its next vote may be in time.
//
// It takes several votes in a row, and some time between them: at 5 % packet loss dozens of requests are late at
// once, and the next ones are not.

const (
	missesToTell = 3
	timeToTell   = 3 * time.Second
)

// misses are the votes in a row, up to now, that did not come in time.
type misses struct {
	row atomic.Int64 // how many; written with the node's mu held, which guards the others

	since time.Time // the first of them
	last  error     // why there is none
	told  bool      // the observer was told that the node is unresponsive
}

// Voted takes a vote that a round has counted, or why it has none. A request that was not sent, because of the
// client, says nothing about the node.
func (n *Node) Voted(out *Outcome, at time.Time) {
	if out.Stance == Silent || n.misses.row.Load() > 0 { // Seldom; the rest is to cost no call.
		n.noteVote(out, at)
	}
}

func (n *Node) noteVote(out *Outcome, at time.Time) {
	if out.Stance != Silent || out.Abstained {
		n.responded()
		return
	}
	for _, own := range []error{ErrWithdrawn, ErrOverloaded, ErrClosed, ErrBacklog, ErrUnreached} {
		if errors.Is(out.Err, own) {
			return
		}
	}
	if conn.ErrorCode(out.Err) == "WRONGTYPE" {
		return // It is about one key, which is another program's.
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	m := &n.misses
	if n.state != nodeUp {
		return
	}
	if m.row.Add(1) == 1 {
		m.since = at
	}
	m.last = out.Err
	if !m.told && m.row.Load() >= missesToTell && at.Sub(m.since) >= timeToTell {
		m.told = true
		n.Observer.Unresponsive(n.unresponsive(at))
	}
}

// responded notes that the node has answered in time.
func (n *Node) responded() {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := &n.misses
	m.row.Store(0)
	if m.told {
		m.told = false
		n.Observer.Up()
	}
}

// unresponsive says why the node counts as unavailable though it is up; nil if it does not. n.mu is held.
func (n *Node) unresponsive(now time.Time) error {
	m := &n.misses
	if !m.told {
		return nil
	}
	takes := ""
	if n.rtt.smoothed > n.Timeout/2 { // While nothing at all is answered, it stays as it was.
		takes = fmt.Sprintf("; a request takes %s", brief.Duration(n.rtt.smoothed))
	}
	return fmt.Errorf("no vote in time for %s (last: %w)%s", brief.Duration(now.Sub(m.since)), m.last, takes)
}

// sign returns a request for a sign of life, for an idle connection: a PING, or, if votes have not come in time, a
// write. A server that refuses writes answers each PING. n.mu is held.
func (n *Node) sign(now time.Time) *Request {
	t := &Task{Limit: n.Timeout}
	if n.misses.row.Load() == 0 {
		return &Request{Task: t}
	}
	t.Command = Command{Script: Probe, Keys: []any{n.UnusedKey}}
	t.Receiver = &prober{n, now}
	return &Request{Task: t, Eval: true} // As a look.
}

// A prober hears the answer to a write that was sent then.
type prober struct {
	node *Node
	sent time.Time
}

func (p *prober) Receive(_ int, out Outcome, at time.Time) {
	if out.Stance == Yes && at.Sub(p.sent) <= p.node.Timeout {
		p.node.responded()
	}
}

//go:embed probe.lua
var probeText string

// Probe is a write that leaves nothing.
var Probe = NewScript("probe", Code(probeText), func(reply any) Outcome {
	if reply == int64(1) {
		return Outcome{Stance: Yes}
	}
	return Unexpected("probe", reply)
})
