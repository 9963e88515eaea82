package main

import (
	"strings"
	"time"
)

// Keys are looked at so often, past the proxies of the course.
const sampleEvery = 50 * time.Millisecond

// unseen is how far two looks may be apart for nothing to have happened between them.
const unseen = 4 * sampleEvery

// tidied is how long keys may still be there that nobody has a use for.
const tidied = time.Second

// patienceOfWaiters is how long a lock may be free while somebody waits for it, where waiters are woken up.
const patienceOfWaiters = time.Second

// A sample is what a node had in the key of a resource, "" if nothing.
type sample struct {
	at              int64
	node            int
	resource, value string
}

// orphans counts keys that stayed for longer than tidied on a node that worked, although the call that made them was
// over and its process lived: left by a call that failed, and by a release that returned.
func (h *ran) orphans(samples []sample) (failed, released int) {
	type key struct {
		node  int
		value string
	}
	type stay struct{ since, last int64 }
	owners := h.owners()
	stays := make(map[key]stay)
	for _, s := range samples {
		k := key{s.node, s.value}
		at := stays[k]
		after, orphan := h.orphan(s, owners[s.value])
		if at.since == never || s.value == "" || !orphan {
			continue
		}
		if s.at-at.last > int64(unseen) || h.faulty(s) {
			at.since = s.at
		}
		at.last = s.at
		if s.at-at.since > int64(tidied) {
			at.since = never // It is counted once.
			if after == afterRelease {
				released++
			} else {
				failed++
			}
		}
		stays[k] = at
	}
	return failed, released
}

const (
	afterFailure = iota
	afterRelease
)

// owners are the calls that made the values that are known.
func (h *ran) owners() map[string]*call {
	owners := make(map[string]*call)
	for _, c := range h.calls {
		for _, value := range strings.Split(c.token, ",") {
			owners[value] = c
		}
	}
	return owners
}

// orphan reports whether what was seen is one, and of what kind. What no call has told of is that of one which has
// not returned.
func (h *ran) orphan(s sample, owner *call) (after int, orphan bool) {
	if owner == nil {
		return 0, false
	}
	after, end := h.useful(owner)
	return after, end < s.at
}

// useful is until when the key of a call may be there.
func (h *ran) useful(c *call) (after int, end int64) {
	end, after = c.to, afterFailure
	if l := h.locks[c.callID]; l != nil {
		end, after = l.gone, afterRelease
	}
	if down, ok := h.downs[c.client]; ok && end == never {
		end = down + h.ttl // It was killed with it.
	}
	return after, end
}

// faulty reports whether something was wrong with the node.
func (h *ran) faulty(s sample) bool {
	for _, f := range h.faults {
		if (f.node == s.node || f.node < 0) && f.from <= s.at && s.at < f.to {
			return true
		}
	}
	return false
}

// forgotten counts the calls that waited while for a while, without any fault, no node had a key of their resource.
func (h *ran) forgotten(samples []sample) (n int) {
	for _, c := range h.calls {
		if c.op == "lock" && h.slept(c, samples) {
			n++
		}
	}
	return n
}

func (h *ran) slept(c *call, samples []sample) bool {
	end := c.to
	if down, ok := h.downs[c.client]; ok {
		end = min(end, down)
	}
	free, last := int64(0), int64(0) // Since when it is, as far as is known.
	for _, s := range samples {      // In the order of time.
		switch {
		case s.resource != c.resource || s.at < c.from:
			continue
		case s.at > end:
			return false
		case s.value != "" || s.at-last > int64(unseen) || h.troubled(c, s.at):
			free = s.at
		case s.at-free > int64(patienceOfWaiters):
			return true
		}
		last = s.at
	}
	return false
}

// troubled reports whether anything was wrong then, or just had been.
func (h *ran) troubled(c *call, at int64) bool {
	for _, f := range h.faults {
		if f.from <= at && at < f.to+int64(patienceOfWaiters) {
			return true
		}
	}
	for _, f := range h.frozen[c.client] {
		if f.from <= at && at < f.to+int64(patienceOfWaiters) {
			return true
		}
	}
	return false
}
