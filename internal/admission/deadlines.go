package admission

import (
	"container/heap"
	"container/list"
	"time"
)

// A ticket is a call that waits for a place.
type ticket struct {
	inQueue  *list.Element // nil when it waits no more
	index    int           // in deadlines
	deadline time.Duration // when it is turned away, since the epoch
	answer   chan error    // gets one value: nil for a place, or why there is none
}

// deadlines is a heap of tickets, the first to be turned away on top. A gate needs it besides
// its queue because calls have timeouts of their own: one that came later may be turned away
// earlier.
type deadlines []*ticket

func (d *deadlines) add(t *ticket)    { heap.Push(d, t) }
func (d *deadlines) remove(t *ticket) { heap.Remove(d, t.index) }

// Len implements [heap.Interface].
func (d deadlines) Len() int { return len(d) }

// Less implements [heap.Interface].
func (d deadlines) Less(i, j int) bool { return d[i].deadline < d[j].deadline }

// Swap implements [heap.Interface].
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push implements [heap.Interface].
func (d *deadlines) Push(t any) {
	t.(*ticket).index = len(*d)
	*d = append(*d, t.(*ticket))
}

// Pop implements [heap.Interface].
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	t := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return t
}
