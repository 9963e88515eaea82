package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// What clients and their Redlocks tell becomes sentences here.

// A vote is what a node said in a round.
type vote struct {
	Node string `json:"node"`
	Says string `json:"says"` // yes, pending, or why not
	Who  string `json:"who,omitempty"`
	Took int64  `json:"took"` // ms
}

// An extension is one that has succeeded.
type extension struct {
	at   time.Time // When it was heard of.
	took time.Duration
	yes  []string // The nodes that granted it.
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
	switch e.Kind {
	case redlock.EventDecided, redlock.EventSettled:
		c.voted(e)
	case redlock.EventAcquired:
		select {
		case c.granted <- c.heard[e.Call]:
		default: // Nobody came for the last one: the stage ends.
		}
		delete(c.heard, e.Call)
	case redlock.EventWaiting:
		c.waiting(e.Err)
	case redlock.EventExtended:
		c.kept(e, c.heard[e.Call])
	case redlock.EventReleased:
		votes := c.heard[e.Call]
		delete(c.heard, e.Call)
		c.st.wg.Go(func() { // It may be suspended, and hears of it when it goes on.
			if c.whenAwake() {
				c.released(e.Err, votes)
			}
		})
	case redlock.EventNotAcquired, redlock.EventHoldEnded:
		delete(c.heard, e.Call)
	}
}

func (c *client) voted(e redlock.Event) {
	p := c.st.p
	p.mu.Lock()
	defer p.mu.Unlock()
	votes := votesOf(e.Votes)
	if e.Kind == redlock.EventDecided {
		c.heard[e.Call] = votes
	}
	if c.awake == nil && c.st.ctx.Err() == nil {
		p.markRound(c, e, votes)
	}
}

// got is told that the client has the lock.
func (c *client) got(lock *redlock.Lock, votes []vote) {
	p := c.st.p
	p.mu.Lock()
	defer p.mu.Unlock()
	others := c.st.holders()
	said := saying(votes, yes)
	c.call, c.waits, c.overdue = nil, false, false
	c.lock, c.fence, c.yes, c.since, c.latest = lock, lock.Fence(), said, time.Now(), extension{}
	c.extended = false
	if lock.Err() != nil {
		c.overdue = true
		p.say(bad, c.name, "Client %s learns that it got the lock while it stood still, and that its time is over.", c.name)
		return
	}
	if len(others) > 0 {
		c.st.readKeys()
		first, ignorant := others[0], len(c.st.nodes)-len(c.st.nodesOf(others[0].name))
		p.say(bad, c.name, "%s clients have the lock! %s said yes to client %s, though client %s has it for another %s: "+
			"%s of five nodes know nothing of %s. This is why nodes that lose their keys must be quarantined.",
			count(1+len(others)), capital(nodesText(said)), c.name, first.name, seconds(time.Until(first.lock.Until())), number(ignorant), first.name)
		return
	}
	p.say(good, c.name, "Client %s has the lock: %s said yes, which %s %d of 5. It is valid for %s.",
		c.name, nodesText(said), verb(said, "is", "are"), len(said), seconds(time.Until(lock.Until())))
	if c.keepIt {
		c.keep(true)
	}
}

// refused is told that the client gets no lock.
func (c *client) refused(err error) {
	p := c.st.p
	p.mu.Lock()
	defer p.mu.Unlock()
	waited := c.waits
	c.call, c.waits = nil, false
	var failed *redlock.QuorumError
	switch {
	case errors.Is(err, context.Canceled) && waited:
		p.say(info, c.name, "Client %s gives up, and leaves the line.", c.name)
	case errors.Is(err, context.Canceled):
		p.say(info, c.name, "Client %s gives up.", c.name)
	case errors.As(err, &failed):
		c.refusal = votesOf(failed.Votes)
		p.say(bad, c.name, "Client %s gets no lock: %s. So no majority has said yes. Better no lock than two.", c.name, why(c.refusal))
	default:
		p.say(bad, c.name, "Client %s gets no lock: %v.", c.name, err)
	}
}

// waiting is told whenever the client has to wait, and says so once.
func (c *client) waiting(err error) {
	p := c.st.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.call == nil || c.awake != nil {
		return
	}
	var failed *redlock.QuorumError
	if errors.As(err, &failed) {
		c.refusal = votesOf(failed.Votes)
	}
	if c.waits {
		return
	}
	c.waits = true
	if failed == nil {
		p.say(info, c.name, "Client %s waits in line.", c.name)
		return
	}
	switch because := why(c.refusal); {
	case len(saying(c.refusal, quarantined)) > 0:
		p.say(bad, c.name, "Client %s must wait: %s. So there is no second holder.", c.name, because)
	case len(saying(c.refusal, taken)) > 0:
		p.say(info, c.name, "Client %s must wait: %s. It stands in line, and is told of a release.", c.name, because)
	default:
		p.say(info, c.name, "Client %s must wait: %s. It tries again soon.", c.name, because)
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

// kept is told how an extension has ended.
func (c *client) kept(e redlock.Event, votes []vote) {
	p, err := c.st.p, e.Err
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.state() != "holds" || c.awake != nil || c.keeping == nil || errors.Is(err, redlock.ErrLost) {
		return // check tells of a loss.
	}
	said := saying(votes, yes)
	if err == nil {
		c.latest = extension{time.Now(), e.Took, said}
	}
	if err == nil && !c.extended {
		p.say(good, c.name, "Client %s has extended its lock, and goes on doing so: %s said yes, so it is valid for another %s.",
			c.name, nodesText(said), seconds(time.Until(c.lock.Until())))
	}
	var failed *redlock.QuorumError
	if errors.As(err, &failed) {
		p.sayOnce(bad, c.name, fmt.Sprintf("Client %s cannot extend its lock: %s. It has it until its time is over, and keeps trying.",
			c.name, why(votesOf(failed.Votes))))
	}
	c.extended = err == nil
}

// released is told how an Unlock has ended.
func (c *client) released(err error, votes []vote) {
	p := c.st.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.st.ctx.Err() != nil {
		return // The stage ends, which has released it.
	}
	deleted, without := saying(votes, yes), append(saying(votes, gone), saying(votes, taken)...)
	said := fmt.Sprintf("%s %s deleted its key", nodesText(deleted), verb(deleted, "has", "have"))
	if len(without) > 0 {
		said += fmt.Sprintf(", and %s had none of it", nodesText(without))
	}
	switch {
	case err == nil:
		p.say(good, c.name, "Client %s has released the lock: %s.", c.name, said)
	case errors.Is(err, redlock.ErrLost):
		p.say(bad, c.name, "Client %s releases a lock that it did not have any more: its work was not protected to the end.", c.name)
	default:
		p.say(bad, c.name, "Client %s has released the lock, but too few nodes confirm it: %s. The others drop the key when its time is over.",
			c.name, said)
	}
}

// check looks whether the lock has ended. The caller has p.mu.
func (c *client) check(now time.Time) {
	if c.lock == nil || c.lock.Err() == nil {
		return
	}
	p, err := c.st.p, c.lock.Err()
	if c.awake != nil {
		if !c.overdue {
			c.ended = c.lock.Until()
			p.say(bad, c.name, "Client %s's lock has ended: its time is over. %s is suspended, and does not know.", c.name, c.name)
		}
		c.overdue = true
		return
	}
	wasKept, overdue := c.keeping != nil, c.overdue
	c.ended = c.lock.Until()
	c.lock, c.overdue = nil, false
	c.stopKeeping()
	switch {
	case overdue || now.Sub(c.woke) < lookEvery*2: // resume has said so.
	case errors.Is(err, redlock.ErrExpired) && wasKept:
		p.say(bad, c.name, "Client %s's lock has ended: no majority has extended it in time. It must stop its work.", c.name)
	case errors.Is(err, redlock.ErrExpired):
		p.say(info, c.name, "Client %s's lock has ended, as its time is over. The nodes drop its key by themselves.", c.name)
	default:
		p.say(bad, c.name, "Client %s has lost its lock: a majority says that the key is gone or another's. It must stop its work.", c.name)
	}
}
