package node

import "time"

// A Task is the part that the requests of a round share. It is not changed once the first of them has been handed to a
// node.
type Task struct {
	Kind     Kind
	Command  Command
	Trace    *Trace        // lock, repair, extend, release
	Receiver Receiver      // nil: nobody waits for the answer
	Limit    time.Duration // the node timeout, which also bounds silence
	Lives    time.Duration // lock, repair, extend: the least time that the keys live after a yes; else 0

	Within time.Duration // repair: how long after queueing it may be written, as the lock may end

	look *lookTask // the look for late effects that the task makes
}

// A Request is a task for one node. The fields below Task are that node's.
type Request struct {
	*Task

	next, prev *Request
	queue      *requestQueue // the queue that holds it
	sent       time.Duration // since the node's epoch: when it was queued, and then when it was written
	Index      uint16        // the node's place in the round; constant
	due        *dueRelease   // of a repeated release; nil: it is the first
	Eval       bool          // the server did not know the script's hash
	direct     bool          // it was sent without the script; see direct.go and deletion.go
	scripted   bool          // a release that its direct reply has not settled
}

// sets reports whether the request sets keys.
func (t *Task) sets() bool { return t.Kind == LockRequest || t.Kind == RepairRequest }

// revives reports whether the request would undo a release that was carried out before it: it sets keys, or prolongs
// keys that the release has left. An extension finds nothing where they were deleted.
func (t *Task) revives() bool {
	return t.sets() || t.Kind == Ask && t.Trace != nil && t.Trace.owner.LeavesKeys()
}

// Deliver hands the outcome to the round. The driver calls it, without locks.
func (q *Request) Deliver(out Outcome, at time.Time) {
	if q.Receiver != nil {
		q.Receiver.Receive(int(q.Index), out, at)
	}
}

// A requestQueue is a first-in-first-out list. A request can also be taken out of the middle at no cost: a round that
// ends withdraws those not yet written.
type requestQueue struct {
	head, tail *Request
	len        int
	locks      int // how many of them are lock requests
}

func (l *requestQueue) push(q *Request) {
	q.queue, q.prev, q.next = l, l.tail, nil
	if l.tail != nil {
		l.tail.next = q
	} else {
		l.head = q
	}
	l.tail = q
	l.len++
	if q.Kind == LockRequest {
		l.locks++
	}
}

func (l *requestQueue) remove(q *Request) {
	if q.prev != nil {
		q.prev.next = q.next
	} else {
		l.head = q.next
	}
	if q.next != nil {
		q.next.prev = q.prev
	} else {
		l.tail = q.prev
	}
	q.queue, q.prev, q.next = nil, nil, nil
	l.len--
	if q.Kind == LockRequest {
		l.locks--
	}
}

func (l *requestQueue) pop() *Request {
	q := l.head
	if q != nil {
		l.remove(q)
	}
	return q
}

// append adds another queue's requests, which must have been in this queue before.
func (l *requestQueue) append(more requestQueue) {
	if l.tail == nil {
		*l = more
		return
	}
	if more.head != nil {
		l.tail.next, more.head.prev = more.head, l.tail
		l.tail = more.tail
		l.len, l.locks = l.len+more.len, l.locks+more.locks
	}
}
