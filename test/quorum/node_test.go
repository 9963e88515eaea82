package quorum

import (
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/test/server"
)

// carry has node i carry out a request, and returns the answer.
func (w *world) carry(cl *claim, i int, m message) (out reply) {
	n, wants := &w.nodes[i], w.wants[cl.who]
	if w.foreign && int(cl.who) == w.limits.clients-1 {
		wants = w.wants[0]
	}
	out = reply{task: m.task, round: m.round, stance: node.No, sent: m.sent}
	if m.task == lockTask && in(w.refuse[cl.who], i) || w.now < w.closed[i] && (m.task == lockTask || m.task == repairTask) {
		out.stance, out.fault = node.Silent, refuses
		return out
	}
	token, until := int(cl.token), w.now+w.ttl
	switch m.task {
	case lockTask:
		w.locks(cl, i, &out)
	case raiseTask:
		out.is(n.Raise(token, wants, m.aim))
	case extendTask:
		out.stance = n.Extend(token, wants, until, cl.fence)
	case repairTask:
		out.stance = n.Repair(token, wants, until, cl.fence)
	case releaseTask:
		out.stance = n.Release(token, wants)
	}
	if in(w.leaves, i) && token == 1 {
		n[0].Token = 0
	}
	for _, k := range n {
		if k.Counter > 60 {
			panic("no room for so large a counter")
		}
	}
	return out
}

// locks is a lock request.
func (w *world) locks(cl *claim, i int, out *reply) {
	n, wants := &w.nodes[i], w.wants[cl.who]
	token, until := int(cl.token), w.now+w.ttl
	var g server.Grant
	switch proposal := w.proposals[cl.who]; {
	case !w.fenced:
		g.Stance, g.Holder = n.Lock(token, wants, until)
	case in(w.behind, i):
		g = n.LockWithFence(token, wants, until, 0)
	default:
		g = n.LockWithFence(token, wants, until, proposal)
	}
	out.is(g)
	if out.stance == node.Silent {
		out.fault = refuses
	}
	if in(w.unnamed, i) {
		out.holder = 0
	}
}

// is has the reply be the answer of a node.
func (m *reply) is(g server.Grant) {
	m.stance, m.fence, m.found, m.holder = g.Stance, g.Fence, g.Found, uint8(g.Holder)
}

// expire has the keys go that may have ended.
func (w *world) expire(i int) {
	for r := range w.nodes[i] {
		if k := &w.nodes[i][r]; k.Token != 0 && k.Until != forGood && (w.anyExpiry || w.now >= k.Until-w.drift-w.early) {
			k.Token, k.Until = 0, 0
		}
	}
}

// serves has node i carry out the first request of a claim.
func (w *world) serves(c *client, cl *claim, i int, how uint8) {
	m := cl.wire[i][0]
	cl.wire[i] = cl.wire[i][1:]
	if how == expired {
		w.expire(i)
	}
	var out reply
	switch how {
	case faulty:
		w.used[faults]++
		out = reply{task: m.task, round: m.round, stance: node.Silent, fault: refuses, sent: m.sent}
	case reserving:
		w.used[reserves]++
		out = reply{task: m.task, round: m.round, stance: node.No, fault: reserved, sent: m.sent}
	default:
		out = w.carry(cl, i, m)
	}
	if how == doubled {
		w.used[twice]++
		cl.copies[i] = push(cl.copies[i], m)
	}
	if how == lying && out.fence > 0 {
		w.used[lies]++
		if out.fence--; out.fence == 0 {
			out.fence = 2
		}
	}
	if m.mute {
		return
	}
	if m.task == releaseTask {
		cl.left[i] = false
	}
	if m.round == background {
		w.checkWire(cl, i)
		return
	}
	cl.replies[i] = push(cl.replies[i], out)
	w.checkWire(cl, i)
	if w.swift && c.stop == 0 {
		w.hears(c, cl, i)
	}
}

// comesAgain has node i carry out what it has carried out before. Behind its release it is released once more.
func (w *world) comesAgain(cl *claim, i int, how uint8) {
	if how == expired {
		w.expire(i)
	}
	m := cl.copies[i][0]
	cl.copies[i] = cl.copies[i][1:]
	out := w.carry(cl, i, m)
	cl.left[i] = cl.left[i] || m.task != raiseTask
	if cl.released && m.task != raiseTask {
		w.send(cl, i, message{task: releaseTask, round: background})
	}
	for j, r := range cl.replies[i] {
		if r.task == m.task && r.round == m.round {
			q := append([]reply{}, cl.replies[i]...)
			q[j] = out // It does not know which one it hears.
			cl.replies[i] = q
		}
	}
}
