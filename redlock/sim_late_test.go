package redlock

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/node"
)

// In a share of the simulation's seeds nothing that was ever sent can be relied on to
// be over: what a broken connection still delivers comes up to simLate later, and
// requests run twice. A socket that was closed may go on delivering for more than a
// minute after a partition, and whatever is between client and node may repeat a
// request. TCP duplicates nothing within a connection, so a request that runs again
// does so on another one, and its answer is thrown away.
//
// Such a seed takes minutes instead of seconds, in which everybody is slower: locks
// must be held while something late arrives.
//
// What is late must not touch a lock that is held. What is allowed is less than what is
// noted here: a lock request or a repair that arrives behind its token's release may
// leave a key for one ttl.

// simLate is the longest delay of late bytes and duplicates in such a seed: longer than
// a tombstone lives.
const simLate = 75 * time.Second

// simCopies is how often a node is sent a request again, at most.
const simCopies = 3

// beLate makes a plan of late and duplicated requests in two of five seeds in which a
// lock may be held that one of the nodes does not have. Its random numbers are its own,
// so that the other seeds remain what they were.
func (p *simPlan) beLate(seed uint64, nodes int) {
	rng := rand.New(rand.NewPCG(seed, 1<<40))
	if nodes < 3 || rng.IntN(5) > 1 {
		return
	}
	p.late, p.wipe, p.longTTL = true, false, true
	p.phases, p.clients, p.workers = 1, 2, 1+rng.IntN(2)
	p.length, p.storms = between(rng, simLate, 2*simLate), 1
	p.think = pick(rng, time.Second, 10*time.Second)
	p.maxQuiet = pick(rng, 5*time.Second, 15*time.Second)
	p.maxFault = pick(rng, time.Second, 3*time.Second)
	p.bursts = 0
	if rng.IntN(2) == 0 {
		p.usual = slices.IndexFunc(simFaults, func(f simFault) bool { return f.name == "cut off" })
	}
}

// A simLateness is what a node knows of late and duplicated requests. Guarded by the
// sim's mu.
type simLateness struct {
	seen   int              // requests, each of which has random numbers of its own
	copies map[string]int   // of each request; they run again as the first does
	newest map[string]int64 // generation, by tombstone
	again  map[string]bool  // tokens of which a lock request or a repair was sent again
	left   map[string]bool  // tokens of which one came late, and no release since
}

func newSimLateness() simLateness {
	return simLateness{copies: map[string]int{}, newest: map[string]int64{}, again: map[string]bool{}, left: map[string]bool{}}
}

// observeLate learns from a request that is about to run whether it is late, and has
// some run again. s.mu is held.
func (n *simNode) observeLate(sc *node.Script, cmd string, args []string) {
	count, _ := strconv.Atoi(args[1])
	if !n.s.plan.late || len(args) < count+3 {
		return
	}
	keys, argv := args[2:count+2], args[count+2:]
	l, token := &n.late, argv[0]
	sets := simLockArgs[sc] > 0 || sc == repairScript
	switch {
	case sets || sc == node.Tombstone:
		gen, _ := strconv.ParseInt(argv[len(argv)-1], 10, 64)
		if sc == node.Tombstone {
			gen, _ = strconv.ParseInt(argv[0], 10, 64)
		}
		stone := keys[count-1]
		if sets && (gen < l.newest[stone] || l.again[token]) {
			l.left[token] = true
		}
		l.newest[stone] = max(l.newest[stone], gen)
	case sc == unlockScript || sc == undoScript:
		delete(l.left, token)
	}
	l.seen++
	rng := rand.New(rand.NewPCG(n.s.seed, uint64(len(n.s.nodes)*l.seen)<<16+uint64(n.index)))
	share := 16 // Or the keys of dead tokens would leave little to lock.
	if cmd == "EVAL" {
		share = 1 // What a new connection sends, and repairs.
	}
	same := strings.Join(args, " ")
	if !n.s.repeating || rng.IntN(share) > 0 || l.copies[same] == simCopies {
		return
	}
	l.copies[same]++
	after := pick(rng, between(rng, time.Millisecond, simLate), magnitude(rng, time.Millisecond, simLate))
	n.s.dups.Go(func() {
		time.Sleep(after)
		if sets {
			n.s.mu.Lock()
			l.again[token] = true
			n.s.mu.Unlock()
		}
		n.repeat(sc.Name, cmd, args)
	})
}

// repeat runs a request once more.
func (n *simNode) repeat(name, cmd string, args []string) {
	patience := redis.DialReadTimeout(10 * time.Second)
	conn, err := n.Conn(context.Background(), patience, redis.DialWriteTimeout(10*time.Second))
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	boxed := make([]any, len(args))
	for i, a := range args {
		boxed[i] = a
	}
	n.s.tracef("%s gets a request again: %s", n.Name(), name)
	_, _ = conn.Do(cmd, boxed...)
}

// disturb has a node fail, in most cases, until end is called: while a lock is
// asked for, so that a lock is held with a request of unknown outcome, and while it is
// extended, so that every other vote counts.
func (w *simWorker) disturb(fault string) (end func()) {
	s, rng := w.s, w.rng
	if !s.plan.late || rng.IntN(4) == 0 {
		return func() {}
	}
	n := pick(rng, s.nodes...)
	s.tracef("%s %s for %s", n.Name(), fault, w.name)
	n.begin()
	i := slices.IndexFunc(simFaults, func(f simFault) bool { return f.name == fault })
	stop := simFaults[i].start(n, rng)
	return func() {
		stop()
		n.end()
		s.tracef("%s not %s any more", n.Name(), fault)
	}
}

// holdLong extends the lock while things that are late arrive, and looks at it.
func (w *simWorker) holdLong(l *simLock) {
	for range 2 + w.rng.IntN(14) {
		time.Sleep(between(w.rng, 0, 10*time.Second))
		w.check(l, "held for long")
		if l.Err() != nil {
			return
		}
		end := w.disturb("black hole")
		w.extend(l)
		end()
	}
}

// mayHave reports whether a late or duplicated request may have set a token's keys
// behind its release.
func (n *simNode) mayHave(token string) bool {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	return n.late.left[token]
}

func (s *sim) repeat(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repeating = on
}

// awaitLate waits until nothing is on its way any more.
func (s *sim) awaitLate() {
	s.dups.Wait()
	if s.plan.late {
		time.Sleep(simLate + time.Second)
		synctest.Wait()
	}
}
