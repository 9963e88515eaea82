package node

import "time"

// This file is about keys that vanish: a node has said that it has a token's keys, and says later that it does not,
// although they could not have expired yet and no release of the token has asked for it. It has been flushed, or
// restarted without its data, it evicts keys, its clock was set forward, or somebody else has deleted them.
//
// So each yes to a lock request, an extension or a repair notes how long the keys live at least: for its validity (the
// ttl less the drift allowance) after the request was written. The node's next answer about the keys is compared with
// that when it arrives, which is later than when the node gave it. A request without an answer notes nothing. So a lost
// packet, a broken connection or an extension that failed makes no key seem to have vanished.
//
// The times are in the node's epoch, with the time that the machine has slept: keys go on to expire meanwhile.

// readEvery is how often the writer reads the clocks: to read them for each request would cost a percent of all. The keys
// of a request that is sent after a sleep which was not seen yet are noted to end too early, so an expired key never
// counts as vanished.
const readEvery = time.Second

// vanished is what a node needs to see that keys have vanished.
type vanished struct {
	clock func(time.Time) (time.Time, time.Duration) // Config.Clock
	epoch time.Time                                  // the node's
	slept time.Duration                              // how far the monotonic clock was behind when last read
	woke  time.Duration                              // when slept was seen to have grown, since the epoch
	read  time.Duration                              // when the clocks were last read, since the epoch
}

// readClocks reads the clocks, and returns how far the monotonic one is behind.
func (v *vanished) readClocks(now time.Time) (lead time.Duration) {
	if v.clock == nil {
		return 0
	}
	at, lead := v.clock(now)
	if lead > v.slept {
		v.slept, v.woke = lead, at.Sub(v.epoch)
	}
	v.read = at.Sub(v.epoch)
	return lead
}

// hear takes the node's answer about the keys of q's token, which came now, and reports whether the keys have vanished.
func (v *vanished) hear(q *Request, out *Outcome, now time.Time) (lost bool) {
	if q.Kind != Release && q.Lives == 0 {
		return false // A raise says nothing of the keys' life, and its refusal may be about the counter.
	}
	until := &q.place().until
	switch {
	case q.Kind != Release && out.Stance == Yes:
		// A request from before a sleep that has ended meanwhile tells nothing: the keys may have lived through it.
		if q.sent >= v.woke {
			*until = max(*until, after(q.sent+v.slept, q.Lives))
		}
		return false
	case q.Kind != Release && out.Stance == Silent:
		return false
	case *until != 0 && (out.Stance == No || out.Stance == Gone) && now.Sub(v.epoch)+v.readClocks(now) < *until:
		lost = true
	}
	*until = 0 // Counted once for each loss. After a release they may be gone.
	return lost
}
