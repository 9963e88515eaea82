package redlock

import "time"

// A requestKind decides what happens to a request that cannot be carried out.
type requestKind uint8

const (
	askKind     requestKind = iota // extend, inspect: may be dropped at any time
	lockKind                       // once written, its outcome must be settled
	repairKind                     // as lockKind, but never sent twice
	releaseKind                    // is never dropped: if it cannot be sent, it is owed
	pingKind
	byeKind // the last PING of a connection that is being closed
)

// A command is a script with its arguments, boxed for redigo once rather than
// once per node.
type command struct {
	script *script // nil: a PING
	keys   []any
	argv   []any

	// aged: what it says depends on when it is sent. It is of a release, which is made
	// anew when it is written.
	aged bool
}

// A task is what the requests of a round have in common. It is not changed once
// the first of them has been handed to a node.
type task struct {
	kind  requestKind
	cmd   command
	token *tokenState   // lock, repair, extend, release
	voter voter         // nil: nobody waits for the answer
	limit time.Duration // the node timeout; silence is judged by it too

	// gone is an instant since the node's epoch: of a release that is repeated or owed,
	// when nothing of its keys can be left (0: neither); of a repair, when the lock
	// has lapsed.
	gone time.Duration
}

// A request is a task for one node. Its fields below the task are guarded by
// that node's mu.
type request struct {
	*task

	next, prev *request
	queue      *requestQueue // the one it is in
	sent       time.Duration // when it was written, or was first owed, since the node's epoch
	index      uint16        // the node's place in the round and the claim; constant
	tries      uint16        // of a release that was answered with an error
	eval       bool          // the server did not know the script's hash
	owed       bool          // a release that an earlier connection has not carried out
}

// sets reports whether the request sets keys, so that it must not be carried out
// behind a release.
func (t *task) sets() bool { return t.kind == lockKind || t.kind == repairKind }

// deliver hands the outcome to the round. No lock is held.
func (q *request) deliver(out outcome, at time.Time) {
	if q.voter != nil {
		q.voter.vote(int(q.index), out, at)
	}
}

// A voter waits for the answers to requests.
type voter interface {
	// vote gets the outcome on node i, and when it was known. Called at most once
	// per request, without locks.
	vote(i int, out outcome, at time.Time)
}

// A requestQueue is a first-in-first-out list from which a request can also be
// taken out of the middle at no cost: a round that ends withdraws what has not
// been written.
type requestQueue struct {
	head, tail *request
	len        int
	locks      int // how many of them are lock requests
	foreign    int // bytes that are kept for other processes' tokens
}

func (l *requestQueue) push(q *request) {
	q.queue, q.prev, q.next = l, l.tail, nil
	if l.tail != nil {
		l.tail.next = q
	} else {
		l.head = q
	}
	l.tail = q
	l.len++
	switch q.kind {
	case lockKind:
		l.locks++
	case releaseKind:
		l.foreign += q.token.size
	case askKind, repairKind, pingKind, byeKind:
	}
}

func (l *requestQueue) remove(q *request) {
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
	switch q.kind {
	case lockKind:
		l.locks--
	case releaseKind:
		l.foreign -= q.token.size
	case askKind, repairKind, pingKind, byeKind:
	}
}

func (l *requestQueue) pop() *request {
	q := l.head
	if q != nil {
		l.remove(q)
	}
	return q
}
