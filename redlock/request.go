package redlock

import "time"

// A requestKind decides what happens to a request that cannot be carried out.
type requestKind uint8

const (
	askKind     requestKind = iota // extend, inspect: may be dropped at any time
	lockKind                       // once written, its outcome must be settled
	releaseKind                    // is never dropped: if it cannot be sent, it becomes a debt
	pingKind
	byeKind // the last PING of a connection that is being closed
)

// A command is a script with its arguments, shared by a round's requests and
// never written after it was made. The arguments are boxed once here rather
// than once per node: that is most of what a lock allocates.
type command struct {
	script *script
	keys   []any
	argv   []any
	// session: the script also takes the session's tombstone as its last key
	// and the connection's generation as its last argument.
	session bool
}

// A request is one command for one node. Its fields below the line are guarded
// by the node's mu.
type request struct {
	kind  requestKind
	cmd   *command // nil for a PING
	claim *claim   // lock, release
	index int      // the node's place in the round and the claim
	voter voter    // nil: nobody waits for the answer
	limit time.Duration

	next, prev *request
	queue      *requestQueue // the one it is in
	sent       time.Time
	eval       bool // the server did not know the script's hash
	tries      int  // of a release that was answered with an error
}

// deliver hands the outcome to the round. No lock is held.
func (q *request) deliver(out outcome) {
	if q.voter != nil {
		q.voter.vote(q.index, out)
	}
}

// A voter waits for the answers to requests.
type voter interface {
	// vote gets the outcome on node i. Called at most once per request, without
	// locks.
	vote(i int, out outcome)
	// unwanted reports whether nobody waits for the outcome any more. Called
	// under the node's lock.
	unwanted() bool
}

// A requestQueue is a first-in-first-out list from which a request can also be
// taken out of the middle at no cost: a round that ends withdraws what has not
// been written.
type requestQueue struct {
	head, tail *request
	len        int
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
}

func (l *requestQueue) pop() *request {
	q := l.head
	if q != nil {
		l.remove(q)
	}
	return q
}
