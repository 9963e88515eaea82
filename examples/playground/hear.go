package main

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// What clients and their Redlocks tell becomes sentences here. All of it is called with p.mu held, but for hear.

// A vote is what a node said in a round.
type vote struct {
	Node string `json:"node"`
	Says string `json:"says"` // yes, pending, or why not
	Who  string `json:"who,omitempty"`
	Took int64  `json:"took"` // ms
}

const (
	yes         = "yes"
	pending     = "not waited for"
	taken       = "taken"
	gone        = "has no such key"
	late        = "no answer in time"
	quarantined = "in quarantine"
	unreached   = "cannot be reached"
)

// votesOf reads what the nodes have said, which are in the order of the stage's.
func votesOf(all []redlock.Vote) []vote {
	votes := make([]vote, len(all))
	for i, v := range all {
		votes[i] = vote{Node: string(rune('1' + i)), Who: v.Owner, Took: v.Took.Milliseconds()}
		for _, kind := range []struct {
			err  error
			says string
		}{
			{nil, yes},
			{redlock.ErrPending, pending},
			{redlock.ErrTaken, taken},
			{redlock.ErrLost, gone},
			{redlock.ErrNodeTimeout, late},
			{redlock.ErrQuarantined, quarantined},
			{v.Err, unreached},
		} {
			if errors.Is(v.Err, kind.err) {
				votes[i].Says = kind.says
				break
			}
		}
	}
	return votes
}

// saying lists the nodes that said so.
func saying(votes []vote, says string) (nodes []string) {
	for _, v := range votes {
		if v.Says == says {
			nodes = append(nodes, v.Node)
		}
	}
	return nodes
}

// hear is the hook of the client's Redlock.
func (c *client) hear(_ context.Context, e redlock.Event) {
	c.st.p.mu.Lock()
	defer c.st.p.mu.Unlock()
	votes := c.heard[e.Call] // What decided the call.
	switch e.Kind {
	case redlock.EventDecided, redlock.EventSettled:
		votes = votesOf(e.Votes)
		if e.Kind == redlock.EventDecided {
			c.heard[e.Call] = votes
		}
		if c.awake == nil && c.st.ctx.Err() == nil {
			c.st.p.markRound(c, e, votes)
		}
		return
	case redlock.EventWaiting:
		c.waiting(e.Err)
		return
	case redlock.EventExtended:
		c.kept(e, votes)
		return
	case redlock.EventAcquired:
		select {
		case c.granted <- votes:
		default: // Nobody came for the last one: the stage ends.
		}
	case redlock.EventReleased:
		c.st.wg.Go(func() { // It may be suspended, and hears of it when it goes on.
			if c.whenAwake() {
				defer c.st.p.mu.Unlock()
				c.released(e.Err, votes)
			}
		})
	case redlock.EventNotAcquired, redlock.EventHoldEnded:
	default:
		return
	}
	delete(c.heard, e.Call)
}

// got is told that the client has the lock.
func (c *client) got(lock *redlock.Lock, votes []vote) {
	others, granted := c.st.holders(), saying(votes, yes)
	c.call, c.waits, c.overdue = nil, false, lock.Err() != nil
	c.lock, c.fence = lock, lock.Fence()
	switch {
	case c.overdue:
		c.say(bad, " learns that it got the lock while it stood still, and that its time is over.")
	case len(others) > 0:
		c.st.readKeys()
		first := others[0]
		c.say(bad, " has the lock, too! %s said yes, though client %s has it for another %s: %d of 5 nodes know nothing of %s. "+
			"This is why nodes that lose their keys must be quarantined.",
			capital(nodesText(granted)), first.name, first.left(), len(c.st.nodes)-len(c.st.nodesOf(first.name)), first.name)
	default:
		c.say(good, " has the lock: %s said yes, which %s %d of 5. It is valid for %s.",
			nodesText(granted), verb(granted, "is", "are"), len(granted), c.left())
	}
}

// refused is told that the client gets no lock.
func (c *client) refused(err error) {
	c.call, c.waits = nil, false
	var failed *redlock.QuorumError
	switch {
	case errors.Is(err, context.Canceled):
		c.say(info, " gives up, and is in no line any more.")
	case errors.As(err, &failed):
		c.say(bad, " gets no lock: %s. So no majority has said yes. Better no lock than two.", why(votesOf(failed.Votes)))
	default:
		c.say(bad, " gets no lock: %v.", err)
	}
}

// waiting is told whenever the client has to wait, and says so once.
func (c *client) waiting(err error) {
	if c.call == nil || c.awake != nil || c.waits {
		return
	}
	c.waits = true
	var votes []vote
	because := "somebody else has come before"
	var failed *redlock.QuorumError
	if errors.As(err, &failed) {
		votes = votesOf(failed.Votes)
		because = why(votes)
	}
	switch {
	case len(saying(votes, quarantined)) > 0:
		c.say(bad, " must wait: %s. So there is no second holder.", because)
	case len(saying(votes, unreached))+len(saying(votes, late)) >= need:
		c.say(info, " must wait: %s. It tries again soon.", because)
	default:
		c.say(info, " must wait: %s. It stands in line, and is told of a release.", because)
	}
}

// reasons are what a node said, or did, that has not said yes.
var reasons = map[string]string{
	quarantined: "abstained, in quarantine",
	unreached:   "could not be reached",
	late:        "did not answer in time",
	gone:        "did not have its key",
}

// why says what kept nodes from saying yes.
func why(votes []vote) string {
	var order []string
	nodes := map[string][]string{}
	for _, v := range votes {
		reason := reasons[v.Says]
		if v.Says == taken && v.Who != "" {
			reason = "said that client " + v.Who + " has the lock"
		} else if v.Says == taken {
			reason = "kept it for the next in line"
		}
		if reason != "" && nodes[reason] == nil {
			order = append(order, reason)
		}
		nodes[reason] = append(nodes[reason], v.Node)
	}
	for i, reason := range order {
		order[i] = nodesText(nodes[reason]) + " " + reason
	}
	return cmp.Or(strings.Join(order, "; "), "too few nodes said yes")
}

// kept is told how an extension has ended, and says so if it was not so before.
func (c *client) kept(e redlock.Event, votes []vote) {
	var failed *redlock.QuorumError
	said := yes
	if errors.As(e.Err, &failed) {
		said = why(votesOf(failed.Votes))
	} else if e.Err != nil {
		return // check tells of a loss.
	}
	if c.state() != "holds" || c.awake != nil || c.keeping == nil || errors.Is(e.Err, redlock.ErrLost) || c.extended == said {
		return
	}
	c.extended = said
	if said == yes {
		c.say(good, " has extended its lock, and goes on doing so: %s said yes, so it is valid for another %s.",
			nodesText(saying(votes, yes)), c.left())
	} else {
		c.say(bad, " cannot extend its lock: %s. It has it until its time is over, and keeps trying.", said)
	}
}

// released is told how an Unlock has ended.
func (c *client) released(err error, votes []vote) {
	if c.st.ctx.Err() != nil {
		return // The stage ends, which has released it.
	}
	deleted, without := saying(votes, yes), append(saying(votes, gone), saying(votes, taken)...)
	said := nodesText(deleted) + " deleted its key"
	if len(without) > 0 {
		said += ", and " + nodesText(without) + " had none of it"
	}
	switch {
	case err == nil:
		c.say(good, " has released the lock: %s.", said)
	case errors.Is(err, redlock.ErrLost):
		c.say(bad, " releases a lock that it did not have any more: its work was not protected to the end.")
	default:
		c.say(bad, " has released the lock, but too few nodes confirm it: %s. "+
			"The others drop the key when its time is over.", said)
	}
}

// check looks whether the lock has ended.
func (c *client) check(now time.Time) {
	if c.lock == nil || c.lock.Err() == nil {
		return
	}
	err := c.lock.Err()
	if c.awake != nil {
		if !c.overdue {
			c.overdue = true
			c.say(bad, "'s lock has ended: its time is over. %s is suspended, and does not know.", c.name)
		}
		return
	}
	wasKept, overdue := c.keeping != nil, c.overdue
	c.lock, c.overdue = nil, false
	c.stopKeeping()
	switch {
	case overdue || now.Sub(c.woke) < lookEvery*2: // resume has said so.
	case errors.Is(err, redlock.ErrExpired) && wasKept:
		c.say(bad, "'s lock has ended: no majority has extended it in time. It must stop its work.")
	case errors.Is(err, redlock.ErrExpired):
		c.say(info, "'s lock has ended, as its time is over. The nodes drop its key by themselves.")
	default:
		c.say(bad, " has lost its lock: a majority says that the key is gone or another's. It must stop its work.")
	}
}
