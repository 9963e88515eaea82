package node

import "time"

// A Fact is something about the node that others want to know.
type Fact struct {
	What  What
	Why   error     // of Lost, Unresponsive and Deaf
	At    time.Time // of Vanished
	Times int64     // of Vanished: how often so far

	// Of Settled: how many owed releases were carried out, and how many requests are of unknown outcome, whose late
	// effects are released again.
	Released, Unknown int
}

// What says what a Fact is about.
type What uint8

// The facts.
const (
	Wanted       What = iota // somebody needs the node, so connect to it. Once
	Joined                   // there is a connection
	Left                     // there is no connection any more, or none for a moment
	Stalled                  // there is no connection, and the attempt to make one takes long, or has failed
	Well                     // the node is connected, or no longer unresponsive
	Lost                     // it is down: once, until it is up again
	Settled                  // a connection has settled what those before it had left open, or has ended
	Vanished                 // it no longer had the keys of a lock, see vanish.go
	Unresponsive             // none of the last votes came in time, and why it counts as unavailable; once, until Well or Lost
	Deaf                     // waiters hear of no release from it; once, until they do. The rules do not know of that
)
