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
	known atomic.Int32 // how many resources are known: an uncontended Lock looks no further
	mu    sync.Mutex   // taken before a link's: pass is called with it held
	rules *waiting.Queue
}

// NewLine returns an empty line for that many nodes and that quorum. pass tells the next process.
func NewLine(nodes, need int, pass func(p waiting.Pass)) *Line {
	return &Line{pass: pass, rules: waiting.NewQueue(nodes, need, rand.N[time.Duration])}
}

// IsEmpty reports whether the line knows of no resource.
func (l *Line) IsEmpty() bool { return l.known.Load() == 0 }

// Do lets f use the queue now, and then makes the passes that result.
func (l *Line) Do(f func(q *waiting.Queue, now time.Time)) {
	l.mu.Lock()
	l.doLocked(time.Now(), f)
}

// DoAt is Do for an event at the time then. Reading the clock is a good part of what using the queue costs.
func (l *Line) DoAt(then time.Time, f func(q *waiting.Queue, now time.Time)) {
	l.mu.Lock()
	l.doLocked(then, f)
}

// doLocked is Do at the time now. The caller holds mu, and doLocked unlocks it.
func (l *Line) doLocked(now time.Time, f func(q *waiting.Queue, now time.Time)) {
	f(l.rules, now)
	passes := l.rules.Passes()
	if n := int32(l.rules.Resources()); n != l.known.Load() { // A needless write would slow down readers.
		l.known.Store(n)
	}
	// With the mutex held: after it, a call may get in line on the nodes, and a later pass would take its place.
	for _, p := range passes {
		l.pass(p)
	}
	l.mu.Unlock()
}
