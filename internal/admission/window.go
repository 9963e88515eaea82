package admission

import "time"

// A window says how many lock rounds may be under way at the same time. It learns that
// from how long they take: a node queues what it cannot carry out yet, so more of them
// take longer, and no more of them succeed.
//
// It is arithmetic only. The zero value is not ready; see newWindow.
type window struct {
	size  float64
	steep bool          // nothing has been too much yet: it may double in each round trip
	best  time.Duration // how long a round takes that need not queue; 0: not known yet
	aged  time.Time     // when best was last raised
	cut   time.Time     // when size was last reduced
}

const (
	minWindow = 16
	maxWindow = 4096

	// easyWindow is where it begins, and what keeps nodes busy where the way to them is short.
	// Beyond that it grows only while rounds show no queue at the nodes.
	easyWindow = 128

	// shortRound is the least value of best: queues that are shorter do not matter.
	shortRound = 500 * time.Microsecond
)

func newWindow() window { return window{size: easyWindow, steep: true} }

// A Sample is what a round has shown that is over now.
type Sample struct {
	Took     time.Duration // from its start to its decision
	Timeout  time.Duration // the node timeout of its call
	Answered bool          // the answers of a quorum decided it
	Late     bool          // its time was over first
}

// limit is how many rounds may be under way.
func (w *window) limit() int { return int(w.size) }

// target is how long a round is to take, of the node timeout of its call: a fifth, or
// more where the way is long.
func (w *window) target(timeout time.Duration) time.Duration {
	return min(max(timeout/5, 2*w.best), timeout*3/5)
}

// patience is how long a call may wait for its turn, of its node timeout: at most three
// quarters. What is left for its round is a bit more than the target, and than the way takes.
func (w *window) patience(timeout time.Duration) time.Duration {
	patience := timeout - w.target(timeout)*5/4
	if spare := timeout - w.best*9/8; spare > 0 {
		patience = min(patience, spare)
	}
	return patience
}

// observe adapts the size to what a round has shown. busy is how many rounds were under
// way, itself included.
func (w *window) observe(s Sample, busy int, now time.Time) {
	idle := 2*busy < w.limit() // It is not the window that limits.
	w.learn(s, idle, now)
	switch {
	case s.Late && s.Took < 2*w.best:
		// So little time is too little for any node.
	case !s.Late && s.Took > w.target(s.Timeout) && s.Took <= w.best*5/4:
		// The way is so long that no round is sooner: fewer of them would not be, either.
	case s.Late || s.Took > w.target(s.Timeout):
		// Once a round trip: rounds that began before the last time tell nothing new.
		if now.Add(-s.Took).After(w.cut) {
			w.size = max(w.size*3/4, minWindow)
			w.cut = now
			// What brought it to the floor may have been nodes that hung, not their load.
			w.steep = w.size == minWindow
		}
	case !s.Answered:
		// It failed without waiting: nodes are down.
	case idle, w.size >= easyWindow && s.Took > w.best*3/2:
		// More of them would only queue at the nodes.
	case w.steep:
		w.size = min(w.size+1, maxWindow)
	default:
		w.size = min(w.size+4/w.size, maxWindow)
	}
}

// learn keeps best up to date. It rises only when no queue of this client's can be at the
// nodes. The least of the last seconds would follow a queue that does not end, and the
// target would follow it, until all rounds are too late.
func (w *window) learn(s Sample, idle bool, now time.Time) {
	if idle && now.Sub(w.aged) > time.Second {
		w.aged = now
		w.best += w.best / 8 // The way may have become longer.
	}
	switch {
	case !s.Answered:
	case w.best == 0, s.Took < w.best, w.size == minWindow && s.Took > w.target(s.Timeout):
		w.best = max(s.Took, shortRound)
	}
}
