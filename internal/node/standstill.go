package node

import (
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
)

// This file is about a process that has not run for a while: it was stopped or starved, or its machine has slept.
// Replies that came meanwhile are still unread, so a timer that fires late is no sign of a silent node. And a
// connection may have died without a sign, as something between it and the server forgets idle connections.

const (
	// MinStandstill is by how much a timer must be late for the process to have stood still.
	MinStandstill = 50 * time.Millisecond

	// Arrival is how long it takes at most to read what has arrived, once the process runs.
	Arrival = 20 * time.Millisecond
)

// A StandstillError is the vote of a node, or the end of a connection, after the process did not run for that long
// while an answer may have come.
type StandstillError time.Duration

func (s StandstillError) Error() string {
	return fmt.Sprintf("redlock: node timeout, as this process stood still for %s", brief.Duration(time.Duration(s)))
}

// Is reports that the error also matches ErrTimeout.
func (StandstillError) Is(target error) bool { return target == ErrTimeout }

// sleep makes the watchdog come back after d.
func (n *Node) sleep(c *Conn, now time.Time, d time.Duration) {
	c.wakes = now.Add(d)
	if n.Clock != nil {
		_, c.lead = n.Clock(now)
	}
	c.ring(d)
}

// pause returns for how long the process did not run, as the watchdog is late, or the machine has slept.
func (n *Node) pause(c *Conn, now time.Time) time.Duration {
	pause := now.Sub(c.wakes)
	if n.Clock != nil {
		_, lead := n.Clock(now)
		pause = max(pause, lead-c.lead)
	}
	return pause
}

// mayHaveUnread reports whether the process has only just begun to run again, so that a missing answer says nothing.
func (n *Node) mayHaveUnread(now time.Time) bool {
	return n.conn != nil && now.Sub(n.conn.wakes) > max(n.Timeout, MinStandstill)
}

// Wake makes the connection anew if the process has not run for longer than the node timeout, unless answers are
// outstanding, and reports whether it does. The node is not up then, so attempts wait for it. There is an event only if
// that fails.
func (n *Node) Wake(now time.Time) bool {
	c := n.conn
	if c == nil || c.over || n.closing || n.inFlight.len > 0 {
		return false
	}
	pause := n.pause(c, now)
	if pause <= max(n.Timeout, MinStandstill) {
		return false
	}
	n.goDown()
	n.resumes = true
	return n.End(c, StandstillError(pause))
}
