package admission

import "time"

// A trial tells a way that has become longer from a queue at the nodes, when rounds take too long for more places:
// half of the places are held back. With half as many rounds a queue is about half as long, and the way as long as
// before. Then the places are given back one by one: all at once would be a burst. It is arithmetic only, and the
// zero value is ready.
type trial struct {
	phase  phase
	since  time.Time     // of the phase; zero: no round yet
	least  time.Duration // that a round has taken in the phase; 0: none yet
	before time.Duration // the same of the phase before
	held   float64       // how many places are held back
	count  int           // rounds that were observed, in all phases
	other  int           // rounds that were not, as they were not soon
}

// A phase is how far a trial is.
type phase uint8

const (
	stuck    phase = iota // no round has added a place for a while
	measured              // with all places
	halved                // with half of them
	refilled              // until a round is over that began with all of them again
)

// Where half of the places do not keep the nodes busy, a trial costs half of the throughput for some rounds. So
// it is rare.
const (
	minStuck    = time.Second
	stuckRounds = 32                    // what a round takes, so many times, if that is more
	minPhase    = 50 * time.Millisecond // beyond most silences
)

// observe takes in a round that is over now, of a window with so many places. It returns how long the way is if it
// has become longer, else 0.
func (t *trial) observe(took time.Duration, size float64, now time.Time) (way time.Duration) {
	t.count++
	if t.since.IsZero() {
		t.since = now
	}
	if t.least == 0 || took < t.least {
		t.least = took
	}
	past := now.Sub(t.since)
	switch t.phase {
	case stuck:
		if past > max(minStuck, stuckRounds*t.least) && t.areMost() {
			t.next(now)
		}
	case measured:
		if past > max(minPhase, 2*t.least) {
			t.held = size / 2
			t.next(now)
		}
	case halved:
		if past > max(minPhase, 2*t.before) {
			if t.least >= t.before*7/8 && t.areMost() {
				way = min(t.least, t.before)
			}
			t.next(now)
		}
	case refilled:
		switch {
		case t.held > 0:
			t.held, t.since = max(t.held-1, 0), now
		case now.Add(-took).After(t.since):
			*t = trial{}
		}
	}
	return way
}

// areMost reports whether most rounds count: a few that are soon tell of no way if all others queue.
func (t *trial) areMost() bool { return t.count > t.other }

func (t *trial) next(now time.Time) {
	t.phase++
	t.since, t.before, t.least = now, t.least, 0
}
