package admission

import "time"

// A window is how many lock rounds may be under way at the same time. It learns that from how long they take. Nodes
// with too many requests answer all the time, but all rounds late. A silence after which everything is answered at once
// has another cause, such as a lost packet: fewer rounds would not make it rarer.
//
// It is arithmetic only. The zero value is not ready; see newWindow.
//
// The rules of docs/algorithm.md are needed for these reasons, measured mostly in fake time:
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
	silent   int           // how many in a row were so only because of a silence
	best     time.Duration // how long a round takes without a queue; 0: not known yet
	aged     time.Time     // when best was last raised
	cut      time.Time     // when size was last reduced
	answered time.Time     // when a round was last answered
	resumed  time.Time     // when a round was first answered after the last silence
	trial    trial         // finds out whether the way has become longer
}

const (
	minWindow = 4
	maxWindow = 4096

	// easyWindow is the first size, which keeps nodes busy if the way to them is short. Beyond it, the window grows
	// only while rounds show no queue at the nodes.
	easyWindow = 128

	shortTarget = 50 * time.Millisecond  // enough to keep any node busy, even if calls would wait for longer
	shortRound  = 500 * time.Microsecond // the least value of best: shorter queues do not matter
	known       = time.Second            // how long best is trusted while no round is answered

	// Silence is a time without answers that no queue explains.
	Silence = 25 * time.Millisecond
)

func newWindow() window { return window{size: easyWindow} }

// A Sample is what a round that is over now has shown.
type Sample struct {
	Took     time.Duration // from its start to its decision
	Timeout  time.Duration // the node timeout of its call
	Answered bool          // the answers of a quorum decided it
	Late     bool          // its time was over first, or nodes are late with earlier rounds
}

// places returns how many rounds may be under way, and limit how many while some places are held back.
func (w *window) places() int { return int(w.size) }
func (w *window) limit() int  { return int(w.size - w.trial.held) }

// target returns how long a round should take, for the node timeout of its call: a fifth, or more if the way is long.
func (w *window) target(timeout time.Duration) time.Duration {
	return min(max(min(timeout/5, shortTarget), 2*w.best), timeout*3/5)
}

// patience returns how long a call may wait for its turn, for its node timeout: at most three quarters. The rest, for
// its round, is a bit more than the target, and than the way takes.
func (w *window) patience(timeout time.Duration) time.Duration {
	patience := min(timeout-w.target(timeout)*5/4, timeout*3/4)
	if spare := timeout - w.best*9/8; spare > 0 {
		patience = min(patience, spare)
	}
	return patience
}

// observe adapts the size to a round. busy is how many rounds were under way, this one included. After a silence, only
// the time since answers resumed counts as queueing.
func (w *window) observe(s Sample, busy int, now time.Time) {
	idle := 2*busy < w.limit() // The window does not limit the rounds.
	w.learn(s, idle, now)
	if idle {
		w.trial = trial{}
	}
	soon, queued := max(w.target(s.Timeout), w.best*5/4), min(s.Took, now.Sub(w.resumed)+w.best)
	late := s.Late || !s.Answered && s.Took > soon // The latter happens if connections with a queue have broken.
	switch {
	case !late && (idle || !s.Answered), late && s.Timeout < w.best*9/8 && now.Sub(w.answered) < known:
		// The window does not limit, nodes are down, or no node could answer in that time: patience leaves a
		// round 9/8 of best. A best that was measured in a queue must not excuse late rounds forever.
	case s.Answered && s.Took <= soon:
		w.slow, w.silent = 0, 0
		w.grow(s, now)
	case s.Answered && queued <= soon:
		w.slow = 0
		if w.silent++; w.silent > 8*w.places() { // That is no lost packet, but the way, or a queue behind it.
			w.try(s, now)
		} else {
			w.trial.other++
		}
	case now.Add(-s.Took).After(w.cut): // Rounds that began before the last cut tell nothing new.
		// There may be fewer callers than places, so busy counts. A short row is chance.
		w.trial.other++
		if w.slow++; w.slow > max(busy, w.places()/2) {
			w.size, w.slow, w.cut, w.trial = max(w.size/2, minWindow), 0, now, trial{}
		}
	}
}

// grow takes a round that was soon. If the round adds nothing to the size, it counts for a trial.
func (w *window) grow(s Sample, now time.Time) {
	if more := w.growth(s); more > 0 && w.trial.phase < halved {
		w.size, w.trial = min(w.size+more, maxWindow), trial{}
	} else {
		w.try(s, now)
	}
}

// try counts a round for a trial, which may show that best is longer.
func (w *window) try(s Sample, now time.Time) {
	if way := w.trial.observe(s.Took, w.size, now); way > 0 {
		w.best = max(way, shortRound)
	}
}

// growth returns how much a round that was soon adds to the size. Without a queue at the nodes it is a place, which
// doubles the size in a round trip; it is less the longer the queue is. Once there were too many places, it is half of
// that. Silences count as queues here: a client without a processor makes them as well.
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

// learn keeps best and resumed up to date. Apart from trials, best rises only when this client can have no queue at the
// nodes. The least of the last seconds would be wrong: it would follow a queue that does not end, and the target with
// it, until all rounds are too late.
func (w *window) learn(s Sample, idle bool, now time.Time) {
	if idle && s.Answered && now.Sub(w.aged) > time.Second {
		w.aged = now
		w.best += w.best / 8 // The way may have become longer.
	}
	if s.Late && w.size == minWindow && now.Sub(w.answered) > known {
		w.best = s.Timeout * 3 / 4 // Otherwise waiting calls would leave their rounds too little time.
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
