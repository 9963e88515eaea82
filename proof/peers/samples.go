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
	owners := make(map[string]*call) // Of the values that are known.
	for _, c := range h.calls {
		for _, value := range strings.Split(c.token, ",") {
			owners[value] = c
		}
	}
	stays := make(map[key]stay)
	for _, s := range samples {
		k, c := key{s.node, s.value}, owners[s.value]
		at := stays[k]
		if at.since == never || s.value == "" || c == nil || s.at <= c.useful(h.ttl) {
			continue
		}
		if s.at-at.last > int64(unseen) || h.wrong(s.at, 0, s.node) {
			at.since = s.at
		}
		at.last = s.at
		if s.at-at.since > int64(tidied) {
			at.since = never // It is counted once.
			if c.locked {
				released++
			} else {
				failed++
			}
		}
		stays[k] = at
	}
	return failed, released
}

// useful is until when the key of a call may be there. What has not returned when its process is killed leaves one.
func (c *call) useful(ttl int64) int64 {
	end := c.to
	if c.locked {
		end = c.gone
	}
	if end == never && c.down != never {
		end = c.down + ttl
	}
	return end
}

// slept reports whether a call waited while for a while, without any fault, no node had a key of its resource.
func (h *ran) slept(c *call, samples []sample) bool {
	free, last := int64(0), int64(0) // Since when it is, as far as is known.
	for _, s := range samples {      // In the order of time.
		switch {
		case s.resource != c.resource || s.at < c.from:
			continue
		case s.at > min(c.to, c.down):
			return false
		case s.value != "" || s.at-last > int64(unseen) || h.wrong(s.at, patienceOfWaiters, -1):
			free = s.at
		case s.at-free > int64(patienceOfWaiters):
			return true
		}
		last = s.at
	}
	return false
}
