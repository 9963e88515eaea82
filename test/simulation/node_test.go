package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A simNode is a node, with what has happened to it.
type simNode struct {
	*testcluster.Node
	s      *sim
	index  int
	delays [2]time.Duration // of requests and of answers without a fault, at most
	faulty bool             // it has faults
	rate   float64          // of its clock

	requests simRequests // guarded by s.mu

	mu     sync.Mutex // guards what follows
	active int        // faults that are on
	quiet  time.Time  // since when there are none, if there are none
	losses []simLoss
}

// A simLoss is the loss of a key; of all, if key is empty.
type simLoss struct {
	at  time.Time
	key string
}

func (n *simNode) usualDelays() { n.Proxy().SetDelays(0, n.delays[0], 0, n.delays[1]) }

// endDelays is for the end of the run: what is checked then takes no time, and no clock jumps.
func (s *sim) endDelays() {
	s.settleClocks()
	for _, n := range s.nodes {
		n.Proxy().SetDelays(0, 0, 0, 0)
	}
}

// settle is the time within which a node without a fault has answered everything that was
// sent to it, also if it has forgotten the scripts.
func (n *simNode) settle() time.Duration { return 8*n.delays[0] + time.Millisecond }

// makeFaulty chooses how many nodes of the cluster have faults.
func (s *sim) makeFaulty(count int) {
	for i, place := range s.rng.Perm(len(s.nodes)) {
		s.nodes[i].faulty = place < count
		s.tracef("%s: faulty %v, delays up to %v", s.nodes[i].Name(), s.nodes[i].faulty, s.nodes[i].delays)
	}
}

// healthy returns the nodes that have no faults.
func (s *sim) healthy() []*simNode {
	return slices.DeleteFunc(slices.Clone(s.nodes), func(n *simNode) bool { return n.faulty })
}

// failing notes that a fault begins, or ends.
func (n *simNode) failing(by int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.active += by
	n.quiet = time.Now()
}

// calmSince reports whether the node has had no fault since t, nor delays that are
// long against the shortest timeout.
func (n *simNode) calmSince(t time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.active == 0 && !n.quiet.After(t) && n.delays[0]+n.delays[1] <= simTimeouts[0]/8
}

// noteLoss notes that the node is about to lose a key; all, if key is empty.
func (n *simNode) noteLoss(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.losses = append(n.losses, simLoss{time.Now(), key})
}

// simThief is the token of somebody who takes keys away.
const simThief = "thief"

// hasLost reports whether the node has lost a key of the lock since it was asked for.
func (n *simNode) hasLost(l *simLock) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.losses, func(loss simLoss) bool {
		return !loss.at.Before(l.start) && (loss.key == "" || slices.Contains(l.keys, loss.key))
	})
}

// lockKeys returns the keys that are locks.
func (n *simNode) lockKeys() map[string]testcluster.KeyState {
	all, err := n.Keys()
	n.s.must(err)
	for k, key := range all {
		if strings.Contains(k, testkit.Reserved) {
			delete(all, k)
		} else if key.TTL > 0 { // By the test's clock.
			key.TTL = time.Duration(float64(key.TTL) / n.rate)
			all[k] = key
		}
	}
	return all
}

// loseKeys has the node lose all keys of locks.
func (n *simNode) loseKeys() (names []string) {
	names = slices.Sorted(maps.Keys(n.lockKeys())) // What happens must not depend on the order of a map.
	for _, key := range names {
		n.noteLoss(key)
		n.s.must(n.Del(key))
	}
	return names
}

// lacks says why the node does not store the lock's keys until t, "" if it does.
func (n *simNode) lacks(l *simLock, t time.Time) string {
	stored := n.lockKeys()
	now := time.Now()
	for _, k := range l.keys {
		key, ok := stored[k]
		switch {
		case !ok:
			return "no key " + k
		case key.Value != l.token:
			return fmt.Sprintf("%s is %.6s", k, key.Value)
		case key.TTL < 0:
			return k + " does not expire"
		case now.Add(key.TTL).Before(t):
			return fmt.Sprintf("%s expires at %s", k, n.s.offset(now.Add(key.TTL)))
		}
	}
	return ""
}

// has reports whether the node stores all keys of the lock, hasAny whether it stores one.
func (n *simNode) has(l *simLock) bool { return n.count(l) == len(l.keys) }

func (n *simNode) hasAny(l *simLock) bool { return n.count(l) > 0 }

func (n *simNode) count(l *simLock) (have int) {
	for _, key := range l.keys {
		if value, _, err := n.Get(key); err == nil && value == l.token {
			have++
		}
	}
	return have
}

// mayKeep reports whether the min hold of a lock that was released is a reason for the
// node to have it; a release that comes late leaves it as long as it was told.
func (n *simNode) mayKeep(l *simLock) bool {
	return l.o.minHold > 0 && (n.faulty || time.Since(l.from) <= n.s.longest(l.o.minHold)+n.settle())
}

// A simFault is one way in which a node fails. start returns what ends it. A new one goes
// into one of the lists below; then the profiles that use the list have it.
type simFault struct {
	name  string
	start func(n *simNode, rng *rand.Rand) (end func())
}

// simFaults are the faults in which no key is lost.
var simFaults = []simFault{
	{"slow", func(n *simNode, rng *rand.Rand) func() {
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
	{"hung", func(n *simNode, _ *rand.Rand) func() {
		n.s.must(n.Hang())
		return func() { n.s.must(n.Resume()) }
	}},
	{"resets", func(n *simNode, _ *rand.Rand) func() {
		n.Proxy().Reset()
		return n.Proxy().Reset
	}},
	{"refusing", func(n *simNode, rng *rand.Rand) func() {
		n.Proxy().Refuse(true)
		if rng.IntN(2) == 0 {
			n.Proxy().Reset()
		}
		return func() { n.Proxy().Refuse(false) }
	}},
	{"black hole", func(n *simNode, _ *rand.Rand) func() {
		n.Proxy().BlackHole(true)
		return func() { n.Proxy().BlackHole(false) }
	}},
	simMute,
	{"dead", func(n *simNode, _ *rand.Rand) func() {
		n.s.must(n.Stop())
		return func() { n.s.must(n.Restart(true)) }
	}},
	{"restarted", func(n *simNode, _ *rand.Rand) func() {
		n.s.must(n.Restart(true))
		return func() {}
	}},
	{"killing connections", func(n *simNode, _ *rand.Rand) func() {
		n.Proxy().Kill()
		return func() {}
	}},
	{"erring", func(n *simNode, rng *rand.Rand) func() {
		n.s.must(n.SetError(testkit.Pick(rng,
			"LOADING Redis is loading the dataset in memory",
			"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
			"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.")))
		return func() { n.s.must(n.SetError("")) }
	}},
}

// The faults that profiles ask for by name.
var (
	simCutOff = simFault{"cut off", func(n *simNode, rng *rand.Rand) func() {
		// With requests on their way, which may be delivered late.
		delay := testkit.Between(rng, 50*time.Millisecond, 900*time.Millisecond)
		n.Proxy().SetDelays(delay/2, delay, 0, n.delays[1])
		return func() {
			n.Proxy().Reset()
			n.usualDelays()
		}
	}}
	simMute = simFault{"mute", func(n *simNode, _ *rand.Rand) func() {
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
)

// simDataLosses are the faults in which a node loses all of its keys, or all that are
// locks; quarantine is for them.
var simDataLosses = []simFault{
	{"flushed", func(n *simNode, _ *rand.Rand) func() {
		n.noteLoss("")
		n.s.must(n.Flush())
		return func() {}
	}},
	{"restarted without its data", func(n *simNode, _ *rand.Rand) func() {
		n.noteLoss("")
		n.s.must(n.Restart(false))
		return func() {}
	}},
	{"dead, and its data gone", func(n *simNode, _ *rand.Rand) func() {
		n.s.must(n.Stop())
		return func() {
			n.noteLoss("")
			n.s.must(n.Restart(false))
		}
	}},
	// An old snapshot: the marker of the quarantine, and none of the locks.
	{"restarted without its locks", func(n *simNode, _ *rand.Rand) func() {
		n.s.must(n.Stop())
		n.loseKeys()
		n.s.must(n.Restart(true))
		return func() {}
	}},
}

// simKeyLosses are the faults in which keys of locks are lost that no restart explains.
var simKeyLosses = []simFault{
	{"losing keys", func(n *simNode, _ *rand.Rand) func() {
		n.loseKeys()
		return func() {}
	}},
	{"robbed", func(n *simNode, rng *rand.Rand) func() {
		for _, key := range n.loseKeys() {
			n.s.must(n.Set(key, simThief, testkit.Magnitude(rng, time.Millisecond, slices.Max(n.s.slowest))))
		}
		return func() {}
	}},
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

// weather has pauses and faults of any length from a millisecond on, up to these.
func weather(faults []simFault, quiet, length time.Duration, end time.Time) simWeather {
	return simWeather{
		faults: faults, end: end,
		quiet: [2]time.Duration{time.Millisecond, quiet}, length: [2]time.Duration{time.Millisecond, length},
	}
}

// endure has all faulty nodes fail.
func (s *sim) endure(wg *sync.WaitGroup, w simWeather) {
	for _, n := range s.nodes {
		if rng := s.newRand(); n.faulty {
			wg.Go(func() { n.endure(w, rng) })
		}
	}
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
		n.s.tracef("%s is %s", n.Name(), fault.name)
		n.failing(1)
		stop := fault.start(n, rng)
		time.Sleep(length)
		stop()
		n.failing(-1)
		n.s.tracef("%s is not %s any more", n.Name(), fault.name)
	}
}

// forgetAtRandom has the node forget its scripts at random moments. That is no fault: no client may notice.
func (n *simNode) forgetAtRandom(rng *rand.Rand, longest time.Duration, end time.Time) {
	for {
		time.Sleep(testkit.Magnitude(rng, time.Millisecond, longest))
		if !time.Now().Before(end) {
			return
		}
		n.s.tracef("%s forgets its scripts", n.Name())
		n.s.must(n.FlushScripts())
	}
}
