package calls

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/waiting"
)

// A Line is a [waiting.Queue] that several goroutines use.
type Line struct {
	pass  func(p waiting.Pass)
	known atomic.Int32 // resources: an uncontended Lock looks no further
	mu    sync.Mutex   // before a link's: pass is called with it
	rules *waiting.Queue
}

// NewLine returns an empty line for so many nodes and such a quorum. pass tells the next process.
func NewLine(nodes, need int, pass func(p waiting.Pass)) *Line {
	return &Line{pass: pass, rules: waiting.NewQueue(nodes, need, rand.N[time.Duration])}
}

// IsEmpty reports whether nothing is known of any resource.
func (l *Line) IsEmpty() bool { return l.known.Load() == 0 }

// Do has f use the queue, now, and then passes on what is to be.
func (l *Line) Do(f func(q *waiting.Queue, now time.Time)) {
	l.mu.Lock()
	l.doLocked(time.Now(), f)
}

// DoAt is Do for what has happened then. To look at the clock is a good part of what it takes to use the queue.
func (l *Line) DoAt(then time.Time, f func(q *waiting.Queue, now time.Time)) {
	l.mu.Lock()
	l.doLocked(then, f)
}

// doLocked is Do at a time. mu is held, and not any more after it.
func (l *Line) doLocked(now time.Time, f func(q *waiting.Queue, now time.Time)) {
	f(l.rules, now)
	passes := l.rules.Passes()
	if n := int32(l.rules.Resources()); n != l.known.Load() { // Those who only read it are on other processors.
		l.known.Store(n)
	}
	// With the mutex: after it, a call may get in line on the nodes, and a pass that came later would take its place.
	for _, p := range passes {
		l.pass(p)
	}
	l.mu.Unlock()
}
