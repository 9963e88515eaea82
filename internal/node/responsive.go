package node

import (
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
)

// This file is about a node that is connected, but whose votes never come in time, or are missing: it is too slow, or
// its server refuses requests (OOM, MISCONF, LOADING). Locks can count on it no more than on one that is down. It still
// gets the same requests, as its next vote may be in time.
//
// A node becomes unresponsive by several such votes in a row, with some time between them: at 5 % packet loss, dozens of
// requests are late at once, and the next ones are not. It also takes several votes in time to end that: a single vote of
// a slow node may be in time by chance.
//
// A server that refuses writes still answers requests that write nothing. One that is out of memory may grant a lock if
// the same script has deleted something before. So, after such a refusal, only a trial write can show that the node is
// well again. One is made every few seconds, even while there are other requests.

const (
	votesToTell = 3
	timeToTell  = 3 * time.Second
)

// Voted takes a vote that a round has counted, or the error for which there is none; see IsOwn.
func (n *Node) Voted(out *Outcome, at time.Time) { n.hear(out, false, at) }

// hear takes a vote, or the result of a trial write.
func (n *Node) hear(out *Outcome, tried bool, at time.Time) {
	switch {
	case out.Stance != Silent || out.Abstained:
		if n.misses.hit(tried, at) {
			n.record(Fact{What: Well})
		}
	case n.state == Up && n.misses.miss(out.Err, n.Code(out.Err), at):
		n.record(Fact{What: Unresponsive, Why: n.unresponsive(at)})
	}
}

// tried takes the result of a trial write, which is too late if it took longer than the node timeout.
func (n *Node) tried(q *Request, out Outcome, now time.Time) {
	if out.Err == nil && n.since(now)-q.sent > n.Timeout {
		out = Outcome{Err: ErrTimeout}
	}
	n.hear(&out, true, now)
}

// HasMisses reports whether votes have not come in time since the node was last known to be well.
func (n *Node) HasMisses() bool { return n.misses.open }

// unresponsive returns why the node counts as unavailable though it is up; nil if it does not.
func (n *Node) unresponsive(now time.Time) error { return n.misses.why(now, n.rtt.smoothed, n.Timeout) }

// misses are the latest votes that did not come in time.
type misses struct {
	open     bool      // there was one since the node was last known to be well
	row      int       // the votes in a row that speak against reported
	first    time.Time // the first of them
	since    time.Time // the time of the first vote by which it was reported
	last     error     // why the last vote is missing
	refused  bool      // a write was refused, and no trial write has succeeded since
	probed   time.Time // when a write was last tried
	reported bool      // the node was reported as unresponsive
}

// IsOwn reports whether a vote is missing for a reason that says nothing about the node: the client did not send the
// request or read the answer, or one key is another program's. Voted does not count those.
func (c *Config) IsOwn(why error) bool {
	for _, own := range []error{ErrWithdrawn, ErrOverloaded, ErrClosed, ErrBacklog, ErrUnreached} {
		if errors.Is(why, own) {
			return true
		}
	}
	return c.Code(why) == "WRONGTYPE" || errors.As(why, new(StandstillError))
}

// noWrites are the errors by which a server refuses writes alone.
var noWrites = map[string]bool{"OOM": true, "MISCONF": true, "NOREPLICAS": true, "READONLY": true}

// miss takes a vote that did not come in time, and reports whether the node counts as unresponsive from now on.
func (m *misses) miss(why error, code string, at time.Time) (tell bool) {
	m.last, m.refused, m.open = why, m.refused || noWrites[code], true
	if tell = m.turns(true, at); tell {
		m.since = m.first
	}
	return tell
}

// hit takes a vote in time, or a trial write that succeeded, and reports whether the node counted as unresponsive until
// now.
func (m *misses) hit(tried bool, at time.Time) (tell bool) {
	if m.refused && !tried {
		return false
	}
	m.refused = false
	tell = m.turns(false, at)
	m.open = m.reported
	return tell
}

// turns takes a vote, and reports whether it changes how the node counts.
func (m *misses) turns(miss bool, at time.Time) bool {
	if miss == m.reported {
		m.row = 0
		return false
	}
	if m.row++; m.row == 1 {
		m.first = at
	}
	if m.row < votesToTell || at.Sub(m.first) < timeToTell {
		return false
	}
	m.reported, m.row = miss, 0
	return true
}

// down notes that the node is down now, which is another state. If only its connections break, the next miss makes it
// unresponsive again.
func (m *misses) down() {
	if m.reported {
		m.reported, m.row, m.first = false, votesToTell, m.since
	}
}

// why returns why the node counts as unavailable though it is up; nil if it does not. takes is how long its requests
// take.
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

// signDue returns for how long no sign of life is needed. While it is undecided how the node counts, signs are asked
// for more often.
func (m *misses) signDue(now, lastReply time.Time) time.Duration {
	gap, since := IdlePing, lastReply
	if m.row > 0 {
		gap = timeToTell / votesToTell
	}
	if m.refused {
		since = m.probed
	}
	return gap - now.Sub(since)
}

// sign returns a request for a sign of life: a PING, or, if votes were missing, a write, as a server that refuses
// writes answers every PING. tried gets the result of the write.
func (n *Node) sign(now time.Time) *Request {
	t := &Task{Limit: n.Timeout}
	if !n.misses.open {
		return &Request{Task: t}
	}
	n.misses.probed = now
	t.Command = Command{Script: Probe, Keys: []any{n.UnusedKey}}
	return &Request{Task: t, Eval: true} // By EVAL, like a look.
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
