package admission

import "time"

// A window says how many lock rounds may be under way at the same time. It learns that
// from how long they take. A node queues what it cannot carry out yet, and a queue that stays
// makes all rounds late, while the node answers all the time. What makes rounds late is
// something else if nothing is answered for a while and then all at once, such as a packet that
// was lost: fewer rounds would not make that rarer.
//
// It is arithmetic only. The zero value is not ready; see newWindow.
type window struct {
	size     float64
	slow     float64       // how many rounds in a row were not soon
	best     time.Duration // how long a round takes that need not queue; 0: not known yet
	aged     time.Time     // when best was last raised
	cut      time.Time     // when size was last reduced
	answered time.Time     // when a round was last answered
	resumed  time.Time     // the same for the first after the last silence
}

const (
	minWindow = 4
	maxWindow = 4096

	// easyWindow is where it begins, and what keeps nodes busy where the way to them is short.
	// Beyond that it grows only while rounds show no queue at the nodes.
	easyWindow = 128

	// shortTarget is enough to keep any node busy, also if calls would wait for longer.
	shortTarget = 50 * time.Millisecond

	// silence is how long nothing has to be answered to show that there is no queue: no request
	// takes a node as long.
	silence = 25 * time.Millisecond

	// shortRound is the least value of best: queues that are shorter do not matter.
	shortRound = 500 * time.Microsecond
)

func newWindow() window { return window{size: easyWindow} }

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
	return min(max(min(timeout/5, shortTarget), 2*w.best), timeout*3/5)
}

// patience is how long a call may wait for its turn, of its node timeout: at most three
// quarters. What is left for its round is a bit more than the target, and than the way takes.
func (w *window) patience(timeout time.Duration) time.Duration {
	patience := min(timeout-w.target(timeout)*5/4, timeout*3/4)
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
	queued := w.queued(s, now)
	switch {
	case idle, !s.Answered && !s.Late, s.Late && s.Timeout < w.best*5/4:
		// The window does not limit, nodes are down, or no node could answer in that time.
	case !s.Late && queued <= max(w.target(s.Timeout), w.best*5/4):
		w.slow = 0
		w.size = min(w.size+w.growth(queued, s.Timeout), maxWindow)
	case now.Add(-s.Took).After(w.cut): // Rounds that began before the last cut tell nothing new.
		w.slow++
		if w.slow > w.size*3/4 {
			w.size, w.slow, w.cut = max(w.size/2, minWindow), 0, now
		}
	}
}

// queued is how long a round took, or would have taken if it had begun when answers came again
// after a silence: no node has a queue and answers nothing.
func (w *window) queued(s Sample, now time.Time) time.Duration {
	if !s.Answered {
		return s.Took
	}
	if now.Sub(w.answered) > silence {
		w.resumed = now
	}
	w.answered = now
	return min(s.Took, now.Sub(w.resumed)+w.best)
}

// growth is what a round that was soon adds to the size, if there is no queue at the nodes, and
// less the longer it is: a place, which doubles the size in a round trip. Once there were too
// many, it is half a place.
func (w *window) growth(queued, timeout time.Duration) float64 {
	most := 1.0
	if !w.cut.IsZero() {
		most = 0.5
	}
	if w.size < easyWindow && queued <= w.target(timeout)/2 {
		return most
	}
	return max(0, min(1, 3-2*float64(queued)/float64(w.best))) * most
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
