package redlock

import (
	"sync/atomic"
	"time"
)

// A tokenState is what is known of the traces that a token has left on every node. A
// token is made for one attempt and never used again: with one token over several
// attempts, what is late of an earlier attempt would act on a later one.
type tokenState struct {
	owner tokenOwner
	life  atomic.Int64 // the ttl in ns, the longest one after extensions
	marks []mark       // by node; marks[i] is guarded by the mutex of node i
	size  int          // of another process's token: about the bytes that are kept for it; constant
}

// A tokenOwner says how its token is released. Called under a node's mutex.
type tokenOwner interface {
	// releaseCommand is the release to send at the time now.
	releaseCommand(now time.Time) command

	// wakeReader gets the answer to a release for which no round waits; nil: nobody does.
	wakeReader() voter
}

// begin sets up the state of a token that is to live for ttl on so many nodes.
func (t *tokenState) begin(owner tokenOwner, nodes int, ttl time.Duration) {
	t.owner, t.marks = owner, make([]mark, nodes)
	t.life.Store(int64(ttl))
}

// A mark says what a claim may have left on one node.
type mark uint8

const (
	// markSent: a lock request was handed to the connection, and neither a
	// refusal nor the answer to a release has shown that it left nothing. Or an
	// extension has found the keys.
	markSent mark = 1 << iota

	// markReleased: a release was queued. A lock request, an extension or a repair
	// that is still to be sent must not be.
	markReleased

	// markOwed: the claim's release is among those that the node is owed.
	markOwed

	// markConfirmed: a release has removed the claim from the node.
	markConfirmed

	// markUnheard: the answer to a release was lost with its connection, so the
	// claim may have been removed by it.
	markUnheard

	// markForeign: the token is another process's, by Release. So no lock request of
	// this client has bounded what the node is to be told, and a full backlog refuses it.
	markForeign
)

// releasedLocked notes the answer of node i to a release, and returns what it
// counts as: a release that finds nothing after an earlier one of the same claim
// only repeats that one. The node's mu is held.
func (t *tokenState) releasedLocked(i int, out outcome) outcome {
	m := &t.marks[i]
	if out.stance == yes || *m&(markConfirmed|markUnheard) != 0 {
		*m |= markConfirmed
		out.stance, out.err = yes, nil
	}
	*m &^= markUnheard
	return out
}

// heard returns the mark after the answer to a request of the given kind.
func (m mark) heard(kind requestKind, out outcome) mark {
	refused := kind == lockKind && (out.stance == no || out.stale || out.abstained)
	released := kind == releaseKind && out.stance != silent
	switch {
	case refused || released:
		return m &^ markSent // Nothing of the claim is on the node.
	case out.stance == yes:
		return m | markSent // Also if its lock request was once refused there: it has run again.
	}
	return m
}

// grow notes that the token's keys may have been given ttl to live. Before the
// request is sent: it counts even if no answer comes.
func (t *tokenState) grow(ttl time.Duration) {
	for {
		life := t.life.Load()
		if life >= int64(ttl) || t.life.CompareAndSwap(life, int64(ttl)) {
			return
		}
	}
}

// longest is the longest ttl that the token's keys may have been given.
func (t *tokenState) longest() time.Duration { return time.Duration(t.life.Load()) }
