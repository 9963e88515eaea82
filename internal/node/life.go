package node

import (
	"errors"
	"fmt"
	"time"
)

// This file is about a node's life, from one connection to the next, and its end.

// A Conn is what the rules know about one connection. The node's writer and reader work for one, and end with it.
type Conn struct {
	Dialect ConnDialect // nil: requests are sent unchanged
	Spread  float64     // in [0, 1): how much earlier than others it is made anew
	Deletes string      // the server's command that deletes a key if it has a value: DELIFEQ or DELEX; empty: it has none

	served      bool        // a reply has come that is not an error
	said        error       // the last reply, if that was an error
	half        directReply // the first reply to the oldest request
	scriptsOnly bool        // the server cannot carry out direct requests
	keepsKeys   bool        // the server has refused the commands of Deletes

	over       bool      // broken or closed: the writer ends
	why        error     // set with over
	unanswered bool      // the watchdog has ended it, for silence
	lastReply  time.Time // when the last reply came, or the connection was made
	dozing     bool      // the watchdog sleeps until the next PING is due

	// See standstill.go.
	wakes  time.Time     // when the watchdog is due
	lead   time.Duration // the clock's, when wakes was set
	putOff bool          // the watchdog was late, and has put its look off
	alarm  time.Duration // see Alarm
	alarms bool

	// See renew.go.
	next     *Conn    // takes over; nil: none does
	last     *Request // the last request that it answers then
	paused   bool     // last was written, and nothing more will be
	replaced bool     // the next one has taken over
}

// IsOver reports whether the connection is not used any more.
func (c *Conn) IsOver() bool { return c.over }

// Why returns why the connection is over; nil after its last answer.
func (c *Conn) Why() error { return c.why }

// IsReplaced reports whether the next one has taken over.
func (c *Conn) IsReplaced() bool { return c.replaced }

// HasServed reports whether the connection has answered something, or has ended for a reason that is not the server's.
func (c *Conn) HasServed() bool { return c.served || errors.As(c.why, new(StandstillError)) }

// Said returns the server's last reply if that was an error, and else nil.
func (c *Conn) Said() error { return c.said }

// Connected puts a connection to work. Only then do requests flow.
func (n *Node) Connected(c *Conn, now time.Time) {
	if !n.resumes || n.lost {
		n.record(Fact{What: Well})
	}
	n.state, n.down, n.lost, n.failed, n.resumes = Up, nil, false, false, false
	n.record(Fact{What: Joined})
	waiting := n.queue
	n.queue = requestQueue{}
	n.begin(c, now)
	n.sendReleases(now) // Releases go first.
	n.queue.append(waiting)
	if n.releases.owed == 0 {
		n.settle()
	}
}

// begin lets a connection serve.
func (n *Node) begin(c *Conn, now time.Time) {
	c.lastReply = now
	n.conn, n.forgot = c, false
	n.sleep(c, now, WatchInterval)
	n.renewal.begin(n.Age, c.Spread, now)
}

// Waits notes that the pool's old connection cannot be ended yet, so that no call waits for the next one.
func (n *Node) Waits() {
	if n.state == Connecting {
		n.failed = true
		n.record(Fact{What: Stalled})
	}
}

// End ends the connection for the reason why, and reports whether this call has ended it. No answer on it counts any
// more, and nothing more may be written to it. Ended is called when its reader has ended.
func (n *Node) End(c *Conn, why error) bool {
	first := !c.over
	if first {
		c.over, c.why = true, why
	}
	return first
}

// Breaks is End for a connection whose reader will only notice that it has broken. The node is not up from now on, so
// attempts wait for it.
func (n *Node) Breaks(c *Conn, why error) bool {
	n.goDown()
	return n.End(c, why)
}

// Ended takes all requests from a connection whose reader has ended, and returns those that have failed. Releases that
// are sent again are not among them; unanswered ones are owed. The outcome of requests that would undo a release is
// unknown. long: the connection has ended at a reply that was too long.
func (n *Node) Ended(c *Conn, long bool, now time.Time) (failed []*Request, why error) {
	n.goDown()
	n.conn, n.refusedWhileSilent = nil, false
	n.failed = c.unanswered // After a wrong server, the backoff sets it.
	n.misses.down()
	n.takes = 0
	if q := n.inFlight.head; q != nil && q.direct && long {
		n.scriptsOnly = true
	}
	if c.why != nil && !n.resumes {
		n.reportLoss(c.why)
	}
	return n.leaveOpen(now), c.why
}

// goDown notes that the node is not up any more, but is being connected to.
func (n *Node) goDown() {
	if n.state == Up {
		n.record(Fact{What: Left})
	}
	n.state = Connecting
}

// reportLoss records each loss of the connection once.
func (n *Node) reportLoss(why error) {
	if !n.lost && !n.closing {
		n.lost = true
		n.record(Fact{What: Lost, Why: why})
	}
}

// leaveOpen takes all requests from a connection that has ended, and returns those that have failed.
func (n *Node) leaveOpen(now time.Time) (failed []*Request) {
	n.settle()
	for q := n.inFlight.pop(); q != nil; q = n.inFlight.pop() {
		if q.Trace != nil {
			q.note(Unclear)
		}
		if q.revives() {
			n.unknown++
			n.stats.Unknown++
		}
		if !n.takeBack(q) {
			n.owe(q, now)
			failed = append(failed, q)
		}
	}
	for q := n.queue.head; q != nil; {
		next := q.next
		if n.takeBack(q) || q == &n.drainPing { // The next connection gets its own.
			n.queue.remove(q)
		}
		q = next
	}
	return failed
}

// Rest notes that nothing can be sent for a while for the reason why: an attempt to connect has failed, or a connection
// has ended too soon. It returns the queued requests, which have failed, and the error to give them.
func (n *Node) Rest(why error, now time.Time) (failed []*Request, _ error) {
	n.down = fmt.Errorf("not connected: %w", why)
	n.reportLoss(n.down)
	n.releases.sweep(n.since(now))
	return n.fail(Backoff, now), n.down
}

// Retry ends the rest: the next attempt to connect begins.
func (n *Node) Retry() { n.state = Connecting }

// Finish ends the node forever. It returns the queued requests, which have failed, and why.
func (n *Node) Finish(now time.Time) (failed []*Request, _ error) {
	n.down = ErrClosed
	return n.fail(Closed, now), n.down
}

// fail enters a state in which nothing can be sent.
func (n *Node) fail(s State, now time.Time) (failed []*Request) {
	n.state, n.failed = s, true
	n.record(Fact{What: Stalled})
	for q := n.queue.pop(); q != nil; q = n.queue.pop() {
		n.owe(q, now)
		failed = append(failed, q)
	}
	return failed
}

// MayEnd reports whether the node is being closed and has nothing left to send.
func (n *Node) MayEnd() bool {
	return n.closing && n.queue.len == 0 && n.releases.open == 0
}

// IsClosing reports whether the node is being closed.
func (n *Node) IsClosing() bool { return n.closing }

// Close refuses new requests, lets queued and sent ones end, and then the connection. A node that nobody has needed is
// closed at once. over: there is nothing to wait for.
func (n *Node) Close(now time.Time) (over bool) {
	n.closing = true
	n.releases.hurry() // There is no time to wait any more.
	switch n.state {
	case Idle:
		n.state = Closed
	case Up:
		n.sendReleases(now)
		n.sendDrainPing()
		return false
	}
	return n.MayEnd()
}
