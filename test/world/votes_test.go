package world

import (
	"errors"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// Polls are what the votes of a node say of it, as docs of redlock.NodeStats have it: three in a row over three seconds
// change whether it counts as unresponsive. After a refused write only a write that was tried speaks for it.
type polls struct {
	reported, refused bool
	row               int           // votes that speak against reported
	last              error         // why there was none
	first, since      time.Duration // of these, and of those by which it was reported
	told, well        int           // facts that are due: told too seldom, and too often
}

const votesToTell, timeToTell = 3, 3 * time.Second

// vote takes why there is none, nil if there is one.
func (p *polls) vote(why error, tried bool, at time.Duration) {
	miss := why != nil
	switch {
	case miss:
		p.last, p.refused = why, p.refused || !errors.Is(why, node.ErrTimeout)
	case p.refused && !tried:
		return
	default:
		p.refused = false
	}
	if miss == p.reported {
		p.row = 0
	} else {
		p.against(miss, at)
	}
}

func (p *polls) against(miss bool, at time.Duration) {
	if p.row++; p.row == 1 {
		p.first = at
	}
	if p.row < votesToTell || at-p.first < timeToTell {
		return
	}
	p.reported, p.row = miss, 0
	if miss {
		p.since = p.first
		p.told++
	} else {
		p.well--
	}
}

// down is for a connection that has ended, which is another thing. The same again is told at once.
func (p *polls) down() {
	if p.reported {
		p.reported, p.row, p.first = false, votesToTell, p.since
	}
}

// isOpen reports whether a vote may change what the node counts as.
func (p *polls) isOpen() bool { return p.reported || p.refused || p.row > 0 }

// voted has a round count a vote.
func (w *world) voted(miss bool, out node.Outcome) {
	w.done.votes++
	switch {
	case !miss:
		w.polls.vote(nil, false, w.now)
	case w.n.State() == node.Up:
		w.polls.vote(out.Err, false, w.now)
	}
	w.n.Voted(&out, w.at())
	w.after()
}

// mayVote reports whether a round may have asked the node just now: then its watchdog is awake.
func (w *world) mayVote() bool {
	return w.done.votes < w.votes && (w.c == nil || w.alarm <= w.now+node.WatchInterval)
}

// pass has a second pass, in which all is answered. A node of which something is open is asked for a sign of life.
func (w *world) pass(busy bool) {
	for end := w.now + time.Second; w.now < end && w.broken == "" && w.c != nil; {
		switch {
		case w.flow():
		case w.alarm > 0 && w.alarm <= end:
			if busy {
				w.ask(w.attempts[0], node.Ask, extend)
			}
			w.watch()
		default:
			w.now = end
		}
	}
	if since := max(w.sign, w.polls.first); w.c != nil && w.polls.row > 0 && w.now-since > 3*time.Second/2 && (w.polls.refused || w.now-w.lastReply > 3*time.Second/2) {
		w.wrong("a node of which something is open is not asked for a sign of life")
	}
}
