package simulation

import (
	"fmt"
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

	mu      sync.Mutex // guards what follows
	active  int        // faults that are on
	quiet   time.Time  // since when there are none, if there are none
	stalled bool       // a fault has held requests back, which are carried out late
	losses  []simLoss
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

// begin notes that a fault begins, end that it has ended.
func (n *simNode) begin(stalls bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.active++
	n.stalled = n.stalled || stalls
}

func (n *simNode) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.active--
	n.quiet = time.Now()
}

func (n *simNode) isStalled() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stalled
}

// quietSince reports whether the node has had no fault since t.
func (n *simNode) quietSince(t time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.active == 0 && !n.quiet.After(t)
}

// calmSince reports whether the node has had no fault since t, nor delays that are
// long against the shortest timeout.
func (n *simNode) calmSince(t time.Time) bool {
	return n.quietSince(t) && n.delays[0]+n.delays[1] <= simTimeouts[0]/8
}

// noteLoss notes that the node is about to lose a key; all, if key is empty.
func (n *simNode) noteLoss(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.losses = append(n.losses, simLoss{time.Now(), key})
}

// lose has the node lose a key, rob has it give the key to somebody else for a time.
func (n *simNode) lose(key string) {
	n.noteLoss(key)
	n.s.must(n.Del(key))
}

func (n *simNode) rob(key string, life time.Duration) {
	n.noteLoss(key)
	n.s.must(n.Set(key, simThief, life))
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

// sortedKeys returns the names of those keys: what happens to them must not depend on
// the order of a map.
func (n *simNode) sortedKeys() (names []string) {
	for key := range n.lockKeys() {
		names = append(names, key)
	}
	slices.Sort(names)
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
func (n *simNode) has(l *simLock) bool {
	return !slices.ContainsFunc(l.keys, func(key string) bool { return !n.stores(key, l.token) })
}

func (n *simNode) hasAny(l *simLock) bool {
	return slices.ContainsFunc(l.keys, func(key string) bool { return n.stores(key, l.token) })
}

func (n *simNode) stores(key, token string) bool {
	value, _, err := n.Get(key)
	return err == nil && value == token
}

// mayKeep reports whether the min hold of a lock that was released is a reason for the
// node to have it; a release that comes late leaves it as long as it was told.
func (n *simNode) mayKeep(l *simLock) bool {
	return l.o.minHold > 0 && (n.faulty || n.isStalled() || time.Since(l.from) <= n.s.longest(l.o.minHold)+n.settle())
}

// holders returns how many nodes store all keys of the lock.
func (s *sim) holders(l *simLock) (have int) {
	for _, n := range s.nodes {
		if n.has(l) {
			have++
		}
	}
	return have
}

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
