package admission

import "time"

// A window says how many lock rounds may be under way at the same time. It learns that from how long they take. Nodes
// that are asked too much answer all the time, and all rounds late. A silence after which everything is answered at
// once is something else, such as a lost packet: fewer rounds would not make it rarer.
//
// It is arithmetic only. The zero value is not ready; see newWindow.
//
// What the rules of docs/algorithm.md are for, mostly in fake time:
//   - Without a limit, 2 000 callers on nodes that can do 10 000 locks a second had none in the fourth second.
//   - If only a row as long as all places counted, 100 callers of nodes that take 4 ms for a command had 0.6 of what these
//     can grant, instead of 0.84. If only what is under way counted, callers were turned away in 8 of 216 settings with
//     lost packets, instead of 4.
//   - If what nodes with a queue refuse did not count, either, a silence in each burst hid the queue: the 100 callers had
//     everything late for seconds, and a kept lock was lost in 12 of 40 runs of a seed of the simulation, instead of none.
//   - When rounds late for a silence let it grow, a busy machine came to 2 800 places, and releases failed.
//   - With best as the least of the last seconds, extensions took 180 ms after half a minute, instead of 50.
//   - Without trials, 400 callers had 12 800 locks a second after their round trip had risen to 10 ms, where 20 000 are
//     possible; with 48 ms, one of thirty packets lost and 2 000 callers, a tenth of what was possible.
//   - Through a proxy that stores 4 KB and forwards 20 KB/s, 600 callers had no lock from the second second on while a best
//     of queued rounds excused late ones; now they have 55 to 75 a second within 20 s.
//   - With at least 16 places, nodes that take 2 ms for a command carried out every round too late.
type window struct {
	size     float64
	slow     int           // how many rounds in a row were not soon
	silent   int           // how many in a row were so only for a silence
	best     time.Duration // how long a round takes that need not queue; 0: not known yet
	aged     time.Time     // when best was last raised
	cut      time.Time     // when size was last reduced
	answered time.Time     // when a round was last answered
	resumed  time.Time     // the same for the first after the last silence
	trial    trial         // of whether the way has become longer
}

const (
	minWindow = 4
	maxWindow = 4096

	// easyWindow is where it begins, and what keeps nodes busy where the way to them is short.
	// Beyond that it grows only while rounds show no queue at the nodes.
	easyWindow = 128

	shortTarget = 50 * time.Millisecond  // enough to keep any node busy, also if calls would wait for longer
	shortRound  = 500 * time.Microsecond // the least value of best: queues that are shorter do not matter
	known       = time.Second            // for how long best is believed while no round is answered

	// Silence is for how long nothing is answered if that is no queue's doing.
	Silence = 25 * time.Millisecond
)

func newWindow() window { return window{size: easyWindow} }

// A Sample is what a round has shown that is over now.
type Sample struct {
	Took     time.Duration // from its start to its decision
	Timeout  time.Duration // the node timeout of its call
	Answered bool          // the answers of a quorum decided it
	Late     bool          // its time was over first, or is that of earlier ones for which nodes have no answer yet
}

// places is how many rounds may be under way, limit how many while some places are held back.
func (w *window) places() int { return int(w.size) }
func (w *window) limit() int  { return int(w.size - w.trial.held) }

// target is how long a round is to take, of the node timeout of its call: a fifth, or more where the way is long.
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

// observe adapts the size to what a round has shown. busy is how many rounds were under way,
// itself included. After a silence, only the time since answers resumed counts as queueing.
func (w *window) observe(s Sample, busy int, now time.Time) {
	idle := 2*busy < w.limit() // It is not the window that limits.
	w.learn(s, idle, now)
	if idle {
		w.trial = trial{}
	}
	soon, queued := max(w.target(s.Timeout), w.best*5/4), min(s.Took, now.Sub(w.resumed)+w.best)
	late := s.Late || !s.Answered && s.Took > soon // The latter if connections have broken that had a queue.
	switch {
	case !late && (idle || !s.Answered), late && s.Timeout < w.best*9/8 && now.Sub(w.answered) < known:
		// The window does not limit, nodes are down, or no node could answer in that time: patience leaves a
		// round 9/8 of best. A best that was measured in a queue must not excuse late rounds forever.
	case s.Answered && s.Took <= soon:
		w.slow, w.silent = 0, 0
		w.grow(s, now)
	case s.Answered && queued <= soon:
		w.slow = 0
		if w.silent++; w.silent > 8*w.places() { // That is no packet, but the way, or a queue behind it.
			w.try(s, now)
		} else {
			w.trial.other++
		}
	case now.Add(-s.Took).After(w.cut): // Rounds that began before the last cut tell nothing new.
		// Callers may be fewer than the places, so what is under way counts. A short row is chance.
		w.trial.other++
		if w.slow++; w.slow > max(busy, w.places()/2) {
			w.size, w.slow, w.cut, w.trial = max(w.size/2, minWindow), 0, now, trial{}
		}
	}
}

// grow takes in a round that was soon: if it adds nothing to the size, it counts for a trial.
func (w *window) grow(s Sample, now time.Time) {
	if more := w.growth(s); more > 0 && w.trial.phase < halved {
		w.size, w.trial = min(w.size+more, maxWindow), trial{}
	} else {
		w.try(s, now)
	}
}

// try has a round count for a trial, which may show that best is longer.
func (w *window) try(s Sample, now time.Time) {
	if way := w.trial.observe(s.Took, w.size, now); way > 0 {
		w.best = max(way, shortRound)
	}
}

// growth is what a round that was soon adds to the size, if there is no queue at the nodes, and
// less the longer it is: a place, which doubles the size in a round trip. Once there were too
// many, it is half a place. Silences count: a client that gets no processor makes them, too.
func (w *window) growth(s Sample) float64 {
	most := 1.0
	if !w.cut.IsZero() {
		most = 0.5
	}
	if w.size < easyWindow && s.Took <= w.target(s.Timeout)/2 {
		return most
	}
	return max(0, min(1, 3-2*float64(s.Took)/float64(w.best))) * most
}

// learn keeps best and resumed up to date. Apart from trials, best rises only when no queue of this
// client's can be at the nodes. The least of the last seconds would follow a queue that does not end,
// and the target would follow it, until all rounds are too late.
func (w *window) learn(s Sample, idle bool, now time.Time) {
	if idle && s.Answered && now.Sub(w.aged) > time.Second {
		w.aged = now
		w.best += w.best / 8 // The way may have become longer.
	}
	if s.Late && w.size == minWindow && now.Sub(w.answered) > known {
		w.best = s.Timeout * 3 / 4 // Or calls that wait would leave no round the time that it takes.
	}
	if !s.Answered {
		return
	}
	if now.Sub(w.answered) > Silence {
		w.resumed = now
	}
	w.answered = now
	if w.best == 0 || s.Took < w.best || w.size == minWindow && s.Took > w.target(s.Timeout) {
		w.best = max(s.Took, shortRound)
	}
}
