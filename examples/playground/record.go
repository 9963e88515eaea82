package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// What has happened, for the page. All times are milliseconds since the playground was opened.

// remembered is how far back the page can see.
const remembered = time.Minute

// The kinds of sentences.
const (
	good  = "good"
	bad   = "bad"
	info  = "info"
	fault = "fault" // somebody has disturbed a node or a client
)

// A sentence says what just happened.
type sentence struct {
	N    int    `json:"n"`
	At   int64  `json:"at"`
	Kind string `json:"kind"`
	Who  string `json:"who,omitempty"`
	Text string `json:"text"`
}

// A span is a state of a lane that lasted for a while: To is 0 while it does.
type span struct {
	Lane string `json:"lane"` // a client's or a node's name, or "all"
	Row  string `json:"row"`  // bar or fault
	What string `json:"what"` // of a node's bar: the client whose key it had
	From int64  `json:"from"`
	To   int64  `json:"to,omitempty"`
}

// A mark is something that happened at an instant, with the votes of the nodes if it was a round.
type mark struct {
	N     int    `json:"n"`
	Lane  string `json:"lane"`
	What  string `json:"what"`
	At    int64  `json:"at"`
	Votes []vote `json:"votes,omitempty"`

	call    uint64
	settled bool
}

// What a mark is of. An operation that has failed has "no " before it.
const (
	markWrite  = "write"
	markFenced = "no write"
)

type recorder struct {
	log     []sentence
	spans   []span
	marks   []mark
	count   int
	changed chan struct{} // closed when something was added
}

func (r *recorder) add() int {
	close(r.changed)
	r.changed = make(chan struct{})
	r.count++
	return r.count
}

// clear forgets what was drawn of an earlier stage.
func (r *recorder) clear() { r.spans, r.marks = nil, nil }

func (p *playground) now() int64 { return p.at(time.Now()) }

func (p *playground) at(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Sub(p.start).Milliseconds()
}

// say adds a sentence. The caller has p.mu, as all that record something do.
func (p *playground) say(kind, who, format string, args ...any) {
	log := append(p.rec.log, sentence{p.rec.add(), p.now(), kind, who, fmt.Sprintf(format, args...)})
	p.rec.log = log[max(len(log)-100, 0):]
}

func (p *playground) mark(c *client, what string, votes []vote) *mark {
	p.rec.marks = append(p.rec.marks, mark{N: p.rec.add(), Lane: c.name, What: what, At: p.now(), Votes: votes})
	return &p.rec.marks[len(p.rec.marks)-1]
}

// markRound records what the nodes said to a client. A round is told of when it is decided, and when the last node has
// answered. What is tried again and again, by a call that waits or to extend a lock, is one mark, which moves.
func (p *playground) markRound(c *client, e redlock.Event, votes []vote) {
	what := string(e.Op)
	if e.Err != nil {
		what = "no " + what
	}
	for i := len(p.rec.marks) - 1; i >= 0; i-- {
		m := &p.rec.marks[i]
		if m.Lane != c.name || m.call != e.Call || m.What != what && m.What != "no "+what {
			continue
		}
		again := e.Kind == redlock.EventDecided && (e.Op == redlock.OpLock || e.Err != nil && m.What == what)
		if !m.settled || again {
			if again {
				m.At = p.now()
			}
			m.What, m.Votes, m.settled = what, votes, e.Kind == redlock.EventSettled
			p.rec.add()
			return
		}
		break
	}
	if e.Kind == redlock.EventDecided {
		p.mark(c, what, votes).call = e.Call
	}
}

// record brings the lanes up to date.
func (st *stage) record() {
	r, now := &st.p.rec, st.p.now()
	for _, n := range st.nodes {
		what := n.fault
		if what != down && !n.abstains.IsZero() {
			what = "quarantine"
		}
		r.be(n.name, "bar", n.holder, now)
		r.be(n.name, "fault", what, now)
	}
	for _, c := range st.clients {
		what := ""
		if c.awake != nil {
			what = "suspended"
		}
		r.be(c.name, "bar", c.state(), now)
		r.be(c.name, "fault", what, now)
	}
	both := ""
	if len(st.holders()) > 1 {
		both = "two holders"
	}
	r.be("all", "fault", both, now)
	old := now - remembered.Milliseconds()
	r.spans = slices.DeleteFunc(r.spans, func(s span) bool { return s.To != 0 && s.To < old })
	r.marks = slices.DeleteFunc(r.marks, func(m mark) bool { return m.At < old })
}

// be ends what a row of a lane has been, if it is something else now; "" is nothing.
func (r *recorder) be(lane, row, what string, now int64) {
	for i := range r.spans {
		if s := &r.spans[i]; s.Lane == lane && s.Row == row && s.To == 0 {
			if s.What == what {
				return
			}
			s.To = now
		}
	}
	if what != "" {
		r.spans = append(r.spans, span{Lane: lane, Row: row, What: what, From: now})
	}
}
