package lease

import "time"

// A Hold says when a lease that is kept is to be extended, and when those who rely on it are to be told that it ends:
// at Until at the latest, whatever an extension that is under way is doing.
type Hold struct {
	Lease    *Lease
	Validity time.Duration // that an extension gives
	StopTime time.Duration // so long before Until they are told, if it was not extended by then
	MaxHold  time.Duration // since Start, after which they are told in any case; 0: never
	Cause    Verdict       // why they were told; Undecided: they were not

	next      time.Time // when the next extension is to begin; zero: none is planned
	extending bool      // one is under way
	warned    bool      // since the last one that succeeded
	left      bool      // the lease has ended, and so nothing is due any more
}

// share is the part of its term after which a hold extends, and for which it waits for the answers: if the first
// extension is lost, there is time for a second one.
const share = 3

// Patience is for how long a hold waits for the answers to an extension.
func (h *Hold) Patience() time.Duration { return h.Term() / share }

// Term is for how long after an extension a hold goes on without another one.
func (h *Hold) Term() time.Duration { return h.Validity - h.StopTime }

// remaining returns the time until the contexts must end, unless a limit or a loss ends them earlier.
func (h *Hold) remaining(now time.Time) time.Duration {
	return h.Lease.Until.Remaining(h.Lease.Clock(now)) - h.StopTime
}

// Check returns why the hold is over, or must end now; Undecided if it goes on.
func (h *Hold) Check(now time.Time) Verdict {
	v := h.Lease.Check(now)
	switch {
	case v != Undecided:
		return v
	case h.Cause != Undecided:
		return h.Cause
	case h.MaxHold > 0 && now.Sub(h.Lease.Start) >= h.MaxHold:
		return MaxHold
	case h.remaining(now) <= 0:
		return StopTime
	}
	return Undecided
}

// Keep plans an extension, unless one is planned or under way.
func (h *Hold) Keep(now time.Time) {
	if h.next.IsZero() && !h.extending {
		h.next = h.due(now)
	}
}

// due returns when the next extension begins: one pace after the last one, or earlier, when no more is left than the
// validity less a pace. Without the second rule, an Extend by a short ttl would put the next extension off beyond Until.
// A pace is random, a bit less than a third of the term: locks taken together must not be extended together forever.
func (h *Hold) due(now time.Time) time.Time {
	third := h.Term() / share
	pace := third - h.Lease.Random(third/10+1)
	left := h.Lease.Until.Remaining(h.Lease.Clock(now)) // Less than Until.Mono says, after a sleep.
	after, before := h.Lease.Extended.Add(pace), now.Add(left+pace-h.Validity)
	if before.Before(after) {
		return before
	}
	return after
}

// Due returns how long after now Tick must be called, unless never.
func (h *Hold) Due(now time.Time) (d time.Duration, any bool) {
	if h.left || h.Lease.Release != Held {
		return 0, false
	}
	d = h.remaining(now)
	switch {
	case h.Lease.Ended != Undecided:
		return 0, true
	case h.Cause != Undecided: // The lease itself goes on to Until.
		return max(d+h.StopTime, 0), true
	case h.MaxHold > 0:
		d = min(d, h.Lease.Start.Add(h.MaxHold).Sub(now))
	}
	if !h.next.IsZero() {
		d = min(d, h.next.Sub(now))
	}
	return max(d, 0), true
}

// Tick is the timer. It may come at any time, and does nothing once the lease's release has begun, which ends the hold.
// wanted is whether somebody still relies on the lease: if not, it is not extended.
func (h *Hold) Tick(now time.Time, wanted bool) (e Effect) {
	if h.Lease.Release != Held {
		return 0
	}
	if why := h.Check(now); why != Undecided && h.Over(why) {
		e = Inform
	}
	switch {
	case h.Lease.Ended != Undecided:
		e |= Leave
		h.left = true
	case !h.next.IsZero() && !now.Before(h.next):
		h.next, h.extending = time.Time{}, wanted
		if wanted {
			e |= Extend
		}
	}
	return e
}

// Over ends the hold, and reports whether it had not ended before.
func (h *Hold) Over(why Verdict) bool {
	if h.Cause != Undecided {
		return false
	}
	h.Cause, h.next = why, time.Time{}
	return true
}

// Extended is called when an extension for which Tick has asked has ended, by success or not. It reports whether those
// who rely on the lease are to be warned.
func (h *Hold) Extended(success bool, now time.Time) (atRisk bool) {
	h.extending = false
	switch {
	case h.Cause != Undecided || h.Lease.Ended != Undecided:
	case success:
		h.warned, h.next = false, h.due(now)
	default:
		h.next = now.Add(min(h.Term()/20, time.Second))
		atRisk = !h.warned && h.remaining(now) < h.Term()/2
		h.warned = h.warned || atRisk
	}
	return atRisk
}

// Jumped is called when the clock's lead has grown, be it by slewing: the next extension may be overdue.
func (h *Hold) Jumped(now time.Time) {
	if !h.next.IsZero() && h.remaining(now) < h.Term()*3/5 {
		h.next = now
	}
}
