package main

import (
	"math"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// A ran course is its history, put in order: what was called, what was held, and what went wrong when.
type ran struct {
	events []history.Event
	end    int64
	ttl    int64

	calls  []*call
	locks  map[callID]*lock
	frozen map[string][]span // Of a client.
	downs  map[string]int64  // When a client was killed.
	faults []fault
}

type callID struct {
	client string
	call   int
}

// A call ends at never if it did not return.
type call struct {
	span

	callID
	op, resource, token, err string
	told                     time.Duration // To wait for others.
	ok                       bool
}

const never = math.MaxInt64

// A lock is what a call acquired.
type lock struct {
	callID
	resource, token string

	since          int64
	untils         []span // From when the library said so to the validity that it said.
	released, lost int64  // When the release was asked for, and the loss was signalled.
	gone           int64  // When the release returned.
}

// A fault is a time in which something was wrong, with a node (-1: with no single one).
type fault struct {
	span

	kind string
	node int
}

// read puts a history in order.
func read(events []history.Event, ttl time.Duration) *ran {
	h := &ran{
		events: events, ttl: int64(ttl), locks: make(map[callID]*lock), frozen: make(map[string][]span), downs: make(map[string]int64),
	}
	open := make(map[callID]*call)
	for _, e := range events {
		h.end = max(h.end, e.At)
		id := callID{e.Client, e.Call}
		switch e.Kind {
		case history.Call:
			c := &call{span: span{e.At, never}, callID: id, op: e.Op, resource: e.Resources[0], told: time.Duration(max(0, e.Bound-e.At))}
			open[id] = c
			h.calls = append(h.calls, c)
			h.asked(e)
		case history.Return:
			if c := open[id]; c != nil {
				c.to, c.ok, c.token, c.err = e.At, e.OK, e.Token, e.Err
				h.answered(e)
			}
		case history.Lost:
			if l := h.locks[callID{e.Client, e.Lock}]; l != nil {
				l.lost = min(l.lost, e.At)
			}
		case history.Down:
			h.downs[e.Client] = e.At
		}
	}
	h.findFaults()
	return h
}

// asked notes that a release begins.
func (h *ran) asked(e history.Event) {
	l := h.locks[callID{e.Client, e.Lock}]
	if l == nil || e.Op != history.OpUnlock {
		return
	}
	l.released = min(l.released, e.At)
	if e.Until > 0 { // What the library had said last, as it extended the lock by itself.
		l.untils = append(l.untils, span{l.since, e.Until})
	}
}

// answered notes what a call has done to a lock.
func (h *ran) answered(e history.Event) {
	switch e.Op {
	case history.OpLock, history.OpTryLock:
		if !e.OK {
			return
		}
		id := callID{e.Client, e.Call}
		h.locks[id] = &lock{
			callID: id, resource: e.Resources[0], token: e.Token, since: e.At, released: never, lost: never, gone: never,
		}
		h.locks[id].says(e)
	case history.OpExtend:
		if l := h.locks[callID{e.Client, e.Lock}]; l != nil && e.OK {
			l.says(e)
		}
	case history.OpUnlock:
		if l := h.locks[callID{e.Client, e.Lock}]; l != nil {
			l.gone = min(l.gone, e.At)
		}
	}
}

func (l *lock) says(e history.Event) {
	if e.Until > 0 {
		l.untils = append(l.untils, span{e.At, e.Until})
	}
}

// findFaults notes when what was wrong.
func (h *ran) findFaults() {
	for i, e := range h.events {
		if e.Kind != history.FaultBegin {
			continue
		}
		f := fault{span: span{e.At, e.At}, kind: e.Fault, node: -1}
		if e.Node != nil {
			f.node = *e.Node
		}
		rest := h.events[i+1:]
		ends := func(o history.Event) bool {
			same := o.Node == e.Node || o.Node != nil && e.Node != nil && *o.Node == *e.Node
			return o.Kind == history.FaultEnd && o.Fault == e.Fault && o.Client == e.Client && same
		}
		if n := slices.IndexFunc(rest, ends); n >= 0 {
			f.to = rest[n].At
		}
		h.faults = append(h.faults, f)
		if e.Fault == history.Freeze && e.Node == nil {
			h.frozen[e.Client] = append(h.frozen[e.Client], f.span)
		}
	}
}

// awake is how long a call took while its process could run.
func (h *ran) awake(c *call) time.Duration {
	s := span{c.from, min(c.to, h.end)}
	took := s.length()
	for _, f := range h.frozen[c.client] {
		took -= s.common(f)
	}
	return took
}

// killed reports whether a call did not return because its process was killed, and not by the end of the run.
func (h *ran) killed(c *call) bool {
	_, down := h.downs[c.client]
	return down && c.to == never
}
