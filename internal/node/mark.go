package node

// This file is about what a token may have left on one node, from its first request to its last. All changes to that
// are in After, and nowhere else.

// A Mark says what a token may have left on one node.
type Mark uint8

const (
	// MarkSent says that a lock request was handed to the connection, and neither a refusal nor the answer to a
	// release has shown that it left nothing. Or an extension has found the keys.
	MarkSent Mark = 1 << iota

	// MarkReleased says that a release was asked for. A lock request, an extension or a repair
	// that is still to be sent must not be.
	MarkReleased

	// MarkConfirmed says that a release has removed the token from the node.
	MarkConfirmed

	// MarkHeld says that the node has reported that it had the token's keys.
	MarkHeld

	// markUnheard says that a release may have removed the token: its answer was lost with its connection, or does not
	// say.
	markUnheard

	// markUnknown says that a request that would undo a release has an unknown outcome, so it may come late. The mark
	// stays forever: a later yes or no, or an answered release, says nothing about that request.
	markUnknown

	// markDue says that the token's release is in the list of releases to be sent again. dueReleases sets it, as it is
	// about that list and not about the node.
	markDue
)

// A Happening is an event in the life of a request.
type Happening uint8

// What may happen to a request.
const (
	Asked     Happening = iota // for a release: somebody wants it
	Written                    // it was handed to the connection
	SaidYes                    // its script was carried out
	SaidNo                     // it was carried out, and has found another token, or none
	Abstained                  // the node grants nothing now
	Nonsense                   // its answer is not one of the script's
	Unclear                    // no answer, or one from in between: it may have run, or may run yet
	Refused                    // the server has said that it was not carried out
)

// happened returns what a script's answer means for its request.
func happened(out *Outcome) Happening {
	switch {
	case out.Stance == Yes:
		return SaidYes
	case out.Stance != Silent:
		return SaidNo
	case out.Abstained:
		return Abstained
	default:
		return Nonsense
	}
}

// After returns the mark after something has happened to a request of that kind. revives: the request would undo a
// release.
func (m Mark) After(kind Kind, h Happening, revives bool) Mark {
	switch {
	case kind == Release:
		return m.afterRelease(h)
	case h == Written && (kind == LockRequest || kind == RepairRequest):
		return m | MarkSent
	case h == SaidYes:
		return m | MarkSent | MarkHeld // Even if its lock request was once refused there: it has run again.
	case kind == LockRequest && (h == SaidNo || h == Abstained || h == Refused):
		return m &^ MarkSent // Nothing of the token is on the node.
	case (h == Unclear || h == Nonsense) && revives:
		return m | markUnknown
	}
	return m
}

func (m Mark) afterRelease(h Happening) Mark {
	switch {
	case h == Asked:
		return m | MarkReleased
	case h == SaidYes, h == SaidNo && m&(MarkConfirmed|markUnheard) != 0: // An earlier release may have caused the no.
		return m&^(MarkSent|markUnheard) | MarkConfirmed
	case h == SaidNo:
		return m &^ MarkSent
	case h == Unclear, h == Nonsense:
		return m | markUnheard
	}
	return m
}

// mayBeOn reports whether a node with that mark may have, or get, keys of the token.
func (m Mark) mayBeOn() bool { return m&(MarkSent|markUnknown) != 0 }

// place returns what is known about the request's token on its node.
func (q *Request) place() *place { return &q.Trace.places[q.Index] }

// mark returns the mark of the request's token on its node.
func (q *Request) mark() Mark { return q.place().mark }

// note changes the mark after something has happened.
func (q *Request) note(h Happening) { q.Trace.note(q.Index, q.Kind, h, q.revives()) }

func (t *Trace) note(i uint16, kind Kind, h Happening, revives bool) {
	p := &t.places[i]
	p.mark = p.mark.After(kind, h, revives)
}

// heard notes the script's answer, and returns the outcome that it counts as.
func (q *Request) heard(out Outcome) Outcome {
	q.note(happened(&out))
	if q.Kind == Release && out.Stance != Silent && q.mark()&MarkConfirmed != 0 {
		out.Stance, out.Err = Yes, nil
	}
	return out
}
