package node

import (
	"math"
	"time"
)

// This file is about replacing connections that work. A name may lead to another server by now, while the old one
// lives: a client that stayed with the old one would never meet those that have come later.
//
// The new connection is made ready while the old one serves. Then a PING goes behind all queued requests, and later ones
// wait. The answer to the PING is the last one of the old connection: with it the new connection takes over. So no
// outcome is unknown, and no request can arrive after its release. If anything fails, the old connection goes on. There
// is no event: the node was up all the time.

// renewPause is how long after a failed attempt the next one comes, and how often other clients, which may be wrong,
// can ask for one.
const renewPause = 30 * time.Second

// A renewal says when a node's connection is made anew.
type renewal struct {
	due   time.Time // zero: never
	asked time.Time // when others last asked for one
}

// begin is called when a connection begins to serve. Connections are replaced at ages that differ from node to node, as
// clients connect to all nodes at once.
func (r *renewal) begin(age time.Duration, spread float64, now time.Time) {
	r.due = time.Time{}
	if age > 0 {
		r.due = now.Add(age - time.Duration(spread*float64(age/4)))
	}
}

// ask makes a renewal due now, and reports whether it does.
func (r *renewal) ask(now time.Time) bool {
	may := now.Sub(r.asked) >= renewPause
	if may {
		r.asked, r.due = now, now
	}
	return may
}

// wait returns how long it takes until a renewal is due.
func (r *renewal) wait(now time.Time) time.Duration {
	if r.due.IsZero() {
		return math.MaxInt64
	}
	return r.due.Sub(now)
}

// LookAgain makes the connection anew now, as others find another server at the address. It may be called any number of
// times.
func (n *Node) LookAgain(now time.Time) {
	if n.state == Up && n.renewal.ask(now) {
		n.conn.dozing = false // Otherwise the next request would put it off.
		n.conn.ring(0)
	}
}

// IsOld reports whether to make the connection anew now: never before the watchdog has looked.
func (n *Node) IsOld(c *Conn, now time.Time) bool {
	return !c.over && !c.putOff && n.renewal.wait(now) <= 0 && !n.closing
}

// Renews notes that an attempt begins. The next one comes after a while, unless another connection serves by then.
func (n *Node) Renews(now time.Time) { n.renewal.due = now.Add(renewPause) }

// HandOver prepares the next connection to follow the old one, and reports whether it may. Releases that the old server
// has refused are sent to it once more, as the new one may know nothing of them.
func (n *Node) HandOver(c, next *Conn, now time.Time) bool {
	if c.over || n.closing {
		return false
	}
	n.sendOpen(now)
	c.next, c.last = next, &Request{Task: &Task{Limit: n.Timeout}}
	n.push(c.last)
	return true
}

// Follow puts the next connection to work, right after the answer by which the old one was TakenOver.
func (n *Node) Follow(next *Conn, now time.Time) { n.begin(next, now) }

// Stay gives up the hand-over, and reports whether it did: then the old connection goes on.
func (n *Node) Stay(c *Conn) bool {
	if !c.replaced {
		c.next, c.last, c.paused = nil, nil, false
	}
	return !c.replaced
}
