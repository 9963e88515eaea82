package node

import (
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

// This file is about releases that are sent again, of tokens whose keys may be on the node though their
// release has been sent.
//
// Something may come late: when a connection ends, each lock request in flight may have run, may still
// run, or never will. A buffer or a proxy may deliver it a minute later, and its key would stay for the
// ttl. So such a release is repeated after it has been answered: 20 ms later, then 40, 80 and so on. What
// comes late by t is gone by about 2t. And a node may refuse a release (BUSY, a full disk): that one is
// sent again in the same way.
//
// A release deletes only keys that hold its own token, which is dead and never used again. So it may be
// repeated as often as one likes, and exclusion does not depend on it. The tempting alternative is to have
// the node refuse what comes late; every lock request would have to look at one more key.

const (
	// firstGap is between the answer to a release and its first repetition. Each further gap is twice
	// the one before.
	firstGap = 20 * time.Millisecond

	// maxStep is where the gaps stop growing: beyond the longest life of any lock. For releases that were
	// refused it is maxRefusedStep, about a second: the key is there, and the node will change its mind.
	maxStep, maxRefusedStep = 31, 6

	// MinLate is for how long something late is reckoned with, at least. What comes even later can set
	// its key again, for one ttl.
	MinLate = time.Minute

	// maxLook bounds the keys in one look, but for those of a single token.
	maxLook = 64
)

// A repeat is a release that is to be sent again.
type repeat struct {
	next    *repeat
	token   *Token
	index   uint16
	step    uint8         // how often it was sent again
	refused bool          // it has not been carried out yet
	due     time.Duration // since the node's epoch: when it is sent
	last    time.Duration // the same: what is answered that was sent after that is the last one
}

// repeats are the releases to be sent again to one node. Some of them are on their way at a time, and no
// more until these are answered: outcomes are unknown just when nodes are slow. They are guarded by the
// node's mu.
type repeats struct {
	queues  [maxStep + 1]repeatQueue // by step, and so each in the order in which they are due
	len     int
	refused int         // of them
	foreign int         // bytes that are kept for other processes' tokens
	out     int         // requests on their way
	timer   *time.Timer // nil before the first one
	dropped int64       // counter: those for which there was no room
}

// A repeatQueue is a first-in-first-out list.
type repeatQueue struct{ head, tail *repeat }

// push appends e to the queue of its step, or puts it back at the front.
func (r *repeats) push(e *repeat, front bool) {
	l := &r.queues[e.step]
	switch {
	case l.head == nil:
		e.next, l.head, l.tail = nil, e, e
	case front:
		e.next, l.head = l.head, e
	default:
		e.next, l.tail.next, l.tail = nil, e, e
	}
	r.count(e, 1)
}

func (r *repeats) pop(step int) *repeat {
	e := r.queues[step].head
	if e != nil {
		r.queues[step].head = e.next
		r.count(e, -1)
	}
	return e
}

func (r *repeats) count(e *repeat, n int) {
	r.len += n
	r.foreign += n * e.token.size
	if e.refused {
		r.refused += n
	}
}

// repeatLater has a release sent again. Where there is no room, the one that was repeated most often goes.
// n.mu is held.
func (n *Node) repeatLater(e *repeat) {
	r := &n.repeats
	for step := maxStep; r.len >= MaxBacklog; {
		most := r.pop(step)
		if most == nil {
			step--
			continue
		}
		n.forgetRepeat(most)
		r.dropped++
	}
	if e.token.size > 0 && !n.hasRoom(e.token.size) {
		n.forgetRepeat(e)
		r.dropped++
		return
	}
	gap := firstGap << e.step
	if n.closing {
		gap = n.Timeout / 8 // Close waits for those that were refused, but not longer than the node timeout.
	}
	e.due = n.after(gap)
	r.push(e, false)
	n.armRepeats()
}

// forgetRepeat ends the repetitions of a release. n.mu is held.
func (n *Node) forgetRepeat(e *repeat) { e.token.marks[e.index] &^= markRepeated }

// armRepeats sets the timer to when the next one is due. n.mu is held.
func (n *Node) armRepeats() {
	r := &n.repeats
	if n.state != nodeUp || r.out > 0 {
		return // When that changes, sendRepeats is called.
	}
	var first *repeat
	for i := range r.queues {
		if e := r.queues[i].head; e != nil && (first == nil || e.due < first.due) {
			first = e
		}
	}
	if first == nil {
		return
	}
	wait := max(first.due-time.Since(n.epoch), 0)
	if r.timer != nil {
		r.timer.Reset(wait)
		return
	}
	r.timer = time.AfterFunc(wait, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.sendRepeats(false)
	})
}

// sendRepeats sends releases that are due, of about maxLook keys; all of them if all is set. n.mu is held.
func (n *Node) sendRepeats(all bool) {
	r := &n.repeats
	if n.state != nodeUp || r.out > 0 && !all {
		return
	}
	var look lookTask
	now, sent := time.Since(n.epoch), 0
	for step := range r.queues {
		for e := r.queues[step].head; e != nil && (all || e.due <= now && sent < maxLook); e = r.queues[step].head {
			r.pop(step)
			kept := time.Now().Before(e.token.owner.KeptUntil())
			switch {
			case kept && e.refused:
				sent++
				n.pushRepeat(e, e.token.owner.ReleaseCommand(time.Now()), e.token.owner.ReleaseVoter())
			case kept && n.closing:
				n.forgetRepeat(e)
			case kept:
				n.repeated(e, false) // Nothing is to be released before.
			default:
				sent += len(e.token.owner.Keys())
				look.add(e)
			}
			if len(look.keys) >= maxLook {
				n.pushLook(look)
				look = lookTask{}
			}
		}
	}
	if len(look.keys) > 0 {
		n.pushLook(look)
	}
	n.sendDrainPing()
	n.armRepeats()
}

// pushRepeat queues the release of e. n.mu is held.
func (n *Node) pushRepeat(e *repeat, cmd Command, v Voter) {
	n.repeats.out++
	n.push(&Request{Task: &Task{Kind: Release, Command: cmd, Token: e.token, Voter: v, Limit: n.Timeout}, Index: e.index, repeat: e})
}

// A lookTask asks which of some tokens have keys on the node.
type lookTask struct {
	keys, tokens []any
	repeats      []*repeat
	of           []int // by key: which of them
}

func (l *lookTask) add(e *repeat) {
	for _, key := range e.token.owner.Keys() {
		l.keys, l.tokens, l.of = append(l.keys, key), append(l.tokens, e.token.owner.Value()), append(l.of, len(l.repeats))
	}
	l.repeats = append(l.repeats, e)
}

// pushLook queues a look. By EVAL: it is rare, and a server that does not know it has not forgotten the
// other scripts. n.mu is held.
func (n *Node) pushLook(l lookTask) {
	n.repeats.out++
	n.push(&Request{Task: &Task{Kind: lookKind, Command: Command{Script: Look, Keys: l.keys, Args: l.tokens}, Limit: n.Timeout, look: &l}, Eval: true})
}

// looked handles the answer to a look: what has come late is released, and who waits for it is told. One
// key that the user may not read has the whole look refused, so then each token is released. n.mu is held.
func (n *Node) looked(look *lookTask, reply any, err error) {
	found := make([]bool, len(look.repeats))
	held, said := reply.([]any)
	for _, place := range held {
		if i, ok := place.(int64); ok && i > 0 && i <= int64(len(look.of)) {
			found[look.of[i-1]] = true
		}
	}
	for i, e := range look.repeats {
		switch {
		case found[i] || conn.ErrorCode(err) == "NOPERM":
			cmd, voter := e.token.owner.ReleaseLate()
			n.pushRepeat(e, cmd, voter)
		case !said:
			n.repeated(e, false)
		default:
			n.repeatAnswered(e)
		}
	}
	n.repeatCame()
}

// repeatCame is called when a request of a repetition has been answered. n.mu is held.
func (n *Node) repeatCame() {
	n.repeats.out--
	n.sendRepeats(false)
}

// repeatAnswered has e go on after an answer that says that no key of it is left now. n.mu is held.
func (n *Node) repeatAnswered(e *repeat) {
	m := &e.token.marks[e.index]
	*m &^= MarkSent
	switch {
	case *m&markUnknown == 0 || n.closing:
		n.forgetRepeat(e)
	case e.refused:
		e.refused, e.step, e.last = false, 0, n.after(e.token.lateness(false))
		n.repeatLater(e)
	default:
		n.repeated(e, true)
	}
}

// repeated has e go on, unless this was the last time: it was answered, and sent when nothing could come any
// more; or, refused, nothing can be left. n.mu is held.
func (n *Node) repeated(e *repeat, answered bool) {
	over := answered && e.due >= e.last
	if e.refused {
		over = time.Since(n.epoch) >= e.last
	}
	if over || n.closing && !e.refused {
		n.forgetRepeat(e)
		return
	}
	e.step = min(e.step+1, maxStep)
	if e.refused {
		e.step = min(e.step, maxRefusedStep)
	}
	n.repeatLater(e)
}

// repeatRelease is called when the node has answered a release, and has it repeated if something of the
// token may come late or, refused, if it was not carried out. n.mu is held.
func (n *Node) repeatRelease(q *Request, refused bool) {
	m := &q.Token.marks[q.Index]
	switch e := q.repeat; {
	case e != nil && refused:
		n.repeated(e, false)
	case e != nil:
		n.repeatAnswered(e)
	case *m&markRepeated == 0 && (refused && q.Token.mayBeOn(q.Index) || *m&markUnknown != 0 && !n.closing):
		*m |= markRepeated
		n.repeatLater(&repeat{token: q.Token, index: q.Index, refused: refused, last: n.after(q.Token.lateness(refused))})
	}
	if q.repeat != nil {
		n.repeatCame()
	}
}

// breakRepeat takes a request of a repetition from a connection that has ended, and says whether it was
// one. It does not count, and comes first on the next connection. n.mu is held.
func (n *Node) breakRepeat(q *Request) bool {
	var again []*repeat
	switch {
	case q.look != nil:
		again = q.look.repeats
	case q.repeat != nil:
		again = []*repeat{q.repeat}
	default:
		return false
	}
	n.repeats.out--
	for _, e := range again {
		e.due = 0
		n.repeats.push(e, true)
	}
	return true
}

// Look tells which keys still hold a token.
//
//	KEYS  keys, maybe of several tokens
//	ARGV  the token of each
//	{i, …}  the places of the keys that hold it
var Look = NewScript("look", `
local held = {}
for i, key in ipairs(KEYS) do
  if redis.pcall('GET', key) == ARGV[i] then held[#held + 1] = i end
end
return held
`, func(reply any) Outcome {
	if _, ok := reply.([]any); ok {
		return Outcome{Stance: Yes}
	}
	return Unexpected("look", reply)
})
