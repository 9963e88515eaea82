package admission

import "time"

// A trial tells a longer way to the nodes from a queue there, when rounds take too long for more places. It holds back
// half of the places: with half as many rounds a queue is about half as long, and the way as long as before. Then it
// gives the places back one by one: all at once would be a burst. It is arithmetic only, and the zero value is ready.
type trial struct {
	phase  phase
	since  time.Time     // when the phase began; zero: no round yet
	least  time.Duration // the shortest round of the phase; 0: none yet
	before time.Duration // the shortest round of the phase before
	held   float64       // how many places are held back
	count  int           // rounds that were observed, in all phases
	other  int           // rounds that were not observed, as they were not soon
}

// A phase is how far a trial is.
type phase uint8

const (
	stuck    phase = iota // no round has added a place for a while
	measured              // with all places
	halved                // with half of them
	refilled              // until the end of a round that began with all places again
)

// If half of the places do not keep the nodes busy, a trial costs half of the throughput for some rounds. So it is
// rare.
const (
	minStuck    = time.Second
	stuckRounds = 32                    // or so many of the shortest rounds, if that is longer
	minPhase    = 50 * time.Millisecond // longer than most silences
)

// observe takes a round that is over now, of a window with that size. It returns how long the way is if it has become
// longer, else 0.
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

// areMost reports whether most rounds were observed: a few that are soon say nothing about the way if all others queue.
func (t *trial) areMost() bool { return t.count > t.other }

func (t *trial) next(now time.Time) {
	t.phase++
	t.since, t.before, t.least = now, t.least, 0
}
