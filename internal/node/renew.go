package node

import (
	"math"
	"time"
)

// This file is about connections that are made anew although they work. A name may lead to another server by now,
// while the old one lives: whoever stayed there would meet nobody who has come later, for good.
//
// The new connection is made ready while the old one serves. Then a PING goes behind all queued requests, and later ones
// wait. The answer to the PING is the last one of the old connection: with it the new connection takes over. So no
// outcome is unknown, and no request can arrive after its release. If anything fails, the old connection goes on. There
// is no event: the node was up all the time.

// renewPause is how long after an attempt that has failed the next one comes, and how often others may ask for one: they
// may be wrong.
const renewPause = 30 * time.Second

// A renewal says when a node's connection is made anew.
type renewal struct {
	due   time.Time // zero: never
	asked time.Time // when others last had one be due
}

// begin is for a connection that begins to serve. It is made anew at an age that differs from node to node, as their
// clients connect to all at once.
func (r *renewal) begin(age time.Duration, spread float64, now time.Time) {
	r.due = time.Time{}
	if age > 0 {
		r.due = now.Add(age - time.Duration(spread*float64(age/4)))
	}
}

// ask has one be due now, and says whether it does.
func (r *renewal) ask(now time.Time) bool {
	may := now.Sub(r.asked) >= renewPause
	if may {
		r.asked, r.due = now, now
	}
	return may
}

// wait is for how long none is due.
func (r *renewal) wait(now time.Time) time.Duration {
	if r.due.IsZero() {
		return math.MaxInt64
	}
	return r.due.Sub(now)
}

// LookAgain has the connection be made anew now, as others find another server at the address. It may be called as often
// as one likes.
func (n *Node) LookAgain(now time.Time) {
	if n.state == Up && n.renewal.ask(now) {
		n.conn.dozing = false // Or the next request would put it off.
		n.conn.ring(0)
	}
}

// IsOld reports whether the connection is to be made anew now. Not before the watchdog has looked.
func (n *Node) IsOld(c *Conn, now time.Time) bool {
	return !c.over && !c.putOff && n.renewal.wait(now) <= 0 && !n.closing
}

// Renews notes that an attempt begins. The next one comes after a while, unless another connection serves by then.
func (n *Node) Renews(now time.Time) { n.renewal.due = now.Add(renewPause) }

// HandOver has the next connection follow the old one, and says whether it may. What the old server has refused so far
// is sent to it once more: the new one may have nothing to do with it.
func (n *Node) HandOver(c, next *Conn, now time.Time) bool {
	if c.over || n.closing {
		return false
	}
	n.sendOpen(now)
	c.next, c.last = next, &Request{Task: &Task{Limit: n.Timeout}}
	n.push(c.last)
	return true
}

// Follow has the next connection serve, right after the answer by which the old one was TakenOver.
func (n *Node) Follow(next *Conn, now time.Time) { n.begin(next, now) }

// Stay gives the hand-over up, and says whether there is none: the old connection goes on.
func (n *Node) Stay(c *Conn) bool {
	if !c.replaced {
		c.next, c.last, c.paused = nil, nil, false
	}
	return !c.replaced
}
