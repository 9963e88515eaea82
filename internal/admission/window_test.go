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

func TestWindowShrinksIfNoRoundIsSoon(t *testing.T) {
	now := time.Now()
	w := window{size: 100, best: time.Millisecond, aged: now, answered: now, resumed: now.Add(-time.Minute)}
	rounds := func(n int, took time.Duration) {
		for range n {
			now = now.Add(100 * time.Microsecond)
			w.observe(Sample{Took: took, Timeout: 250 * time.Millisecond, Answered: true}, w.limit(), now)
		}
	}
	for range 1000 { // An eighth is soon, if not sooner than a queue allows: the rest is no queue's.
		rounds(7, 200*time.Millisecond)
		rounds(1, 30*time.Millisecond)
	}
	assert.Equal(t, 100, w.limit())
	rounds(100, 60*time.Millisecond)
	assert.Equal(t, 100, w.limit())
	rounds(1, 60*time.Millisecond)
	assert.Equal(t, 50, w.limit())
	rounds(600, 60*time.Millisecond) // They began before.
	assert.Equal(t, 50, w.limit())
	rounds(51, 60*time.Millisecond)
	assert.Equal(t, 25, w.limit())
}

// A bursts is a window in use, of which rounds are answered after each other.
type bursts struct {
	window

	now time.Time
}

func newBursts() *bursts {
	now := time.Now()
	return &bursts{window{size: 100, best: time.Millisecond, aged: now, answered: now}, now}
}

// answer has n rounds answered that have all begun pause ago, the first now, and the others one each.
func (b *bursts) answer(n int, pause, each time.Duration) {
	b.now = b.now.Add(pause)
	for i := range n {
		took := pause + time.Duration(i)*each
		b.observe(Sample{Took: took, Timeout: 500 * time.Millisecond, Answered: true}, b.limit(), b.now)
		b.now = b.now.Add(each)
	}
}

// Callers that are fewer than the places ask at once again and again, and the first of them are answered
// soon each time. The nodes carry out the other rounds too late.
func TestWindowShrinksIfFewerAskThanThereArePlaces(t *testing.T) {
	const callers, way, work, timeout = 100, 40 * time.Millisecond, 4 * time.Millisecond, 250 * time.Millisecond
	b := &bursts{newWindow(), time.Now()}
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
	late := Sample{Took: 250 * time.Millisecond, Timeout: 250 * time.Millisecond, Late: true}
	b := newBursts()
	for range 10 {
		for range 60 {
			b.observe(late, 100, b.now)
		}
		b.answer(1, 200*time.Millisecond, 0)
	}
	assert.Equal(t, 100, b.limit())
}

// Answers that come one after the other, be it slowly, are no silence.
func TestWindowShrinksIfAnswersComeSlowly(t *testing.T) {
	b := newBursts()
	b.resumed = b.now.Add(-time.Minute)
	for range 101 {
		b.now = b.now.Add(20 * time.Millisecond)
		b.observe(Sample{Took: 300 * time.Millisecond, Timeout: 500 * time.Millisecond, Answered: true}, 100, b.now)
	}
	assert.Equal(t, 50, b.limit())
}

// A node that leaves too much unanswered is not asked, and such rounds are over at once. So few
// are under way while those that are asked fail.
func TestWindowShrinksIfTheFewThatAreAskedFail(t *testing.T) {
	now := time.Now()
	w := window{size: 100, best: time.Millisecond, aged: now}
	fail := func(n int) {
		for range n {
			now = now.Add(time.Millisecond)
			w.observe(Sample{Timeout: 250 * time.Millisecond}, 2, now)
			w.observe(Sample{Took: 250 * time.Millisecond, Timeout: 250 * time.Millisecond, Late: true}, 1, now)
		}
	}
	fail(50) // So few may be late by chance.
	assert.Equal(t, 100, w.limit())
	fail(1)
	assert.Equal(t, 50, w.limit())
}

func TestWindowIsPatientForThreeQuartersAtMost(t *testing.T) {
	for _, timeout := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Minute} {
		for _, best := range []time.Duration{0, time.Millisecond, 60 * time.Millisecond, time.Second, time.Hour} {
			w := window{best: best}
			patience, target := w.patience(timeout), w.target(timeout)
			assert.GreaterOrEqual(t, patience, timeout/4, "%v, %v", timeout, best)
			assert.LessOrEqual(t, patience, timeout*3/4, "%v, %v", timeout, best)
			assert.Greater(t, timeout-patience, target, "what is left is enough for a round")
		}
	}
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

func TestWindowFindsWhatNodesCarry(t *testing.T) {
	start := time.Now()
	for name, c := range map[string]struct {
		callers   int
		way, work time.Duration
		rate      int           // at least
		took      time.Duration // at most
	}{
		"a long way that 1 000 callers do not fill": {1000, 40 * time.Millisecond, 5 * time.Microsecond, 11_000, 60 * time.Millisecond},
		"a long way that 4 000 callers fill":        {4000, 40 * time.Millisecond, 50 * time.Microsecond, 9500, 80 * time.Millisecond},
		"a way of half a node timeout":              {1000, 120 * time.Millisecond, 50 * time.Microsecond, 4000, 150 * time.Millisecond},
		"a way of most of a node timeout":           {1000, 200 * time.Millisecond, 50 * time.Microsecond, 600, 250 * time.Millisecond},
		"a short way":                               {4000, 200 * time.Microsecond, 20 * time.Microsecond, 24_000, 20 * time.Millisecond},
		"slow nodes":                                {4000, 200 * time.Microsecond, 500 * time.Microsecond, 950, 60 * time.Millisecond},
		"very slow nodes":                           {4000, 200 * time.Microsecond, 2 * time.Millisecond, 240, 150 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWindow()
			rate, took := nodesModel(&w, start, c.callers, c.way, c.work, 5*time.Second)
			t.Logf("%d locks/s, %v, window %d, best %v", rate, took, w.limit(), w.best)
			assert.GreaterOrEqual(t, rate, c.rate)
			assert.LessOrEqual(t, took, c.took)
		})
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
	now := time.Now()
	w := window{size: 128, best: 240 * time.Millisecond, answered: now}
	for range 1000 {
		now = now.Add(10 * time.Millisecond)
		w.observe(Sample{Took: 250 * time.Millisecond, Timeout: 250 * time.Millisecond, Late: true}, w.limit(), now)
	}
	assert.Equal(t, minWindow, w.limit())
}

// If not even 4 rounds at a time are answered, the way may be as long as the rounds have time, and a call must
// not wait for long.
func TestWindowLeavesTimeForAnyWayIfNothingIsAnswered(t *testing.T) {
	now := time.Now()
	w := window{size: minWindow, best: time.Millisecond, answered: now}
	late := Sample{Took: 63 * time.Millisecond, Timeout: 250 * time.Millisecond, Late: true}
	w.observe(late, 4, now.Add(time.Second))
	assert.Equal(t, time.Millisecond, w.best)
	w.observe(late, 4, now.Add(time.Second+1))
	assert.Greater(t, 250*time.Millisecond-w.patience(250*time.Millisecond), 200*time.Millisecond)
	w.observe(Sample{Took: 150 * time.Millisecond, Timeout: 250 * time.Millisecond, Answered: true}, 4, now.Add(2*time.Second))
	assert.Equal(t, 150*time.Millisecond, w.best)
}

// Nodes that are down for long say nothing of the way.
func TestWindowLearnsNothingFromNodesThatAreDown(t *testing.T) {
	now := time.Now()
	w := window{size: 128, best: time.Millisecond, aged: now, answered: now}
	for range 1000 {
		now = now.Add(time.Second)
		w.observe(Sample{Timeout: 250 * time.Millisecond}, 1, now)
	}
	assert.Equal(t, time.Millisecond, w.best)
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
