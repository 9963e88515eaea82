package simulation

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/test/testkit"
)

// Overload: many callers of a client lock and release, each a resource of its own, over ways on which
// packets are lost. Either the nodes can carry out any number of requests, and the client gets nearly as
// many locks as one without an admission. Or they take their time for each request, and the client gets
// most of what they can carry, however many callers there are. A lock that is kept beside that is not lost,
// calls end in time, and in the end no place is taken.
type overloadSim struct {
	*sim

	callers int
	trip    time.Duration
	share   float64       // of what is sent comes later
	lag     time.Duration // by so much
	work    time.Duration // that a node takes for a request; 0: none
	warmUp  time.Duration // what the client learns in is not measured
	length  time.Duration // of a measurement
	down    int           // nodes that do not run
	idle    atomic.Bool   // the load is over: requests take no time
}

// Shares of the goodput. Some dozens of seeds had from 0.87 of a client's without an admission on, in the short
// time of a run, and from 0.3 of what slow nodes can carry. A client that takes losses for load gets half of the
// former, and one without an admission next to nothing from slow nodes.
const (
	leastOfOpen     = 0.6
	leastOfCapacity = 0.1
)

func runOverload(s *sim) {
	o := &overloadSim{sim: s}
	o.prepare()
	s.tracef("%d nodes, %d down, %d callers, trip %v, %.1f%% of the packets %v later, work %v, measured for %v",
		len(s.nodes), o.down, o.callers, o.trip, 100*o.share, o.lag, o.work, o.length)
	s.onRequest = o.onRequest
	for _, n := range s.nodes[:o.down] {
		s.must(n.Stop())
	}
	for _, n := range s.nodes {
		n.begin(true)
	}
	rate := o.measure(false)
	if o.work > 0 {
		o.checkGoodput(rate, time.Second.Seconds()/(2*o.work).Seconds(), leastOfCapacity)
	} else if most := o.measure(true); most > float64(o.callers)/(10*o.trip).Seconds() {
		// Less than a quarter of what it is without losses: nothing but losses counts.
		o.checkGoodput(rate, most, leastOfOpen)
	}
	for _, n := range s.nodes[:o.down] {
		s.must(n.Restart(true))
	}
	for _, n := range s.nodes {
		n.end()
	}
	s.endDelays()
	o.idle.Store(true)
	s.recover()
}

// onRequest has a node take its time.
func (o *overloadSim) onRequest(*simNode, *simRequest) {
	if !o.idle.Load() {
		time.Sleep(o.work)
	}
}

// checkGoodput checks (6): what a client with an admission gets, of the most that it could.
func (o *overloadSim) checkGoodput(rate, most, least float64) {
	o.tracef("%.0f locks a second of %.0f", rate, most)
	if rate < least*most {
		o.failf("(6) %d callers got %.0f locks a second, less than %v of %.0f", o.callers, rate, least, most)
	}
}

func (o *overloadSim) prepare() {
	s, rng := o.sim, o.rng
	s.cluster(testkit.Pick(rng, 1, 2, 3, 3, 3, 3, 4, 5), 0)
	o.down = testkit.Pick(rng, 0, len(s.nodes)-s.need)
	o.share, o.lag = testkit.Pick(rng, 0.001, 0.003, 0.01), 60*time.Millisecond
	if rng.IntN(3) == 0 {
		o.share, o.lag = testkit.Pick(rng, 0.0003, 0.001, 0.003), 200*time.Millisecond
	}
	if rng.IntN(2) == 0 {
		o.trip = 40 * time.Millisecond
		o.callers = testkit.Pick(rng, 150, 150, 250, 400)
		o.warmUp, o.length = 8*o.trip, 24*o.trip
	} else {
		o.trip = testkit.Pick(rng, 10*time.Millisecond, 40*time.Millisecond)
		o.callers = testkit.Pick(rng, 50, 100, 200)
		o.work = testkit.Pick(rng, 2*time.Millisecond, 4*time.Millisecond)
		o.warmUp, o.length = 3*time.Second, time.Second
	}
}

// measure returns how many locks a client gets in a second. An open one has no admission.
func (o *overloadSim) measure(open bool) (rate float64) {
	s := o.sim
	c := s.openClient(simOptions{})
	s.c.SetSeed(s.seed)
	for _, n := range s.nodes {
		n.Proxy().SetDelay(o.trip/2, o.trip/2)
	}
	testkit.Warm(s.t, c.r)
	kept, err := c.r.TryLock(s.t.Context(), []string{"kept"}, 5*time.Second)
	require.NoError(s.t, err)
	ctx := kept.KeepAlive(s.t.Context())
	s.moveClocks(o.warmUp+o.length, 500*time.Millisecond)
	o.losePackets(o.share)
	if open {
		testkit.AdmissionOf(c.r).Open()
	}
	var got atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range o.callers {
		w := &simCaller{s: s, c: c, rng: s.newRand(), name: c.name + "." + strconv.Itoa(i+1)}
		wg.Go(func() { o.repeat(w, &got, &stop) })
	}
	time.Sleep(o.warmUp)
	before := got.Load()
	time.Sleep(o.length)
	rate = float64(got.Load()-before) / o.length.Seconds()
	stop.Store(true)
	wg.Wait()
	s.settleClocks()
	o.losePackets(0)
	time.Sleep(time.Second) // The nodes have to catch up.
	if !open && ctx.Err() != nil {
		s.failf("(6) a kept lock was lost: %v", kept.Err())
	}
	s.must(kept.Unlock(s.t.Context()))
	synctest.Wait()
	if st := c.r.Stats(); st.Asking != 0 && !open || st.Queued != 0 {
		s.failf("(5) nobody asks, but %d places are taken, and %d wait for one", st.Asking, st.Queued)
	}
	if open { // It does not count its places.
		c.closeIdle()
	}
	return rate
}

// losePackets has a share of what is sent come later.
func (o *overloadSim) losePackets(share float64) {
	for _, n := range o.nodes {
		n.Proxy().Lag(share, o.lag)
	}
}

// repeat locks and releases until it is to stop.
func (o *overloadSim) repeat(w *simCaller, got *atomic.Int64, stop *atomic.Bool) {
	res := []string{w.name}
	for !stop.Load() {
		start := time.Now()
		l, err := w.c.r.TryLock(w.s.t.Context(), res, 10*time.Second)
		w.checkEnd("TryLock", start, w.c.timeout, time.Time{}, true)
		if err == nil {
			got.Add(1)
			time.Sleep(testkit.Between(w.rng, 0, o.trip)) // Or they would all send at the same time.
			_ = l.Unlock(w.s.t.Context())
			continue
		}
		back := o.trip // One that fails at once would not let the fake time go on.
		if o.work > 0 {
			back = testkit.Between(w.rng, 50*time.Millisecond, 150*time.Millisecond)
		}
		time.Sleep(back)
	}
}
