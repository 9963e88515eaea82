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

	since    time.Time // the first of them
	last     error     // why there is none
	reported bool      // the observer knows that the node is unresponsive
}

// isOwn reports whether a request was not sent because of the client, which says nothing about the node; or was refused
// because of one key, which is another program's.
func isOwn(why error) bool {
	for _, own := range []error{ErrWithdrawn, ErrOverloaded, ErrClosed, ErrBacklog, ErrUnreached} {
		if errors.Is(why, own) {
			return true
		}
	}
	return conn.ErrorCode(why) == "WRONGTYPE"
}

// add takes a vote that did not come in time, and says whether the node counts as unresponsive from now on.
func (m *misses) add(why error, at time.Time) (tell bool) {
	if m.row.Add(1) == 1 {
		m.since = at
	}
	m.last = why
	if !m.reported && m.row.Load() >= missesToTell && at.Sub(m.since) >= timeToTell {
		m.reported, tell = true, true
	}
	return tell
}

// end notes that the node has answered in time, and says whether it counted as unresponsive until now.
func (m *misses) end() (reported bool) {
	m.row.Store(0)
	reported, m.reported = m.reported, false
	return reported
}

// why says why the node counts as unavailable though it is up; nil if it does not. Its requests take so long.
func (m *misses) why(now time.Time, takes, timeout time.Duration) error {
	if !m.reported {
		return nil
	}
	slow := ""
	if takes > timeout/2 { // While nothing at all is answered, it stays as it was.
		slow = fmt.Sprintf("; a request takes %s", brief.Duration(takes))
	}
	return fmt.Errorf("no vote in time for %s (last: %w)%s", brief.Duration(now.Sub(m.since)), m.last, slow)
}

// sign returns a request for a sign of life, for an idle connection: a PING, or, if votes have not come in time, a
// write. A server that refuses writes answers each PING. If the write is answered in time, responded is called.
func (m *misses) sign(now time.Time, c *Config, responded func()) *Request {
	t := &Task{Limit: c.Timeout}
	if m.row.Load() == 0 {
		return &Request{Task: t}
	}
	t.Command = Command{Script: Probe, Keys: []any{c.UnusedKey}}
	t.Receiver = &prober{responded, now.Add(c.Timeout)}
	return &Request{Task: t, Eval: true} // As a look.
}

// A prober hears the answer to a write.
type prober struct {
	responded func()
	until     time.Time // when it would be late
}

func (p *prober) Receive(_ int, out Outcome, at time.Time) {
	if out.Stance == Yes && !at.After(p.until) {
		p.responded()
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
