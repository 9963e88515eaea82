package node

import (
	"fmt"
	"time"
)

// This file is about the watchdog of a connection: it ends one whose oldest request has had no answer for too long, and
// keeps an idle one alive.

// Alarm returns once that the watchdog must come back after d.
func (n *Node) Alarm() (d time.Duration, set bool) {
	c := n.conn
	if c == nil || !c.alarms || c.over {
		return 0, false
	}
	c.alarms = false
	return c.alarm, true
}

// ring makes the watchdog come back after d, without changing when it is due: it must notice if the process stood
// still.
func (c *Conn) ring(d time.Duration) { c.alarm, c.alarms = d, true }

// Watch is the watchdog. It returns why the connection is broken, if it is.
func (n *Node) Watch(c *Conn, now time.Time) (broken error) {
	if c.over {
		return nil
	}
	c.putOff = n.pause(c, now) >= MinStandstill && !c.putOff
	if c.putOff { // Let replies be read first, but once only: a throttled process would never get past it.
		n.sleep(c, now, Arrival)
		return nil
	}
	if limit, broken := n.isBroken(now); broken {
		c.unanswered = true
		return fmt.Errorf("no reply for %v", limit)
	}
	busy := n.Backlog() > 0
	switch wait := n.misses.signDue(now, c.lastReply); {
	case wait <= 0 && (!busy || n.misses.refused):
		n.push(n.sign(now))
		n.sleep(c, now, WatchInterval)
	case busy || now.Sub(c.lastReply) < WatchInterval:
		n.sleep(c, now, WatchInterval)
	default:
		c.dozing = true
		n.sleep(c, now, min(wait, max(n.renewal.wait(now), WatchInterval)))
	}
	return nil
}

// isBroken reports whether the oldest request has been unanswered for so long that the connection must be broken. A
// request with a long timeout is allowed longer, unless others have been turned away meanwhile: it must not keep a dead
// connection for them.
func (n *Node) isBroken(now time.Time) (limit time.Duration, broken bool) {
	q := n.inFlight.head
	if q == nil {
		return 0, false
	}
	limit = Silence(n.Timeout)
	if !n.refusedWhileSilent {
		limit = Silence(max(q.Limit, n.Timeout))
	}
	return limit, n.since(now)-q.sent >= limit
}

// stir makes the watchdog look soon, as something was written.
func (n *Node) stir(c *Conn, now time.Time) {
	if !c.dozing {
		return
	}
	c.dozing = false
	if n.pause(c, now) < MinStandstill { // Otherwise the watchdog must notice it.
		n.sleep(c, now, WatchInterval)
	} else {
		c.ring(0) // The timer stood still as well, and may fire much later.
	}
}
