package redlock

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A debt is a token whose keys must be removed from the node before anything
// else is asked of it: the outcome of its lock request is unknown, or its
// release has not been confirmed.
type debt struct {
	claim *claim
	index int
	ends  time.Duration // when nothing of it can be left, since the node's epoch
}

// owe remembers what a request that will not be answered may have left on the
// node. n.mu is held.
func (n *node) owe(q *request) {
	switch q.kind {
	case lockKind, releaseKind:
		n.oweClaim(q.claim, int(q.index))
	case askKind, repairKind, pingKind, byeKind: // For a repair that was written, see hangUp.
	}
}

// oweClaim makes a debt of a claim, if anything of it may be on the node. n.mu is
// held.
func (n *node) oweClaim(c *claim, index int) {
	if c.marks[index]&markSent == 0 || c.marks[index]&markOwed != 0 {
		return
	}
	c.marks[index] |= markOwed
	n.debts = append(n.debts, debt{c, index, n.after(max(c.longest(), minTombstone))})
}

// cleanAll settles debts, batch by batch: what has been settled when the time
// runs out stays so, and the next connection goes on from there.
func (n *node) cleanAll(ctx context.Context, conn *wire, gen int64, life time.Duration, debts []debt, unknown int) error {
	e := Event{Kind: EventNodeCleaned, Node: n.name}
	defer func() {
		if e.Cleaned > 0 {
			n.events.send(ctx, e)
		}
	}()
	single := false
	for len(debts) > 0 {
		m := batch(debts)
		if single {
			m = 1
		}
		found, err := n.clean(ctx, conn, gen, life, debts[:m])
		switch forbidden := isForbiddenKey(err); {
		case forbidden && m > 1:
			single = true // To find out which.
			continue
		case forbidden:
			// Its lock request and its release are refused in the same way. Nothing can
			// be done, and it must not keep the node from everybody else.
			found = strings.Repeat("0", len(debts[0].claim.keys))
		case err != nil:
			n.unpaid(debts[:m], err)
			return fmt.Errorf("clean-up: %w", err)
		}
		if debts = debts[m:]; len(debts) == 0 {
			e.Unknown = unknown // The tombstone has to be put up until the last is settled.
		}
		e.Cleaned += m
		n.paid(m, e.Unknown, found)
	}
	return nil
}

// isForbiddenKey reports whether the server refused a command because of a key
// in it, by the wording of Redis 6 or that of later ones and Valkey. That the user
// may not run the command at all is another matter.
func isForbiddenKey(err error) bool {
	if errorCode(err) != "NOPERM" {
		return false
	}
	s := err.Error()
	return strings.Contains(s, "to access a key") || strings.Contains(s, "to access one of the keys")
}

// forget drops the debts of which nothing can be left, and of which nothing can
// arrive any more that a tombstone would still refuse. n.mu is held.
func (n *node) forget() {
	now := time.Since(n.epoch)
	debts := n.debts[:0:0]
	for _, d := range n.debts {
		if now < d.ends {
			debts = append(debts, d)
			continue
		}
		d.claim.marks[d.index] &^= markSent | markOwed
	}
	n.debts = debts
	if len(debts) == 0 {
		n.unknown, n.life = 0, 0
	}
}

// batch returns how many of the debts, at least one, one script is to settle.
func batch(debts []debt) int {
	keys, m := 0, 0
	for m < len(debts) && (m == 0 || keys+len(debts[m].claim.keys) <= cleanBatch) {
		keys += len(debts[m].claim.keys)
		m++
	}
	return m
}

// clean settles debts, and returns a '1' for every key that it removed, '0' for
// the others, in order.
func (n *node) clean(ctx context.Context, conn *wire, gen int64, life time.Duration, debts []debt) (found string, err error) {
	var keys, tokens, keeps []any
	now := time.Now()
	for _, d := range debts {
		keep := d.claim.leaveMillis(now)
		for _, k := range d.claim.keys {
			keys, tokens, keeps = append(keys, k), append(tokens, d.claim.token), append(keeps, keep)
		}
	}
	args := append([]any{cleanScript.sourceArg, len(keys) + 1}, keys...)
	args = append(args, n.stone, gen, serverMillis(life))
	args = append(args, tokens...)
	args = append(args, keeps...)
	// EVAL, not EVALSHA: the script cache may be flushed between two commands.
	if err = conn.Send("EVAL", args...); err != nil {
		return "", err
	}
	if err = conn.Flush(); err != nil {
		return "", err
	}
	reply, err := conn.receive(left(ctx))
	if err != nil {
		return "", err
	}
	out := cleanScript.decode(reply)
	if out.err == nil && len(out.value) != len(keys) {
		out = unexpected("clean", reply)
	}
	return out.value, out.err
}

// paid drops the first m debts, of whose keys found says which were removed, and
// of which unknown were lock requests. More may have come up since they were
// read: a release that failed while the node was connecting.
func (n *node) paid(m, unknown int, found string) {
	var freed []debt
	defer func() {
		for _, d := range freed { // The clean-up has told nobody. What is sent now goes behind it.
			d.claim.wake.pass(d)
		}
	}()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.debts[:m] {
		keys := len(d.claim.keys)
		// The mark first: before it is set, the lock's owner may be writing to wake.
		if d.claim.marks[d.index]&markReleased != 0 && d.claim.wake != nil && strings.Contains(found[:keys], "1") {
			freed = append(freed, d)
		}
		d.claim.marks[d.index] &^= markSent | markOwed
		if d.claim.marks[d.index]&markReleased != 0 {
			out := outcome{stance: no}
			if !strings.Contains(found[:keys], "0") {
				out.stance = yes
			}
			d.claim.releasedLocked(d.index, out)
		}
		found = found[keys:]
	}
	n.debts = append([]debt(nil), n.debts[m:]...)
	n.unknown -= unknown
	if n.unknown == 0 {
		n.life = 0
	}
	n.cleaned += int64(m)
}

// unpaid notes that a clean-up of the debts failed with err: unless the server
// refused it, it may have been carried out.
func (n *node) unpaid(debts []debt, err error) {
	if isReply(err) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range debts {
		if d.claim.marks[d.index]&markReleased != 0 {
			d.claim.marks[d.index] |= markUnheard
		}
	}
}
