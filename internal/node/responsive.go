package node

import (
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
)

// This file is about a node that is connected, but whose votes never come in time, or are none: it is too slow, or
// its server refuses what it is asked (OOM, MISCONF, LOADING). Locks can count on it no more than on one that is
// down. What is sent to it stays the same, as its next vote may be in time.
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

// Voted takes a vote that a round has counted, or why it has none; see IsOwn.
func (n *Node) Voted(out *Outcome, at time.Time) { n.hear(out, false, at) }

// hear takes a vote, or what came of a write that was tried.
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

// tried takes what came of a write that was tried, too late if that took longer than the node timeout.
func (n *Node) tried(q *Request, out Outcome, now time.Time) {
	if out.Err == nil && n.since(now)-q.sent > n.Timeout {
		out = Outcome{Err: ErrTimeout}
	}
	n.hear(&out, true, now)
}

// HasMisses reports whether votes have not come in time since the node was last known to be well.
func (n *Node) HasMisses() bool { return n.misses.open }

// unresponsive says why the node counts as unavailable though it is up; nil if it does not.
func (n *Node) unresponsive(now time.Time) error { return n.misses.why(now, n.rtt.smoothed, n.Timeout) }

// misses are the latest votes that did not come in time.
type misses struct {
	open     bool      // there was one since the node was last known to be well
	row      int       // the votes in a row that speak against reported
	first    time.Time // the first of them
	since    time.Time // of those by which it was reported
	last     error     // why there is none
	refused  bool      // a write was refused, and none that was tried has gone well since
	probed   time.Time // when a write was last tried
	reported bool      // it was told that the node is unresponsive
}

// IsOwn reports whether a request was not sent, or not heard of, because of the client, which says nothing about the node;
// or was refused because of one key, which is another program's. Voted does not hear of it.
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

// miss takes a vote that did not come in time, and says whether the node counts as unresponsive from now on.
func (m *misses) miss(why error, code string, at time.Time) (tell bool) {
	m.last, m.refused, m.open = why, m.refused || noWrites[code], true
	if tell = m.turns(true, at); tell {
		m.since = m.first
	}
	return tell
}

// hit takes a vote in time, or a write that was tried and went well, and says whether the node counted as unresponsive until now.
func (m *misses) hit(tried bool, at time.Time) (tell bool) {
	if m.refused && !tried {
		return false
	}
	m.refused = false
	tell = m.turns(false, at)
	m.open = m.reported
	return tell
}

// turns takes a vote, and says whether it has ended that the node counts as it did.
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

// down notes that the node is down now, which is another thing. If it only has connections that break it is the same again.
func (m *misses) down() {
	if m.reported {
		m.reported, m.row, m.first = false, votesToTell, m.since
	}
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

// signDue is for how long no sign of life is to be asked for. While it is open how the node counts, it is asked more often.
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

// sign returns a request for a sign of life: a PING, or, if votes have not come in time, a write. A server that refuses
// writes answers each PING. What comes of the write goes to tried.
func (n *Node) sign(now time.Time) *Request {
	t := &Task{Limit: n.Timeout}
	if !n.misses.open {
		return &Request{Task: t}
	}
	n.misses.probed = now
	t.Command = Command{Script: Probe, Keys: []any{n.UnusedKey}}
	return &Request{Task: t, Eval: true} // As a look.
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
