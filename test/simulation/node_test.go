package simulation

import (
	"fmt"
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
