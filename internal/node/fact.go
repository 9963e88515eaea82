package node

import "time"

// A Fact is something about the node that others want to know.
type Fact struct {
	What  What
	Why   error     // of Lost and Unresponsive
	At    time.Time // of Vanished
	Times int64     // of Vanished: so far

	// Of Settled: so many releases that were owed have been carried out. So many requests are of unknown outcome:
	// what comes late of them is released again.
	Released, Unknown int
}

// What says what a Fact is about.
type What uint8

// The facts.
const (
	Wanted       What = iota // somebody needs the node: its connection is to be made. Once
	Joined                   // there is a connection
	Left                     // there is none any more, or not for a moment
	Stalled                  // there is none, and the attempt to make one takes long, or has failed
	Well                     // the node is connected, or no longer unresponsive
	Lost                     // it is down: once, until it is up again
	Settled                  // a connection has settled what those before it had left open, or has ended
	Vanished                 // it no longer had the keys of a lock, see vanish.go
	Unresponsive             // none of the last votes came in time; once, until Well or Lost
)

// tell notes a fact.
func (n *Node) tell(f Fact) { n.facts = append(n.facts, f) }

// Facts returns those that have come up since it was last called, in their order. They are valid until the next step.
func (n *Node) Facts() []Fact {
	facts := n.facts
	n.facts = n.facts[:0]
	return facts
}

// settle tells what was settled, when nothing is owed any more or the connection has ended.
func (n *Node) settle() {
	if n.unknown > 0 || n.settled > 0 {
		n.tell(Fact{What: Settled, Unknown: n.unknown, Released: n.settled})
	}
	n.unknown, n.settled = 0, 0
}

// reportLoss tells of each loss once.
func (n *Node) reportLoss(why error) {
	if !n.lost && !n.closing {
		n.lost = true
		n.tell(Fact{What: Lost, Why: why})
	}
}
