package admission

import (
	"cmp"
	"time"
)

// A Ticket is a call that waits for a place.
type Ticket struct {
	Caller any // the caller's own; the gate does not use it

	index    int           // in the queue; -1 when the call does not wait any more
	deadline time.Duration // when the call is turned away
	number   uint64        // in the order of arrival
}

// A queue is a heap of tickets, with the first to be turned away on top.
type queue []*Ticket

// Len implements [heap.Interface].
func (q queue) Len() int { return len(q) }

// Less implements [heap.Interface].
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].deadline, q[j].deadline), cmp.Compare(q[i].number, q[j].number)) < 0
}

// Swap implements [heap.Interface].
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements [heap.Interface].
func (q *queue) Push(t any) {
	t.(*Ticket).index = len(*q)
	*q = append(*q, t.(*Ticket))
}

// Pop implements [heap.Interface].
func (q *queue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last], t.index = nil, -1
	*q = (*q)[:last]
	return t
}
