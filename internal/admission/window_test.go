package admission

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWindowObserve(t *testing.T) {
	const us, ms, timeout = time.Microsecond, time.Millisecond, 250 * time.Millisecond
	start := time.Now()
	answered := func(took time.Duration) Sample { return Sample{Took: took, Timeout: timeout, Answered: true} }
	late := func(took, timeout time.Duration) Sample { return Sample{Took: took, Timeout: timeout, Late: true} }
	broken := func(took time.Duration) Sample { return Sample{Took: took, Timeout: timeout} }
	// There was no silence lately, and one more that is not soon is too many.
	learned := func(size float64, best time.Duration) window {
		return window{size: size, slow: int(size), best: best, aged: start, answered: start, resumed: start.Add(-time.Minute)}
	}
	known := func(size float64) window { return learned(size, ms) }
	for name, c := range map[string]struct {
		before window
		sample Sample
		busy   int
		size   float64
		best   time.Duration
	}{
		"the first answer":                                {newWindow(), answered(ms), 100, 129, ms},
		"a short round is as good as none":                {known(100), answered(us), 100, 101, shortRound},
		"doubles in a round trip":                         {known(100), answered(ms), 100, 101, ms},
		"by less if rounds queue":                         {known(200), answered(1250 * us), 200, 200.5, ms},
		"not beyond its end":                              {known(maxWindow), answered(ms), maxWindow, maxWindow, ms},
		"not while half of it is unused":                  {known(100), answered(ms), 49, 100, ms},
		"not beyond 128 if rounds queue":                  {known(128), answered(1600 * us), 100, 128, ms},
		"below 128 if rounds queue a bit":                 {known(100), answered(25 * ms), 100, 101, ms},
		"not if rounds queue for longer":                  {known(100), answered(26 * ms), 100, 100, ms},
		"less if rounds take a fifth of the timeout":      {known(100), answered(51 * ms), 100, 50, ms},
		"not if the way is long":                          {learned(128, 40*ms), answered(79 * ms), 100, 128, 40 * ms},
		"not if no round is sooner":                       {learned(128, 160*ms), answered(199 * ms), 100, 128.5125, 160 * ms},
		"less if rounds queue on a way that is as long":   {learned(100, 160*ms), answered(201 * ms), 100, 50, 160 * ms},
		"less if a round is too late":                     {known(100), late(20*ms, timeout), 100, 50, ms},
		"not if it had no chance":                         {known(100), late(ms, ms), 100, 100, ms},
		"not below 4":                                     {known(5), late(timeout, timeout), 5, 4, ms},
		"at 4, what takes long is the way":                {known(4), answered(60 * ms), 100, 5, 60 * ms},
		"less if connections break for a queue":           {known(100), broken(51 * ms), 100, 50, ms},
		"not if they break before a round should be over": {learned(100, 40*ms), broken(79 * ms), 100, 100, 40 * ms},
		"nodes that are down say nothing":                 {known(100), broken(us), 100, 100, ms},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.before
			w.observe(c.sample, c.busy, start.Add(ms))
			assert.InDelta(t, c.size, w.size, 1e-6)
			assert.Equal(t, c.best, w.best)
		})
	}
}

// A play is a window in use, and the time.
type play struct {
	window

	now time.Time
}

// newPlay begins with 100 places on a short way, long after a silence.
func newPlay() *play {
	now := time.Now()
	return &play{window{size: 100, best: time.Millisecond, aged: now, answered: now, resumed: now.Add(-time.Minute)}, now}
}

// newBursts is newPlay with no silence known.
func newBursts() *play {
	p := newPlay()
	p.resumed = time.Time{}
	return p
}

// rounds has n rounds end one after the other, with so many under way.
func (p *play) rounds(n int, pause time.Duration, s Sample, busy int) {
	for range n {
		p.now = p.now.Add(pause)
		p.observe(s, busy, p.now)
	}
}

// answer has n rounds answered that have all begun pause ago, the first now, and the others one each.
func (p *play) answer(n int, pause, each time.Duration) {
	p.now = p.now.Add(pause)
	for i := range n {
		took := pause + time.Duration(i)*each
		p.observe(Sample{Took: took, Timeout: 500 * time.Millisecond, Answered: true}, p.limit(), p.now)
		p.now = p.now.Add(each)
	}
}

const testTimeout = 250 * time.Millisecond

// tooLate is a round that has used up its time.
var tooLate = Sample{Took: testTimeout, Timeout: testTimeout, Late: true}

func TestWindowShrinksIfNoRoundIsSoon(t *testing.T) {
	p := newPlay()
	rounds := func(n int, took time.Duration) {
		p.rounds(n, 100*time.Microsecond, Sample{Took: took, Timeout: testTimeout, Answered: true}, p.limit())
	}
	for range 1000 { // An eighth is soon, if not sooner than a queue allows: the rest is no queue's.
		rounds(7, 200*time.Millisecond)
		rounds(1, 30*time.Millisecond)
	}
	assert.Equal(t, 100, p.limit())
	for _, step := range []struct{ n, limit int }{{100, 100}, {1, 50}, {600, 50}, {51, 25}} { // 600 began before.
		rounds(step.n, 60*time.Millisecond)
		assert.Equal(t, step.limit, p.limit())
	}
}

// Callers that are fewer than the places ask at once again and again, and the first of them are answered
// soon each time. The nodes carry out the other rounds too late.
func TestWindowShrinksIfFewerAskThanThereArePlaces(t *testing.T) {
	const callers, way, work, timeout = 100, 40 * time.Millisecond, 4 * time.Millisecond, 250 * time.Millisecond
	b := &play{newWindow(), time.Now()}
	for range 10 {
		began := b.now
		asked := min(callers, b.limit())
		for i := range asked {
			took := way + time.Duration(i+1)*work
			late := took > timeout
			took = min(took, timeout)
			b.now = began.Add(took)
			b.observe(Sample{Took: took, Timeout: timeout, Answered: !late, Late: late}, asked-i, b.now)
		}
		b.now = b.now.Add(time.Second) // The nodes release what came too late.
	}
	assert.LessOrEqual(t, way+time.Duration(b.limit())*work, timeout)
}

// Nodes that answer nothing for a while, and then all at once, have no queue. What takes long after
// that is one. In either case there are not more places: it may be the client that was silent.
func TestWindowDoesNotShrinkForASilence(t *testing.T) {
	const lag = 200 * time.Millisecond
	b := newBursts()
	for range 20 {
		for range 3 {
			b.answer(100, lag, 10*time.Microsecond)
		}
		assert.Equal(t, time.Millisecond, b.best)
		b.answer(1, 30*time.Millisecond, 0) // So the way is not longer.
	}
	assert.Equal(t, 100, b.limit())
	b.answer(150, lag, 2*time.Millisecond)
	assert.Equal(t, 50, b.limit())
}

// What is late for a silence ends a row of late rounds: nodes that are idle when answers come
// again have no queue that stays.
func TestWindowShrinksForARowThatNoSilenceEnds(t *testing.T) {
	p := newBursts()
	for range 10 {
		p.rounds(60, 0, tooLate, 100)
		p.answer(1, 200*time.Millisecond, 0)
	}
	assert.Equal(t, 100, p.limit())
}

// Answers that come one after the other, be it slowly, are no silence.
func TestWindowShrinksIfAnswersComeSlowly(t *testing.T) {
	p := newPlay()
	answered := Sample{Took: 300 * time.Millisecond, Timeout: 500 * time.Millisecond, Answered: true}
	p.rounds(101, 20*time.Millisecond, answered, 100)
	assert.Equal(t, 50, p.limit())
}

// A node that leaves too much unanswered is not asked, and such rounds are over at once. So few
// are under way while those that are asked fail.
func TestWindowShrinksIfTheFewThatAreAskedFail(t *testing.T) {
	p := newBursts()
	p.answered = time.Time{}
	fail := func(n int) {
		for range n {
			p.rounds(1, time.Millisecond, Sample{Timeout: testTimeout}, 2)
			p.rounds(1, 0, tooLate, 1)
		}
	}
	fail(50) // So few may be late by chance.
	assert.Equal(t, 100, p.limit())
	fail(1)
	assert.Equal(t, 50, p.limit())
}

// nodesModel carries out lock rounds and releases one after the other, each in the same
// time, behind a way that takes a fixed time. It plays callers in closed loops that
// lock and unlock, with a place of the window for each lock, for some time, and
// returns how many locks there were in the last second, and how long a round took at the end.
func nodesModel(w *window, start time.Time, callers int, way, work, length time.Duration) (rate int, took time.Duration) {
	type event struct {
		at    time.Duration
		began time.Duration
		lock  bool
	}
	var now, free time.Duration
	busy, waiting := 0, callers
	var events []event // in order of at: work is first in, first out
	serve := func(lock bool) {
		free = max(free, now+way/2) + work
		events = append(events, event{at: free + way/2, began: now, lock: lock})
	}
	for now < length {
		for waiting > 0 && busy < w.limit() {
			waiting--
			busy++
			serve(true)
		}
		e := events[0]
		events = events[1:]
		now = e.at
		if !e.lock {
			waiting++
			continue
		}
		took = now - e.began
		w.observe(Sample{
			Took: took, Timeout: 250 * time.Millisecond, Answered: took < 250*time.Millisecond, Late: took >= 250*time.Millisecond,
		}, busy, start.Add(now))
		busy--
		if now > length-time.Second {
			rate++
		}
		serve(false)
	}
	return rate, took
}

// Under a load that goes on, a way that has become longer gets the places that it takes within some seconds: neither
// that no round is soon hides it, nor that no round that had to wait is in time. test/simulation loses packets besides.
func TestWindowGrowsWhenTheWayBecomesLonger(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		callers int
		way     time.Duration
	}{{400, 10 * ms}, {400, 110 * ms}, {400, 150 * ms}, {2000, 35 * ms}, {2000, 60 * ms}, {2000, 150 * ms}} {
		w := window{size: easyWindow, best: shortRound}
		rate, took := nodesModel(&w, time.Now(), c.callers, c.way, time.Microsecond, 14*time.Second)
		t.Logf("%+v: %d locks/s, %v, window %d, best %v", c, rate, took, w.limit(), w.best)
		assert.Greater(t, float64(rate), 0.75*float64(c.callers)/(2*c.way).Seconds())
	}
}

// A measure of the way that follows the queue would let the queue grow, and the measure after
// it: after half a minute all rounds would take as long as a call may.
func TestWindowStaysInALongOverload(t *testing.T) {
	w := newWindow()
	_, took := nodesModel(&w, time.Now(), 4000, 200*time.Microsecond, 500*time.Microsecond, 3*time.Minute)
	assert.LessOrEqual(t, took, 60*time.Millisecond)
	assert.LessOrEqual(t, w.best, 2*shortRound)
}

// A first round may have waited in a queue. So what it took does not excuse late rounds for ever.
func TestWindowShrinksIfItHasNeverSeenTheWay(t *testing.T) {
	p := &play{window{size: 128, best: 240 * time.Millisecond}, time.Now()}
	p.answered = p.now
	for range 1000 {
		p.rounds(1, 10*time.Millisecond, tooLate, p.limit())
	}
	assert.Equal(t, minWindow, p.limit())
}

// If not even 4 rounds at a time are answered, the way may be as long as the rounds have time, and a call must
// not wait for long.
func TestWindowLeavesTimeForAnyWayIfNothingIsAnswered(t *testing.T) {
	p := &play{window{size: minWindow, best: time.Millisecond}, time.Now()}
	p.answered = p.now
	late := Sample{Took: 63 * time.Millisecond, Timeout: testTimeout, Late: true}
	p.rounds(1, time.Second, late, 4)
	assert.Equal(t, time.Millisecond, p.best)
	p.rounds(1, 1, late, 4)
	assert.Greater(t, testTimeout-p.patience(testTimeout), 200*time.Millisecond)
	p.rounds(1, time.Second, Sample{Took: 150 * time.Millisecond, Timeout: testTimeout, Answered: true}, 4)
	assert.Equal(t, 150*time.Millisecond, p.best)
}

// Nodes that are down for long say nothing of the way.
func TestWindowLearnsNothingFromNodesThatAreDown(t *testing.T) {
	p := newBursts()
	p.rounds(1000, time.Second, Sample{Timeout: testTimeout}, 1)
	assert.Equal(t, time.Millisecond, p.best)
}

func TestBackoff(t *testing.T) {
	const timeout = 200 * time.Millisecond
	within := func(want, got time.Duration) {
		t.Helper()
		assert.GreaterOrEqual(t, got, want/2)
		assert.Less(t, got, want*3/2)
	}
	b := Backoff{Random: rand.N[time.Duration]}
	assert.False(t, b.Overloaded())
	assert.Equal(t, time.Millisecond, b.Delay(time.Millisecond, timeout))
	for _, want := range []time.Duration{timeout, 2 * timeout, 4 * timeout, 8 * timeout, 16 * timeout, maxDelay, maxDelay} {
		b.Note(true, true)
		assert.True(t, b.Overloaded())
		within(want, b.Delay(time.Millisecond, timeout))
		within(want, b.Look(timeout))
		b.Note(true, false) // A second look does not double it.
		within(want, b.Look(timeout))
	}
	assert.GreaterOrEqual(t, b.Delay(time.Hour, timeout), time.Hour, "no sooner than the options say")
	b.Note(false, true)
	assert.False(t, b.Overloaded())
	b.Note(true, false)
	assert.True(t, b.Overloaded(), "a second look may begin a row")
	within(timeout, b.Delay(time.Millisecond, timeout))
}

// play has a trial see rounds that all take as long, one each millisecond, for so long.
func (t *trial) play(now *time.Time, length, took time.Duration) (way time.Duration) {
	for range length / time.Millisecond {
		*now = now.Add(time.Millisecond)
		way = max(way, t.observe(took, 100, *now))
	}
	return way
}

func TestTrial(t *testing.T) {
	const before = 20 * time.Millisecond
	for name, c := range map[string]struct{ took, way time.Duration }{
		"a longer way": {18 * time.Millisecond, 18 * time.Millisecond},
		"a queue":      {17 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var try trial
			now := time.Now()
			assert.Zero(t, try.play(&now, minStuck+minPhase, before))
			assert.Zero(t, try.held)
			assert.Zero(t, try.play(&now, 10*time.Millisecond, before))
			assert.InDelta(t, 50, try.held, 0)
			assert.Zero(t, try.play(&now, 10*time.Millisecond, before), "they began with all places")
			assert.Equal(t, c.way, try.play(&now, 55*time.Millisecond, c.took))
			assert.Less(t, try.held, 50.0)
			assert.Greater(t, try.held, 25.0, "one place after the other")
			try.play(&now, 40*time.Millisecond, c.took)
			assert.Zero(t, try.held)
			assert.Equal(t, refilled, try.phase, "what is over now began with fewer places")
			try.play(&now, 30*time.Millisecond, c.took)
			assert.Equal(t, stuck, try.phase, "the next one")
		})
	}
}
