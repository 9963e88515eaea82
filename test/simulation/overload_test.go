package simulation

import (
	"strconv"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/test/testkit"
)

// Overload: many callers of a client lock and release, each a resource of its own, over ways on which packets are lost.
// Either the nodes can carry out any number of requests, and the client gets a good part of the locks that it would get
// if no packet were lost. Or they take their time for each request, and the client gets a part of what they can carry,
// however many callers there are. A lock that is kept beside that is not lost, calls end in time, and in the end no place
// is taken.
type overloadSim struct {
	*sim

	callers int
	trip    time.Duration
	share   float64       // of what is sent comes later
	lag     time.Duration // by so much
	work    time.Duration // that a node takes for a request; 0: none
	warmUp  time.Duration // what the client learns in is not measured
	length  time.Duration // of the measurement
	stop    atomic.Bool   // the load is over: requests take no time
	got     atomic.Int64  // locks
}

func runOverload(s *sim) {
	o := &overloadSim{sim: s}
	down := o.prepare()
	s.tracef("%d nodes, %d down, %d callers, trip %v, %.1f%% of the packets %v later, work %v, measured for %v",
		len(s.nodes), len(down), o.callers, o.trip, 100*o.share, o.lag, o.work, o.length)
	s.onRequest = func(*simNode, *simRequest) { // A node takes its time.
		if !o.stop.Load() {
			time.Sleep(o.work)
		}
	}
	for _, n := range down {
		s.must(n.Stop())
	}
	for _, n := range s.nodes {
		n.failing(1)
	}
	// Some dozens of seeds had from 0.4 of what they would have without losses on, in the short time of a run, and from
	// 0.3 of what slow nodes can carry. One that takes losses for load has half of the former, and one without an
	// admission next to nothing from slow nodes.
	rate, most, least := o.measure(), float64(o.callers)/(2.5*o.trip.Seconds()), 0.3
	if o.work > 0 {
		most, least = 1/(2*o.work.Seconds()), 0.1
	}
	if s.tracef("%.0f locks a second of %.0f", rate, most); rate < least*most {
		s.failf("(6) %d callers got %.0f locks a second, less than %v of %.0f", o.callers, rate, least, most)
	}
	for _, n := range down {
		s.must(n.Restart(true))
	}
	for _, n := range s.nodes {
		n.failing(-1)
	}
	s.endDelays()
	s.recover()
}

// prepare returns the nodes that do not run.
func (o *overloadSim) prepare() (down []*simNode) {
	s, rng := o.sim, o.rng
	s.cluster(testkit.Pick(rng, 1, 2, 3, 3, 3, 3, 4, 5), 0)
	down = s.nodes[:testkit.Pick(rng, 0, len(s.nodes)-s.need)]
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
	return down
}

// measure returns how many locks a client gets in a second.
func (o *overloadSim) measure() (rate float64) {
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
	for i := range o.callers {
		w := &simCaller{s: s, c: c, rng: s.newRand(), name: c.name + "." + strconv.Itoa(i+1)}
		s.wg.Go(func() { o.repeat(w) })
	}
	time.Sleep(o.warmUp)
	before := o.got.Load()
	time.Sleep(o.length)
	rate = float64(o.got.Load()-before) / o.length.Seconds()
	o.stop.Store(true)
	s.wg.Wait()
	s.settleClocks()
	o.losePackets(0)
	time.Sleep(time.Second) // The nodes have to catch up.
	if ctx.Err() != nil {
		s.failf("(6) a kept lock was lost: %v", kept.Err())
	}
	s.must(kept.Unlock(s.t.Context()))
	synctest.Wait()
	if st := c.r.Stats(); st.Asking != 0 || st.Queued != 0 {
		s.failf("(5) nobody asks, but %d places are taken, and %d wait for one", st.Asking, st.Queued)
	}
	return rate
}

// losePackets has a share of what is sent come later.
func (o *overloadSim) losePackets(share float64) {
	for _, n := range o.nodes {
		n.Proxy().Lag(share, o.lag)
	}
}

// repeat locks and releases until the load is over.
func (o *overloadSim) repeat(w *simCaller) {
	for !o.stop.Load() {
		start := time.Now()
		l, err := w.c.r.TryLock(w.s.t.Context(), []string{w.name}, 10*time.Second)
		w.checkEnd("TryLock", start, w.c.timeout, time.Time{}, true)
		switch {
		case err == nil:
			o.got.Add(1)
			time.Sleep(testkit.Between(w.rng, 0, o.trip)) // Or they would all send at the same time.
			_ = l.Unlock(w.s.t.Context())
		case o.work > 0:
			time.Sleep(testkit.Between(w.rng, 50*time.Millisecond, 150*time.Millisecond))
		default:
			time.Sleep(o.trip) // One that fails at once would not let the fake time go on.
		}
	}
}
