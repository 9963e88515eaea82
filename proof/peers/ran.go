package main

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// A ran course is its history, put in order: what was called, what was held, and what went wrong when.
type ran struct {
	end    int64
	ttl    int64
	calls  []*call
	faults []fault
}

type callID struct {
	client string
	call   int
}

const never = math.MaxInt64

// A call, and the lock that it got. It ends at never if it did not return.
type call struct {
	span

	callID
	op, resource, token string
	told                time.Duration // To wait for others.
	down                int64         // When its process was killed.

	locked         bool
	untils         []span // From when the library said so to the validity that it said.
	released, lost int64  // When the release was asked for, and the loss was signalled.
	gone           int64  // When the release returned.
}

// says notes that the lock is valid until then, as was said at that time.
func (c *call) says(at, until int64) {
	if until > 0 {
		c.untils = append(c.untils, span{at, until})
	}
}

// A fault is a time in which something was wrong, with a node (-1: with no single one).
type fault struct {
	span

	node   int
	frozen string // The client that was.
}

// read puts a history in order.
func read(events []history.Event, ttl time.Duration) *ran {
	h, byID, downs := &ran{ttl: int64(ttl)}, make(map[callID]*call), make(map[string]int64)
	for i, e := range events {
		h.end = max(h.end, e.At)
		lock := cmp.Or(byID[callID{e.Client, e.Lock}], &call{})
		switch e.Kind {
		case history.Call:
			c := &call{callID: callID{e.Client, e.Call}, op: e.Op, resource: e.Resources[0], told: time.Duration(max(0, e.Bound-e.At))}
			c.span, c.down, c.released, c.lost, c.gone = span{e.At, never}, never, never, never, never
			byID[c.callID], h.calls = c, append(h.calls, c)
			if e.Op == history.OpUnlock {
				lock.released = min(lock.released, e.At)
				lock.says(lock.to, e.Until) // What the library had said last, as it extended the lock by itself.
			}
		case history.Return:
			if c := byID[callID{e.Client, e.Call}]; c != nil {
				c.returned(e, lock)
			}
		case history.Lost:
			lock.lost = min(lock.lost, e.At)
		case history.Down:
			downs[e.Client] = e.At
		case history.FaultBegin:
			h.faults = append(h.faults, begun(e, events[i+1:]))
		}
	}
	for _, c := range h.calls {
		if down, ok := downs[c.client]; ok {
			c.down = down
		}
	}
	return h
}

// returned notes what a call has done to the lock that it got, or that it was about.
func (c *call) returned(e history.Event, lock *call) {
	c.to, c.token = e.At, e.Token
	switch e.Op {
	case history.OpLock, history.OpTryLock:
		if c.locked = e.OK; e.OK {
			c.says(e.At, e.Until)
		}
	case history.OpExtend:
		if e.OK {
			lock.says(e.At, e.Until)
		}
	case history.OpUnlock:
		lock.gone = min(lock.gone, e.At)
	}
}

// begun is a fault with its end, if there is one among what came after it.
func begun(e history.Event, rest []history.Event) fault {
	f := fault{span: span{e.At, e.At}, node: -1}
	if e.Node != nil {
		f.node = *e.Node
	} else if e.Fault == history.Freeze {
		f.frozen = e.Client
	}
	n := slices.IndexFunc(rest, func(o history.Event) bool {
		same := o.Node == e.Node || o.Node != nil && e.Node != nil && *o.Node == *e.Node
		return o.Kind == history.FaultEnd && o.Fault == e.Fault && o.Client == e.Client && same
	})
	if n >= 0 {
		f.to = rest[n].At
	}
	return f
}

// wrong reports whether anything was then, or just had been: with this node, or with any if it is -1.
func (h *ran) wrong(at int64, just time.Duration, node int) bool {
	return slices.ContainsFunc(h.faults, func(f fault) bool {
		return (node < 0 || f.node < 0 || f.node == node) && f.from <= at && at < f.to+int64(just)
	})
}

// frozen are the times in which a client was.
func (h *ran) frozen(client string) (all []span) {
	for _, f := range h.faults {
		if f.frozen == client {
			all = append(all, f.span)
		}
	}
	return all
}

// awake is how long a call took while its process could run.
func (h *ran) awake(c *call) time.Duration {
	s := span{c.from, min(c.to, h.end)}
	took := s.length()
	for _, f := range h.frozen(c.client) {
		took -= s.common(f)
	}
	return took
}
