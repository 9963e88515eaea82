package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A simNode is a node with its faults.
type simNode struct {
	*testcluster.Node
	s        *sim
	index    int
	faulty   bool // gets faults beyond the loss of its scripts
	flushing bool // loses its scripts at random moments
	base     [2]time.Duration
	late     simLateness

	mu     sync.Mutex
	active int       // faults that are on
	quiet  time.Time // since when there are none, if there are none
}

// makeNodes decides which nodes will fail. With a faulty majority little
// succeeds, but that is where attempts fail in all ways and leave things behind.
func (s *sim) makeNodes() {
	rng := s.rng
	faulty := rng.IntN(len(s.c.Nodes) + 1)
	if rng.IntN(2) == 0 {
		faulty = len(s.c.Nodes) - s.need
	}
	if s.plan.late {
		faulty = len(s.c.Nodes) - s.need // The workers disturb each node in its turn.
	}
	flushing := rng.IntN(3) == 0
	slowest := pick(rng, 0, time.Millisecond, time.Millisecond, 2*time.Millisecond, 10*time.Millisecond, 60*time.Millisecond)
	late := rng.IntN(3) > 0 || s.plan.late
	order := rng.Perm(len(s.c.Nodes))
	for i, node := range s.c.Nodes {
		n := &simNode{Node: node, s: s, index: i, late: newSimLateness(), faulty: order[i] < faulty, flushing: flushing, quiet: s.start.Add(-time.Hour)}
		n.base = [2]time.Duration{between(rng, 0, slowest), between(rng, 0, slowest)}
		if late {
			n.Proxy().LateBytes(0, magnitude(rng, 10*time.Millisecond, simMaxLate))
		}
		if s.plan.late {
			n.Proxy().LateBytes(0, simLate)
		}
		s.must(n.OnCommand(n.observe))
		s.nodes = append(s.nodes, n)
		s.tracef("%s: faulty %v, delays up to %v, late bytes %v", n.Name(), n.faulty, n.base, late)
	}
}

// normalDelays sets the delays that the node has without a fault. They count as
// one if they are long against the shortest timeout.
func (n *simNode) normalDelays() {
	n.Proxy().SetDelays(0, n.base[0], 0, n.base[1])
}

func (n *simNode) slow() bool { return n.base[0]+n.base[1] > simTimeouts[0]/8 }

// calmSince reports whether the node has had no fault since t.
func (n *simNode) calmSince(t time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.active == 0 && !n.slow() && !n.quiet.After(t)
}

func (n *simNode) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.active++
}

func (n *simNode) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.active--
	n.quiet = time.Now()
}

// A simFault is one way to fail. start returns what ends it.
type simFault struct {
	name  string
	start func(n *simNode, rng *rand.Rand) (end func())
}

var simFaults = []simFault{
	{"slow", func(n *simNode, rng *rand.Rand) func() {
		limit := pick(rng, 5*time.Millisecond, 30*time.Millisecond, 120*time.Millisecond, 500*time.Millisecond)
		var d [4]time.Duration
		for i := range d {
			d[i] = between(rng, 0, limit)
		}
		if rng.IntN(3) == 0 {
			d[0], d[1] = 0, 0
		} else if rng.IntN(2) == 0 {
			d[2], d[3] = 0, 0
		}
		n.Proxy().SetDelays(min(d[0], d[1]), max(d[0], d[1]), min(d[2], d[3]), max(d[2], d[3]))
		return n.normalDelays
	}},
	{"cut off", func(n *simNode, rng *rand.Rand) func() {
		// With requests on their way, which may be delivered late.
		delay := between(rng, 50*time.Millisecond, 900*time.Millisecond)
		n.Proxy().SetDelays(delay/2, delay, 0, n.base[1])
		return func() {
			n.Proxy().Reset()
			n.normalDelays()
		}
	}},
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
	{"mute", func(n *simNode, _ *rand.Rand) func() {
		n.Proxy().DropReplies(true)
		return func() {
			// A connection that has lost replies in the middle and delivers later
			// ones does not exist: TCP would have broken it.
			n.Proxy().Refuse(true)
			n.Proxy().Reset()
			n.Proxy().DropReplies(false)
			n.Proxy().Refuse(false)
		}
	}},
	{"dead", func(n *simNode, _ *rand.Rand) func() {
		n.s.must(n.Stop())
		return func() { n.s.must(n.Restart(true)) }
	}},
	{"restarted", func(n *simNode, _ *rand.Rand) func() {
		n.s.must(n.Restart(true))
		return func() {}
	}},
	{"erring", func(n *simNode, rng *rand.Rand) func() {
		n.s.must(n.SetError(pick(rng,
			"LOADING Redis is loading the dataset in memory",
			"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
			"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.")))
		return func() { n.s.must(n.SetError("")) }
	}},
}

// injectFaults makes the node fail in one way after the other.
func (n *simNode) injectFaults(rng *rand.Rand, until time.Time) {
	if !n.faulty {
		return
	}
	for {
		quiet, length, fault := magnitude(rng, time.Millisecond, n.s.plan.maxQuiet), magnitude(rng, time.Millisecond, n.s.plan.maxFault), pick(rng, simFaults...)
		if usual := n.s.plan.usual; usual >= 0 && rng.IntN(2) == 0 {
			fault = simFaults[usual]
		}
		time.Sleep(quiet)
		if !time.Now().Before(until) || n.s.failed() {
			return
		}
		n.s.tracef("%s %s for %v", n.Name(), fault.name, length)
		n.begin()
		end := fault.start(n, rng)
		time.Sleep(length)
		end()
		n.end()
		n.s.tracef("%s not %s any more", n.Name(), fault.name)
	}
}

// raiseCounters does what attempts do that others have overtaken: it has the node's
// counters run ahead of the others'. That is always allowed.
func (n *simNode) raiseCounters(rng *rand.Rand, until time.Time) {
	for {
		time.Sleep(magnitude(rng, 10*time.Millisecond, max(time.Second, n.s.plan.maxQuiet)))
		if !time.Now().Before(until) {
			return
		}
		ctx, cancel := context.WithTimeout(n.s.t.Context(), time.Second)
		conn, err := n.Conn(ctx, redis.DialReadTimeout(time.Second), redis.DialWriteTimeout(time.Second))
		cancel()
		if err != nil {
			continue
		}
		key := n.s.prefix + reservedMark + counterMark + pick(rng, n.s.resources...)
		_, _ = conn.Do("INCRBY", key, 1+rng.IntN(3))
		_ = conn.Close()
	}
}

// flushScripts empties the script cache at random moments. No client may notice.
func (n *simNode) flushScripts(rng *rand.Rand, until time.Time) {
	for n.flushing {
		time.Sleep(magnitude(rng, time.Millisecond, n.s.plan.maxQuiet))
		if !time.Now().Before(until) {
			return
		}
		n.s.tracef("%s forgets its scripts", n.Name())
		n.s.must(n.FlushScripts())
	}
}

// calm is called when all faults have ended.
func (n *simNode) calm() {
	n.Proxy().SetDelays(0, 0, 0, 0)
}

// lockKeys returns the keys that are locks.
func (n *simNode) lockKeys() map[string]testcluster.KeyState {
	all, err := n.Keys()
	n.s.must(err)
	for k := range all {
		if isReserved(k) {
			delete(all, k)
		}
	}
	return all
}

// observe sees every command that reaches the node. It learns which client
// each token belongs to, failed attempts included.
func (n *simNode) observe(cmd string, args []string) {
	if cmd != "EVALSHA" && cmd != "EVAL" || len(args) < 2 {
		return
	}
	script := scriptOf(args[0])
	s := n.s
	if script == nil {
		s.failf("%s was sent an unknown script: %q", n.Name(), args)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if rest := simLockArgs[script]; rest > 0 {
		var keys int
		_, err := fmt.Sscan(args[1], &keys)
		if err != nil || len(args) != keys+rest || s.sessions[args[keys+1]] == nil {
			s.failures = append(s.failures, fmt.Sprintf("%s was sent a malformed lock request: %q", n.Name(), args))
			return
		}
		token := args[keys+2]
		c := s.sessions[args[keys+1]]
		if other := s.owners[token]; other != nil && other != c {
			s.failures = append(s.failures, fmt.Sprintf("token %s belongs to c%d and to c%d", token, other.id, c.id))
		}
		s.owners[token] = c
	}
	n.observeLate(script, cmd, args)
	if s.verbose {
		s.traceLocked(fmt.Sprintf("    %s <- %s %q", n.Name(), script.Name, shorten(args[1:])))
	}
}

// simLockArgs has how many arguments a lock request has besides its keys.
var simLockArgs = map[*node.Script]int{lockScript: 5, fencedLockScript: 7, queueScript: 9, fencedQueueScript: 11}

// shorten makes tokens readable.
func shorten(args []string) []string {
	short := make([]string, len(args))
	for i, a := range args {
		if len(a) > 24 {
			a = a[:6] + "…" + a[len(a)-4:]
		}
		short[i] = a
	}
	return short
}
