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
// once, and the next ones are not. So it does to end: one vote of a node that is too late comes in time by chance.
//
// A server that refuses writes goes on to answer what needs none, and one that is out of memory grants a lock if it has
// deleted something before, in the same script. So, after such a refusal, only a write that is tried for that counts for
// the node; one is, every few seconds, also while there are other requests.

const (
	votesToTell = 3
	timeToTell  = 3 * time.Second
)

// misses are the votes, up to now, that did not come in time.
type misses struct {
	open atomic.Bool // there was one since the node was last known to be well; written with the node's mu held, which guards the others

	row      int       // the votes in a row that speak against reported
	first    time.Time // the first of them
	since    time.Time // of those by which it was reported
	last     error     // why there is none
	refused  bool      // a write was refused, and none that was tried has gone well since
	probed   time.Time // when a write was last tried
	reported bool      // the observer knows that the node is unresponsive
}

// isOwn reports whether a request was not sent, or not heard of, because of the client, which says nothing about the node;
// or was refused because of one key, which is another program's.
func isOwn(why error) bool {
	for _, own := range []error{ErrWithdrawn, ErrOverloaded, ErrClosed, ErrBacklog, ErrUnreached} {
		if errors.Is(why, own) {
			return true
		}
	}
	return conn.ErrorCode(why) == "WRONGTYPE" || errors.As(why, new(StandstillError))
}

// noWrites are the errors by which a server refuses writes alone.
var noWrites = map[string]bool{"OOM": true, "MISCONF": true, "NOREPLICAS": true, "READONLY": true}

// miss takes a vote that did not come in time, and says whether the node counts as unresponsive from now on.
func (m *misses) miss(why error, at time.Time) (tell bool) {
	m.last, m.refused = why, m.refused || noWrites[conn.ErrorCode(why)]
	m.open.Store(true)
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
	m.open.Store(m.reported)
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
	gap, since := conn.IdlePing, lastReply
	if m.row > 0 {
		gap = timeToTell / votesToTell
	}
	if m.refused {
		since = m.probed
	}
	return gap - now.Sub(since)
}

// sign returns a request for a sign of life: a PING, or, if votes have not come in time, a write. A server that refuses
// writes answers each PING. What comes of the write is heard.
func (m *misses) sign(now time.Time, c *Config, hear func(out *Outcome, tried bool, at time.Time)) *Request {
	t := &Task{Limit: c.Timeout}
	if !m.open.Load() {
		return &Request{Task: t}
	}
	m.probed = now
	t.Command = Command{Script: Probe, Keys: []any{c.UnusedKey}}
	t.Receiver = &prober{hear, now.Add(c.Timeout)}
	return &Request{Task: t, Eval: true} // As a look.
}

// A prober hears the answer to a write.
type prober struct {
	hear  func(out *Outcome, tried bool, at time.Time)
	until time.Time // when it would be late
}

func (p *prober) Receive(_ int, out Outcome, at time.Time) {
	if out.Err == nil && at.After(p.until) {
		out = Outcome{Err: ErrTimeout}
	}
	p.hear(&out, true, at)
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
