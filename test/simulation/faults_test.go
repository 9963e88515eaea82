package simulation

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/test/testkit"
)

// A simFault is one way in which a node fails. start returns what ends it. A new one goes
// into one of the lists below; then the profiles that use the list have it.
type simFault struct {
	name   string
	stalls bool // requests are carried out late
	start  func(n *simNode, rng *rand.Rand) (end func())
}

// simFaults are the faults in which no key is lost.
var simFaults = []simFault{
	{"slow", true, func(n *simNode, rng *rand.Rand) func() {
		limit := testkit.Pick(rng, n.s.slowest...)
		var d [4]time.Duration
		for i := range d {
			d[i] = testkit.Between(rng, 0, limit)
		}
		if rng.IntN(3) == 0 {
			d[0], d[1] = 0, 0
		} else if rng.IntN(2) == 0 {
			d[2], d[3] = 0, 0
		}
		n.Proxy().SetDelays(min(d[0], d[1]), max(d[0], d[1]), min(d[2], d[3]), max(d[2], d[3]))
		return n.usualDelays
	}},
	simCutOff,
	simHung,
	{"resets", false, func(n *simNode, _ *rand.Rand) func() {
		n.Proxy().Reset()
		return n.Proxy().Reset
	}},
	{"refusing", false, func(n *simNode, rng *rand.Rand) func() {
		n.Proxy().Refuse(true)
		if rng.IntN(2) == 0 {
			n.Proxy().Reset()
		}
		return func() { n.Proxy().Refuse(false) }
	}},
	simBlackHole,
	simMute,
	{"dead", false, func(n *simNode, _ *rand.Rand) func() {
		n.s.must(n.Stop())
		return func() { n.s.must(n.Restart(true)) }
	}},
	{"restarted", false, func(n *simNode, _ *rand.Rand) func() {
		n.s.must(n.Restart(true))
		return func() {}
	}},
	{"killing connections", false, func(n *simNode, _ *rand.Rand) func() {
		n.Proxy().Kill()
		return func() {}
	}},
	{"erring", false, func(n *simNode, rng *rand.Rand) func() {
		n.s.must(n.SetError(testkit.Pick(rng,
			"LOADING Redis is loading the dataset in memory",
			"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
			"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.")))
		return func() { n.s.must(n.SetError("")) }
	}},
}

// The faults that profiles ask for by name.
var (
	simCutOff = simFault{"cut off", true, func(n *simNode, rng *rand.Rand) func() {
		// With requests on their way, which may be delivered late.
		delay := testkit.Between(rng, 50*time.Millisecond, 900*time.Millisecond)
		n.Proxy().SetDelays(delay/2, delay, 0, n.delays[1])
		return func() {
			n.Proxy().Reset()
			n.usualDelays()
		}
	}}
	simHung = simFault{"hung", true, func(n *simNode, _ *rand.Rand) func() {
		n.s.must(n.Hang())
		return func() { n.s.must(n.Resume()) }
	}}
	simMute = simFault{"mute", false, func(n *simNode, _ *rand.Rand) func() {
		n.Proxy().DropReplies(true)
		return func() {
			// A connection that has lost replies in the middle and delivers later
			// ones does not exist: TCP would have broken it.
			n.Proxy().Refuse(true)
			n.Proxy().Reset()
			n.Proxy().DropReplies(false)
			n.Proxy().Refuse(false)
		}
	}}
	simBlackHole = simFault{"black hole", false, func(n *simNode, _ *rand.Rand) func() {
		n.Proxy().BlackHole(true)
		return func() { n.Proxy().BlackHole(false) }
	}}
)

// simDataLosses are the faults in which a node loses all of its keys, or all that are
// locks; quarantine is for them.
var simDataLosses = []simFault{
	{"flushed", false, func(n *simNode, _ *rand.Rand) func() {
		n.noteLoss("")
		n.s.must(n.Flush())
		return func() {}
	}},
	{"restarted without its data", false, func(n *simNode, _ *rand.Rand) func() {
		n.noteLoss("")
		n.s.must(n.Restart(false))
		return func() {}
	}},
	{"dead, and its data gone", false, func(n *simNode, _ *rand.Rand) func() {
		n.s.must(n.Stop())
		return func() {
			n.noteLoss("")
			n.s.must(n.Restart(false))
		}
	}},
	// An old snapshot: the marker of the quarantine, and none of the locks.
	{"restarted without its locks", false, func(n *simNode, _ *rand.Rand) func() {
		n.s.must(n.Stop())
		for _, key := range n.sortedKeys() {
			n.lose(key)
		}
		n.s.must(n.Restart(true))
		return func() {}
	}},
}

// simKeyLosses are the faults in which keys of locks are lost that no restart explains.
var simKeyLosses = []simFault{
	{"losing keys", false, func(n *simNode, _ *rand.Rand) func() {
		for _, key := range n.sortedKeys() {
			n.lose(key)
		}
		return func() {}
	}},
	{"robbed", false, func(n *simNode, rng *rand.Rand) func() {
		for _, key := range n.sortedKeys() {
			n.rob(key, testkit.Magnitude(rng, time.Millisecond, slices.Max(n.s.slowest)))
		}
		return func() {}
	}},
}

// suffer begins a fault and returns what ends it.
func (n *simNode) suffer(f simFault, rng *rand.Rand) (end func()) {
	n.s.tracef("%s is %s", n.Name(), f.name)
	n.begin(f.stalls)
	stop := f.start(n, rng)
	return func() {
		stop()
		n.end()
		n.s.tracef("%s is not %s any more", n.Name(), f.name)
	}
}

// A simWeather says how a node fails in one way after the other.
type simWeather struct {
	faults []simFault
	usual  *simFault        // every other one is this; nil: none is
	quiet  [2]time.Duration // between two of them, at least and at most
	length [2]time.Duration // of one
	times  int              // so often, at most; 0: until the end
	end    time.Time        // none begins then
}

func (n *simNode) endure(w simWeather, rng *rand.Rand) {
	for i := 0; w.times == 0 || i < w.times; i++ {
		quiet, length := testkit.Magnitude(rng, w.quiet[0], w.quiet[1]), testkit.Magnitude(rng, w.length[0], w.length[1])
		fault := testkit.Pick(rng, w.faults...)
		if w.usual != nil && rng.IntN(2) == 0 {
			fault = *w.usual
		}
		time.Sleep(quiet)
		if !time.Now().Before(w.end) || n.s.failed() {
			return
		}
		end := n.suffer(fault, rng)
		time.Sleep(length)
		end()
	}
}

// forget has the node forget its scripts, all but those that are kept. That is no fault:
// no client may notice.
func (n *simNode) forget(kept ...string) {
	s := n.s
	s.tracef("%s forgets its scripts, all but %d", n.Name(), len(kept))
	s.must(n.FlushScripts())
	if len(kept) == 0 {
		return
	}
	conn, err := n.Conn(s.t.Context())
	s.must(err)
	if err != nil {
		return
	}
	for _, script := range kept {
		_, err := conn.Do("SCRIPT", "LOAD", simScripts[script].Source)
		s.must(err)
	}
	s.must(conn.Close())
}

// forgetAtRandom does so at random moments.
func (n *simNode) forgetAtRandom(rng *rand.Rand, longest time.Duration, end time.Time) {
	for {
		time.Sleep(testkit.Magnitude(rng, time.Millisecond, longest))
		if !time.Now().Before(end) {
			return
		}
		n.forget()
	}
}
