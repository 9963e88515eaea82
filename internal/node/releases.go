package node

import "time"

// This file is about releases that are sent again. There are three reasons:
//
//   - One was not answered, or could not be sent: the node is owed it. It goes first on the next connection.
//   - The node has refused one (BUSY, a full disk). It is sent again 20 ms later, then 40, 80 and so on, up to
//     about a second.
//   - Something may come late: when a connection ends, each lock request in flight may have run, may still run,
//     or never will. The same holds if something in between has answered with an error or nonsense. A buffer or a
//     proxy may deliver it a minute later, and its key would stay for the ttl. With a min hold, a late extension would
//     give the keys that the release has left a whole ttl. So the release is repeated after it was carried out: 20 ms
//     later, then 40, 80 and so on, a look asks for the keys, and found ones are released. A request that is late by t is
//     undone by about 2t. Before the min hold is over, that release also leaves the keys.
//
// A release deletes only keys that hold its own token, which is dead and never used again. So it may be sent any number
// of times, and exclusion does not depend on it. Nothing else is taken away, in particular no key of a token whose
// release nobody has asked for: it may be held, and an extension or a repair may have made this node a counted vote
// since. The search of test/world runs this code and finds what goes wrong otherwise. The tempting alternative is to
// make the node refuse late requests: every lock request would have to look at one more key.

const (
	// firstGap is between the answer to a release and the next one. Each further gap is twice the one before.
	firstGap = 20 * time.Millisecond

	// maxStep is where the gaps stop growing: beyond the longest life of any lock. For releases that were
	// refused it is maxOpenStep, about a second: the key is there, and the node will change its mind.
	maxStep, maxOpenStep = 32, 7

	// maxLook bounds the keys in one look, except those of a single token.
	maxLook = 64

	// MaxForeign bounds the bytes that are kept for other processes' tokens: the keys of one may be half a
	// megabyte, and a node may be down for days.
	MaxForeign = 64 << 20
)

// A dueRelease is a release to send again to one node.
type dueRelease struct {
	next  *dueRelease
	trace *Trace
	index uint16
	step  uint8         // how many gaps there were since open changed; 0: the node is owed it
	open  bool          // it is not known to be carried out, or the last one was refused
	at    time.Duration // since the node's epoch: when it is due or, under way, when it was sent
	last  time.Duration // since the epoch: when nothing can be left of the keys, or come late
}

// dueReleases are the due releases of one node.
type dueReleases struct {
	queues [maxStep + 1]struct{ head, tail *dueRelease } // by step, and so each in the order in which they are due

	// These also count releases under way.
	len, open int
	owed      int // releases with step 0
	foreign   int // bytes that are kept for other processes' tokens

	out     int           // requests under way
	due     time.Duration // when the next release is due, since the node's epoch
	arms    bool          // Due must return due
	swept   time.Duration // when they were last swept, since the node's epoch
	dropped int64         // counter: releases for which there was no room
}

// mark returns its token's mark on the node.
func (e *dueRelease) mark() Mark { return e.trace.places[e.index].mark }

// push appends e to the queue of its step.
func (r *dueReleases) push(e *dueRelease) {
	l := &r.queues[e.step]
	if l.head == nil {
		l.head = e
	} else {
		l.tail.next = e
	}
	e.next, l.tail = nil, e
}

// pushNow makes e due at once, ahead of others of its step.
func (r *dueReleases) pushNow(e *dueRelease) {
	l := &r.queues[e.step]
	if l.head == nil {
		l.tail = e
	}
	e.at, e.next, l.head = 0, l.head, e
}

func (r *dueReleases) pop(step uint8) *dueRelease {
	e := r.queues[step].head
	if e != nil {
		r.queues[step].head = e.next
	}
	return e
}

// first returns the release that is due first, nil if there is none.
func (r *dueReleases) first() (first *dueRelease) {
	for i := range r.queues {
		if e := r.queues[i].head; e != nil && (first == nil || e.at < first.at) {
			first = e
		}
	}
	return first
}

// add makes an entry for a release that was not carried out yet. Releases that were repeated most often make room for
// it. If there is still none, a release of another process's token gets no entry, and add returns nil. This client's
// own always get one: its lock requests bound them.
func (r *dueReleases) add(t *Trace, index uint16, now time.Duration) *dueRelease {
	full := func() bool { return r.len >= MaxBacklog || t.size > 0 && r.foreign+t.size > MaxForeign }
	if full() {
		r.sweep(now)
	}
	for step := uint8(maxStep); r.len >= MaxBacklog && step > 0; {
		if e := r.pop(step); e != nil {
			r.forget(e)
			r.dropped++
		} else {
			step--
		}
	}
	if t.size > 0 && full() {
		r.dropped++
		return nil
	}
	t.places[index].mark |= markDue
	r.len++
	r.open++
	r.owed++
	r.foreign += t.size
	return &dueRelease{trace: t, index: index, open: true, last: after(now, t.lateness(true))}
}

// sweep forgets releases whose keys must be gone by now: for a node that is away they would pile up. It runs at most
// once a second.
func (r *dueReleases) sweep(now time.Duration) {
	if now-r.swept < time.Second {
		return
	}
	r.swept = now
	r.takeIf(func(e *dueRelease) bool {
		over := e.isOver(now)
		if over {
			r.forget(e)
		}
		return over
	})
}

// takeIf removes from the queues the releases for which taken is true.
func (r *dueReleases) takeIf(taken func(e *dueRelease) bool) {
	for step := range r.queues {
		e := r.queues[step].head
		for r.queues[step].head = nil; e != nil; {
			next := e.next
			if !taken(e) {
				r.push(e)
			}
			e = next
		}
	}
}

// isOver reports whether nothing can be left of the keys although the release was not carried out.
func (e *dueRelease) isOver(now time.Duration) bool { return e.open && now >= e.last }

// forget ends e, which is in no queue.
func (r *dueReleases) forget(e *dueRelease) {
	e.trace.places[e.index].mark &^= markDue
	r.len--
	r.foreign -= e.trace.size
	if e.step == 0 {
		r.owed--
	}
	if e.open {
		r.open--
	}
}

// hurry makes all releases due at once.
func (r *dueReleases) hurry() {
	r.takeIf(func(e *dueRelease) bool {
		e.at = 0
		return false
	})
}
