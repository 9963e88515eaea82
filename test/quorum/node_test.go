package quorum

import "github.com/seed6c881748/redlock/internal/node"

// This file is what a node does, as its scripts do.

// look returns in how many of the resources the node holds the token, the token that holds another one, the first, and
// the largest and smallest counter.
func (n *server) look(token, wants uint8) (mine int, other uint8, top, low int64) {
	low = 1 << 60
	for r := range maxResources {
		if !in(wants, r) {
			continue
		}
		switch n.token[r] {
		case token:
			mine++
		case 0:
		default:
			if other == 0 {
				other = n.token[r]
			}
		}
		top, low = max(top, n.counter[r]), min(low, n.counter[r])
	}
	return mine, other, top, low
}

func size(wants uint8) int { return int(wants&1 + wants>>1&1) }

// carry has node i carry out a request, and returns the answer.
func (w *world) carry(cl *claim, i int, m message) (out reply) {
	n, wants := &w.nodes[i], w.wants[cl.who]
	if w.foreign && int(cl.who) == w.limits.clients-1 {
		wants = w.wants[0]
	}
	out = reply{task: m.task, round: m.round, stance: node.No, sent: m.sent}
	mine, other, top, low := n.look(cl.token, wants)
	if w.now < n.closed && (m.task == lockTask || m.task == repairTask) {
		out.stance, out.fault = node.Silent, refuses
		return out
	}
	switch m.task {
	case lockTask:
		w.locks(cl, i, &out, mine, other, top, low)
	case raiseTask:
		if mine == size(wants) && top <= m.aim {
			w.set(cl.token, i, wants, m.aim, false)
			out.stance, out.fence = node.Yes, m.aim
		}
	case extendTask, repairTask:
		switch {
		case other != 0:
		case mine < size(wants) && m.task == extendTask:
			out.stance = node.Gone
		default:
			out.stance = node.Yes
			w.set(cl.token, i, wants, max(top, cl.fence), m.task == extendTask)
		}
	case releaseTask:
		if out.stance = node.Gone; mine > 0 {
			out.stance = node.Yes
		} else if other != 0 {
			out.stance = node.No
		}
		for r := range maxResources {
			if in(wants, r) && n.token[r] == cl.token {
				n.token[r], n.since[r] = 0, 0
			}
		}
	}
	return out
}

// locks is a lock request.
func (w *world) locks(cl *claim, i int, out *reply, mine int, other uint8, top, low int64) {
	wants := w.wants[cl.who]
	switch {
	case other != 0:
		if !in(w.unnamed, i) {
			out.holder = other
		}
		return
	case w.fenced && mine == size(wants) && (low < top || top < 1):
		out.stance, out.fault = node.Silent, refuses
		return
	case mine < size(wants):
		if w.fenced {
			top = max(top+1, w.proposals[cl.who])
		}
		w.set(cl.token, i, wants, top, false)
	}
	out.stance = node.Yes
	if w.fenced {
		out.fence = top
	}
}

// set has node i hold the token, with that counter. Keys that it has live on as they do, unless they are extended.
func (w *world) set(token uint8, i int, wants uint8, counter int64, extends bool) {
	n := &w.nodes[i]
	for r := range maxResources {
		if !in(wants, r) {
			continue
		}
		if n.token[r] != token || extends {
			n.token[r], n.since[r] = token, w.now
		}
		n.counter[r] = counter
		if in(w.leaves, i) && token == 1 {
			n.token[r] = 0
		}
	}
	if counter > 60 {
		panic("no room for so large a counter")
	}
}

// expire has the keys go that may have ended.
func (w *world) expire(i int) {
	n := &w.nodes[i]
	for r := range maxResources {
		if n.token[r] != 0 && n.since[r] != forGood && (w.anyExpiry || w.now-n.since[r] >= w.validity()-w.early) {
			n.token[r], n.since[r] = 0, 0
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
func (w *world) comesAgain(cl *claim, i int) {
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
