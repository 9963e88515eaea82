package admission

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A lossyWay is callers in closed loops that lock and unlock on nodes that can carry out any
// number of requests at once. What is sent at the same time goes together, in some pieces, a
// share of which comes later by lag. What comes behind such a piece waits for it.
type lossyWay struct {
	callers  int
	trip     time.Duration
	up, need int // nodes
	share    float64
	lag      time.Duration
}

func (l lossyWay) String() string {
	return fmt.Sprintf("%d callers, %v, %d of %d nodes, %.1f%% %v later", l.callers, l.trip, l.need, l.up, 100*l.share, l.lag)
}

// A lane is one direction of a connection.
type lane struct{ sent, due time.Duration }

// A lossyModel plays a lossyWay in simulated time, with the places of a window, or without a
// limit if there is none.
type lossyModel struct {
	lossyWay

	w               *window
	rng             *rand.Rand
	now             time.Duration
	events          []step // in order
	there, back     []lane
	busy            int
	waiting         []time.Duration // since when
	got, turnedAway int
}

func (m *lossyModel) after(d time.Duration, do func()) {
	at := m.now + d
	i, _ := slices.BinarySearchFunc(m.events, at+1, func(s step, at time.Duration) int { return cmp.Compare(s.at, at) })
	m.events = slices.Insert(m.events, i, step{at, do})
}

// pass returns when what is sent at a time arrives.
func (m *lossyModel) pass(l *lane, at time.Duration) time.Duration {
	if l.sent == at && m.rng.Float64() > 0.03 {
		return l.due
	}
	due := at + m.trip/2
	if m.rng.Float64() < m.share {
		due += m.lag
	}
	l.sent, l.due = at, max(l.due, due)
	return l.due
}

// request asks all nodes, and returns how long a quorum takes to answer.
func (m *lossyModel) request() time.Duration {
	answers := make([]time.Duration, m.up)
	for i := range answers {
		answers[i] = m.pass(&m.back[i], m.pass(&m.there[i], m.now))
	}
	slices.Sort(answers)
	return answers[m.need-1] - m.now
}

const lossyTimeout = 250 * time.Millisecond

// call is one attempt of a caller.
func (m *lossyModel) call() {
	if m.w == nil || m.busy < m.w.limit() && len(m.waiting) == 0 {
		m.round(lossyTimeout)
		return
	}
	came := m.now
	m.waiting = append(m.waiting, came)
	m.after(m.w.patience(lossyTimeout), func() {
		if len(m.waiting) > 0 && m.waiting[0] <= came {
			m.waiting = m.waiting[1:]
			m.turnedAway++
			m.after(m.trip, m.call)
		}
	})
}

func (m *lossyModel) round(limit time.Duration) {
	m.busy++
	took := m.request()
	late := took > limit
	took = min(took, limit)
	m.after(took, func() {
		if m.w != nil {
			m.w.observe(Sample{Took: took, Timeout: lossyTimeout, Answered: !late, Late: late}, m.busy, time.Unix(0, 0).Add(m.now))
		}
		m.busy--
		for len(m.waiting) > 0 && m.busy < m.w.limit() {
			came := m.waiting[0]
			m.waiting = m.waiting[1:]
			m.round(lossyTimeout - (m.now - came))
		}
		released := min(m.request(), lossyTimeout)
		if late {
			released = m.trip
		} else {
			m.got++
		}
		m.after(released, m.call)
	})
}

// play returns how many locks there were, and how many calls were turned away, from then on.
func (l lossyWay) play(w *window, seed uint64, from, length time.Duration) (got, turnedAway int) {
	m := &lossyModel{
		lossyWay: l, now: 1, w: w, rng: rand.New(rand.NewPCG(seed, 0)), there: make([]lane, l.up), back: make([]lane, l.up),
	}
	for range l.callers {
		m.after(0, m.call)
	}
	m.after(from, func() { m.got, m.turnedAway = 0, 0 })
	for m.now < length {
		next := m.events[0]
		m.events = m.events[1:]
		m.now = next.at
		next.do()
	}
	return m.got, m.turnedAway
}

// A step is something that happens at a time.
type step struct {
	at time.Duration
	do func()
}

// Where packets are lost, a window costs next to nothing, and hardly anybody is turned away: in these
// settings a rule that took lost packets for a queue did worst.
// When the rule was chosen, a model like this one took 216 settings, with two seeds each, twice. Of 100 settings, 97
// and 98 had at least 0.9 of the throughput without a limit, and the least was 0.82. The client without a limit,
// compared with itself, had 98 and 99, and 0.85.
//
// There is a tail. Where two pieces of one round are lost, all rounds of that time are too late, which only a queue that
// is too long also does; so the window is halved. If that happens five times in a second, as in one of 300 runs of the
// second setting, it comes down from 1 000 places to 50, and is back three seconds later: a tenth to a third of the
// calls of 20 s are turned away.
func TestWindowOnLossyWays(t *testing.T) {
	const little, long = 60 * time.Millisecond, 200 * time.Millisecond
	for _, l := range []lossyWay{
		{800, 10 * time.Millisecond, 2, 2, 0.01, long},
		{800, 10 * time.Millisecond, 3, 3, 0.01, long},
		{800, 40 * time.Millisecond, 3, 3, 0.03, little},
		{800, 10 * time.Millisecond, 3, 3, 0.03, little},
		{400, 40 * time.Millisecond, 3, 2, 0.01, little},
	} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			const length = 20 * time.Second
			seeds, tail := uint64(60), 0
			if testing.Short() {
				seeds = 3
			}
			least := 1.0
			for seed := range seeds { // The same ones each time: a run hangs on nothing else.
				w := newWindow()
				none, _ := l.play(nil, seed, time.Second/2, length)
				got, turnedAway := l.play(&w, seed+1e6, time.Second/2, length)
				share := float64(got) / float64(none)
				least = min(least, share)
				if share <= 0.8 || turnedAway > got/10 {
					t.Logf("seed %d: %d, %.2f of that without a limit; %d turned away", seed, got, share, turnedAway)
					tail++
				}
				assert.Greater(t, share, 0.5, "seed %d", seed)
				assert.LessOrEqual(t, turnedAway, got/2, "seed %d", seed)
			}
			t.Logf("at least %.2f of the throughput without a limit; %d of %d in the tail", least, tail, seeds)
			assert.LessOrEqual(t, tail, int(seeds/50))
		})
	}
}

// Under a load that goes on, a way that has become longer gets the places that it takes within some seconds:
// lost packets do not hide it, nor that no round is soon, nor that no round that had to wait is in time.
func TestWindowGrowsWhenTheWayBecomesLonger(t *testing.T) {
	const little = 60 * time.Millisecond
	for _, l := range []lossyWay{
		{400, 10 * time.Millisecond, 3, 2, 0, 0},
		{400, 20 * time.Millisecond, 3, 2, 0.03, little},
		{2000, 35 * time.Millisecond, 3, 2, 0, 0},
		{400, 48 * time.Millisecond, 3, 2, 0.01, little},
		{2000, 60 * time.Millisecond, 3, 2, 0, 0},
		{400, 110 * time.Millisecond, 3, 2, 0, 0},
		{400, 150 * time.Millisecond, 3, 2, 0, 0},
		{2000, 150 * time.Millisecond, 3, 2, 0.03, little},
	} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			const from, length = 12 * time.Second, 14 * time.Second
			w := window{size: easyWindow, best: shortRound}
			const seed = 1
			none, _ := l.play(nil, seed, from, length)
			got, turnedAway := l.play(&w, seed+1, from, length)
			t.Logf("%d, %.2f of that without a limit; %d turned away; window %d, best %v", got, float64(got)/float64(none), turnedAway, w.limit(), w.best)
			assert.Greater(t, float64(got), 0.75*float64(none))
			assert.LessOrEqual(t, turnedAway, got/10)
		})
	}
}
