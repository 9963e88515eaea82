package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	left time.Duration
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
		votes[i] = vote{Node: string(rune('1' + i)), Who: v.Owner, Took: v.Took.Milliseconds(), left: v.HolderTTL}
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
		case c.granted <- struct{}{}:
		default: // Nobody came for the last one: the stage ends.
		}
	case redlock.EventWaiting:
		c.waiting(e.Err)
	case redlock.EventExtended:
		c.kept(e.Err)
	}
}

func (c *client) voted(e redlock.Event) {
	p := c.st.p
	p.mu.Lock()
	defer p.mu.Unlock()
	votes := votesOf(e.Votes)
	if e.Kind == redlock.EventDecided {
		c.decided = votes
	}
	if c.awake == nil && c.st.ctx.Err() == nil {
		p.markRound(c, e, votes)
	}
}

// got is told that the client has the lock.
func (c *client) got(lock *redlock.Lock) {
	p := c.st.p
	p.mu.Lock()
	defer p.mu.Unlock()
	others := c.st.holders()
	c.call, c.waits, c.overdue = nil, false, false
	c.lock, c.fence = lock, lock.Fence()
	said := saying(c.decided, yes)
	if lock.Err() == nil && len(others) > 0 {
		first, ignorant := others[0], len(c.st.nodes)-len(c.st.nodesOf(others[0].name))
		p.say(bad, c.name, "Two clients have the lock! %s said yes to client %s, though client %s has it for another %s: "+
			"%s of five nodes know nothing of %s. This is why nodes that lose their keys must be quarantined.",
			capital(nodesText(said)), c.name, first.name, seconds(time.Until(first.lock.Until())), number(ignorant), first.name)
		return
	}
	p.say(good, c.name, "Client %s has the lock: %s said yes, which %s %d of 5. It is valid for %s.",
		c.name, nodesText(said), verb(said, "is", "are"), len(said), seconds(time.Until(lock.Until())))
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
		p.say(bad, c.name, "Client %s gets no lock: %s. So no majority can say yes. Better no lock than two.",
			c.name, p.why(votesOf(failed.Votes)))
	default:
		p.say(bad, c.name, "Client %s gets no lock: %v.", c.name, err)
	}
}

// waiting is told whenever the client has to wait, and says so once.
func (c *client) waiting(err error) {
	p := c.st.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.call == nil || c.waits || c.awake != nil {
		return
	}
	c.waits = true
	var failed *redlock.QuorumError
	if !errors.As(err, &failed) {
		p.say(info, c.name, "Client %s waits in line.", c.name)
		return
	}
	votes := votesOf(failed.Votes)
	switch {
	case len(saying(votes, quarantined)) > 0:
		p.say(bad, c.name, "Client %s must wait: %s. So there is no second holder.", c.name, p.why(votes))
	case len(saying(votes, taken)) > 0:
		p.say(info, c.name, "Client %s must wait: %s. It stands in line, and is told of the release.", c.name, p.why(votes))
	default:
		p.say(info, c.name, "Client %s must wait: %s. It tries again soon.", c.name, p.why(votes))
	}
}

// why says what kept nodes from saying yes.
func (p *playground) why(votes []vote) string {
	var parts []string
	for _, who := range append(clientNames, "") {
		held := slices.DeleteFunc(slices.Clone(votes), func(v vote) bool { return v.Says != taken || v.Who != who })
		if nodes := saying(held, taken); len(nodes) > 0 && who != "" {
			parts = append(parts, fmt.Sprintf("client %s has the key on %s", who, nodesText(nodes)))
		} else if len(nodes) > 0 {
			parts = append(parts, fmt.Sprintf("%s %s it for the next in line", nodesText(nodes), verb(nodes, "keeps", "keep")))
		}
	}
	if nodes := saying(votes, quarantined); len(nodes) > 0 {
		var left time.Duration
		for _, v := range votes {
			if v.Says == quarantined {
				left = max(left, v.left)
			}
		}
		parts = append(parts, fmt.Sprintf("%s %s in quarantine for another %s", nodesText(nodes), verb(nodes, "is", "are"), seconds(left)))
	}
	for _, says := range []struct{ vote, one, many string }{
		{unreached, unreached, "cannot be reached"},
		{late, "did not answer in time", "did not answer in time"},
		{gone, "has lost the key", "have lost the key"},
	} {
		if nodes := saying(votes, says.vote); len(nodes) > 0 {
			parts = append(parts, nodesText(nodes)+" "+verb(nodes, says.one, says.many))
		}
	}
	return cmp.Or(strings.Join(parts, "; "), "too few nodes said yes")
}

// kept is told how an extension has ended.
func (c *client) kept(err error) {
	p := c.st.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.lock == nil || c.awake != nil || c.keeping == nil || errors.Is(err, redlock.ErrLost) {
		return // check tells of a loss.
	}
	if err == nil && !c.extended {
		said := saying(c.decided, yes)
		p.say(good, c.name, "Client %s has extended its lock, and goes on doing so: %s said yes, so it is valid for another %s.",
			c.name, nodesText(said), seconds(time.Until(c.lock.Until())))
	}
	var failed *redlock.QuorumError
	if errors.As(err, &failed) && (c.extended || time.Until(c.lock.Until()) > 0) {
		p.sayOnce(bad, c.name, fmt.Sprintf("Client %s cannot extend its lock: %s. It has it until its time is over, and keeps trying.",
			c.name, p.why(votesOf(failed.Votes))))
	}
	c.extended = err == nil
}

// released is told how an Unlock has ended.
func (c *client) released(err error) {
	p := c.st.p
	p.mu.Lock()
	defer p.mu.Unlock()
	said := saying(c.decided, yes)
	switch {
	case err == nil:
		p.say(good, c.name, "Client %s has released the lock: %s deleted its key, and told the next in line if there was one.", c.name, nodesText(said))
	case errors.Is(err, redlock.ErrLost):
		p.say(bad, c.name, "Client %s releases a lock that it did not have any more: its work was not protected to the end.", c.name)
	default:
		p.say(bad, c.name, "Client %s has released the lock, but too few nodes confirm it. The others drop the key when its time is over.", c.name)
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
			p.say(bad, c.name, "Client %s's lock has ended, by the clock and on the nodes. %s is suspended, and does not know.", c.name, c.name)
		}
		c.overdue = true
		return
	}
	wasKept, overdue := c.keeping != nil, c.overdue
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
