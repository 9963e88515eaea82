package redlock

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// scheduleLate is the longest delay of bytes that are delivered after their
// connection has broken.
const scheduleLate = 500 * time.Millisecond

// A scheduleNode is a node with its faults. A healthy one is never late and never
// loses a key, but may forget the scripts.
type scheduleNode struct {
	*testcluster.Node
	s        *schedule
	faulty   bool
	stalling bool // it hangs or is slow at times: what it was sent may act late

	mu    sync.Mutex
	hurts []scheduleHurt
}

// A scheduleHurt is the loss of a key; of all, if key is empty.
type scheduleHurt struct {
	at  time.Time
	key string
}

func (s *schedule) makeNodes(c *testcluster.Cluster) {
	rng := s.rng
	n := len(c.Nodes)
	faulty := pick(rng, 0, rng.IntN(n-s.need+1), rng.IntN(n-s.need+1), n-s.need, rng.IntN(n+1))
	order := rng.Perm(n)
	late := rng.IntN(3) == 0
	for i, node := range c.Nodes {
		sn := &scheduleNode{Node: node, s: s, faulty: order[i] < faulty}
		sn.usual()
		if sn.faulty && late {
			sn.Proxy().LateBytes(0, scheduleLate)
		}
		s.must(sn.OnCommand(sn.observe))
		s.nodes = append(s.nodes, sn)
		s.tracef("%s: faulty %v", sn.Name(), sn.faulty)
	}
}

func (n *scheduleNode) usual() { n.Proxy().SetDelay(0, n.s.delay) }

// healthy returns the nodes that have no fault.
func (s *schedule) healthy() []*scheduleNode {
	return slices.DeleteFunc(slices.Clone(s.nodes), func(n *scheduleNode) bool { return n.faulty })
}

// A scheduleFault is one way to fail. start returns what ends it.
type scheduleFault struct {
	name   string
	loss   bool // of keys
	stalls bool
	start  func(n *scheduleNode, rng *rand.Rand) (end func())
}

var scheduleFaults = []scheduleFault{
	{"hangs", false, true, func(n *scheduleNode, _ *rand.Rand) func() {
		n.s.must(n.Hang())
		return func() { n.s.must(n.Resume()) }
	}},
	{"hangs", false, true, func(n *scheduleNode, _ *rand.Rand) func() {
		n.s.must(n.Hang())
		return func() { n.s.must(n.Resume()) }
	}},
	{"is slow", false, true, func(n *scheduleNode, rng *rand.Rand) func() {
		limit := magnitude(rng, time.Millisecond, n.s.ttl)
		n.Proxy().SetDelays(0, between(rng, 0, limit), 0, between(rng, 0, limit))
		return n.usual
	}},
	{"dies", false, false, func(n *scheduleNode, _ *rand.Rand) func() {
		n.s.must(n.Stop())
		return func() { n.s.must(n.Restart(true)) }
	}},
	{"restarts", false, false, func(n *scheduleNode, _ *rand.Rand) func() {
		n.s.must(n.Restart(true))
		return func() {}
	}},
	{"dies with its data", true, false, func(n *scheduleNode, _ *rand.Rand) func() {
		n.s.must(n.Stop())
		return func() {
			n.hurt("")
			n.s.must(n.Restart(false))
		}
	}},
	{"restarts without its data", true, false, func(n *scheduleNode, _ *rand.Rand) func() {
		n.hurt("")
		n.s.must(n.Restart(false))
		return func() {}
	}},
	{"is reset", false, false, func(n *scheduleNode, _ *rand.Rand) func() {
		n.Proxy().Reset()
		return n.Proxy().Reset
	}},
	{"refuses", false, false, func(n *scheduleNode, _ *rand.Rand) func() {
		n.Proxy().Refuse(true)
		n.Proxy().Reset()
		return func() { n.Proxy().Refuse(false) }
	}},
	{"drops replies", false, false, func(n *scheduleNode, _ *rand.Rand) func() {
		n.Proxy().DropReplies(true)
		return func() {
			// TCP would have broken a connection that has lost replies in the middle.
			n.Proxy().Refuse(true)
			n.Proxy().Reset()
			n.Proxy().DropReplies(false)
			n.Proxy().Refuse(false)
		}
	}},
	{"is busy", false, false, func(n *scheduleNode, _ *rand.Rand) func() {
		n.s.must(n.SetError("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."))
		return func() { n.s.must(n.SetError("")) }
	}},
	{"loses keys", true, false, func(n *scheduleNode, _ *rand.Rand) func() {
		for key := range n.lockKeys() {
			n.hurt(key)
			n.s.must(n.Del(key))
		}
		return func() {}
	}},
	{"is robbed", true, false, func(n *scheduleNode, rng *rand.Rand) func() {
		for _, key := range n.sortedKeys() {
			n.rob(key, magnitude(rng, time.Millisecond, n.s.ttl))
		}
		return func() {}
	}},
}

// rob gives a key to somebody else for a time.
func (n *scheduleNode) rob(key string, life time.Duration) {
	n.hurt(key)
	n.s.must(n.Set(key, "thief", life))
}

// forget has the node forget all scripts, or all but those of a release.
func (n *scheduleNode) forget(all bool) {
	s := n.s
	s.tracef("%s forgets its scripts, all: %v", n.Name(), all)
	s.must(n.FlushScripts())
	if all {
		return
	}
	conn, err := n.Conn(s.t.Context())
	s.must(err)
	if err != nil {
		return
	}
	for _, sc := range []*node.Script{unlockScript, leaveScript, undoScript} {
		_, err := conn.Do("SCRIPT", "LOAD", sc.Source)
		s.must(err)
	}
	s.must(conn.Close())
}

// happen makes the node fail in one way after the other.
func (n *scheduleNode) happen(rng *rand.Rand) {
	s := n.s
	if !n.faulty {
		if s.outage.to.IsZero() && rng.IntN(3) == 0 {
			time.Sleep(between(rng, 0, s.span))
			n.forget(true)
		}
		return
	}
	faults := scheduleFaults
	if !s.loss {
		faults = slices.DeleteFunc(slices.Clone(faults), func(f scheduleFault) bool { return f.loss })
	}
	for range 1 + rng.IntN(3) {
		f := pick(rng, faults...)
		wait, length := between(rng, 0, s.span/2), magnitude(rng, time.Millisecond, s.span)
		time.Sleep(wait)
		if time.Since(s.start) >= s.span {
			return
		}
		s.tracef("%s %s for %v", n.Name(), f.name, length)
		if f.stalls {
			n.mu.Lock()
			n.stalling = true
			n.mu.Unlock()
		}
		end := f.start(n, rng)
		time.Sleep(length)
		end()
		s.tracef("%s is well again", n.Name())
	}
}

// hurt notes that the node is about to lose a key.
func (n *scheduleNode) hurt(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hurts = append(n.hurts, scheduleHurt{time.Now(), key})
}

// hurtSince reports whether the node has lost a key of the lock since t.
func (n *scheduleNode) hurtSince(l *scheduleLock, t time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.hurts, func(h scheduleHurt) bool {
		return !h.at.Before(t) && (h.key == "" || slices.Contains(l.resources, h.key))
	})
}

// has reports whether the node stores all keys of the lock.
func (n *scheduleNode) has(l *scheduleLock) bool {
	for _, res := range l.resources {
		if value, _, err := n.Get(res); err != nil || value != l.token {
			return false
		}
	}
	return true
}

// hasAny reports whether the node stores any key of the lock.
func (n *scheduleNode) hasAny(l *scheduleLock) bool {
	return slices.ContainsFunc(l.resources, func(res string) bool {
		value, _, err := n.Get(res)
		return err == nil && value == l.token
	})
}

// holders returns how many nodes store all keys of the lock.
func (s *schedule) holders(l *scheduleLock) int {
	have := 0
	for _, n := range s.nodes {
		if n.has(l) {
			have++
		}
	}
	return have
}

func (n *scheduleNode) lockKeys() map[string]testcluster.KeyState {
	all, err := n.Keys()
	n.s.must(err)
	for k := range all {
		if isReserved(k) {
			delete(all, k)
		}
	}
	return all
}

func (n *scheduleNode) sortedKeys() []string {
	var all []string
	for key := range n.lockKeys() {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// observe sees every command just before it runs on the node.
func (n *scheduleNode) observe(cmd string, args []string) {
	if cmd != "EVALSHA" && cmd != "EVAL" || len(args) < 3 {
		return
	}
	extend := args[0] == extendScript.Hash || args[0] == extendScript.Source
	repair := args[0] == repairScript.Hash || args[0] == repairScript.Source
	keys, err := strconv.Atoi(args[1])
	if !extend && !repair || err != nil || len(args) < keys+3 {
		return
	}
	s := n.s
	s.mu.Lock()
	l := s.byToken[args[keys+2]]
	s.mu.Unlock()
	if l == nil {
		return
	}
	if extend {
		l.extensionArrived()
	} else {
		s.tracef("%s repairs %s", n.Name(), l.name)
		n.checkRepair(l)
	}
}
