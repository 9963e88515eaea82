package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// One process takes a lock and hands it on, another one releases it, others wait for it,
// while connections break, bytes come late and requests about the lock come twice.
//
//	RELEASE_SEEDS=n     runs the seeds 1 to n
//	RELEASE_SEED=k      runs only seed k and prints all that happened

const (
	// handOverLate is the longest delay of late bytes and of duplicates: longer than a
	// tombstone lives.
	handOverLate = 70 * time.Second

	// handOverCalm is the time after the last fault within which what can be told is.
	handOverCalm = 10 * time.Second
)

func TestSimReleaseByAnotherProcess(t *testing.T) {
	count := uint64(rounds(300, 4))
	if raceEnabled {
		count = min(count, 60)
	}
	first, last := uint64(1), envNumber(t, "RELEASE_SEEDS", count)
	if seed := envNumber(t, "RELEASE_SEED", 0); seed > 0 {
		first, last = seed, seed
	}
	inTrials(t, first, last, 1, func(t *testing.T, seed uint64) { newHandOver(t, seed).run() })
}

// A handOverRun is one run of a seed.
type handOverRun struct {
	*trial

	rng    *rand.Rand
	c      *testcluster.Cluster
	calm   bool          // no faults, no duplicates
	delay  time.Duration // of each direction, at most
	life   time.Duration // of the lock
	token  string
	nodes  []handOverNode // guarded by mu, as all below
	holder string         // who holds the lock
	until  time.Time      // of that
	taken  time.Time      // when the first of those who wait got it
	ended  bool           // they are to stop
	dups   sync.WaitGroup
}

// A handOverNode is what has reached a node about the lock that is handed on.
type handOverNode struct {
	released bool // a release
	late     bool // after it, a request that may set the key
	again    int  // duplicates
}

func newHandOver(t *testing.T, seed uint64) *handOverRun {
	t.Helper()
	s := &handOverRun{trial: newTrial(t, "RELEASE_SEED", seed)}
	s.rng = s.newRand()
	rng := s.rng
	s.c = testcluster.RunBubble(t, pick(rng, 1, 3, 3, 3, 4, 5, 5))
	s.c.SetSeed(seed)
	s.nodes = make([]handOverNode, len(s.c.Nodes))
	s.calm = rng.IntN(4) == 0
	s.delay = pick(rng, 0, time.Millisecond, 5*time.Millisecond, 20*time.Millisecond)
	s.life = magnitude(rng, 5*time.Second, 2*time.Minute)
	for i, n := range s.c.Nodes {
		s.usual(n)
		s.must(n.OnCommand(func(cmd string, args []string) { s.observe(i, cmd, args) }))
		if !s.calm {
			n.Proxy().LateBytes(0, magnitude(rng, 10*time.Millisecond, handOverLate))
		}
	}
	return s
}

func (s *handOverRun) usual(n *testcluster.Node) { n.Proxy().SetDelays(0, s.delay, 0, s.delay) }

// observe notes what reaches a node about the lock, and has some of it come again: on
// another connection, after it was carried out, and with the answer thrown away.
func (s *handOverRun) observe(i int, cmd string, args []string) {
	if cmd != "EVALSHA" && cmd != "EVAL" || len(args) < 3 {
		return
	}
	is := func(scripts ...*node.Script) bool {
		for _, known := range scripts {
			if args[0] == known.Hash || args[0] == known.Source {
				return true
			}
		}
		return false
	}
	keys, err := strconv.Atoi(args[1])
	if err != nil || len(args) < keys+3 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := &s.nodes[i]
	if token := args[keys+2]; s.token == "" && is(lockScript, fencedLockScript) {
		s.token = token // The first that anybody asks for is the one that is handed on.
	} else if token != s.token {
		return
	}
	switch {
	case is(lockScript, fencedLockScript, repairScript):
		n.late = n.released
	case is(unlockScript):
		n.released, n.late = true, false
	case !is(extendScript, raiseScript):
		return
	}
	if s.verbose {
		s.traceLocked(s.c.Nodes[i].Name() + " <- " + args[keys+2][:6] + " " + strconv.Itoa(keys) + " " + args[0][:6])
	}
	if rng := rand.New(rand.NewPCG(s.seed, uint64(100*i+n.again))); !s.calm && n.again < 4 && rng.IntN(3) == 0 {
		n.again++
		after := magnitude(rng, time.Millisecond, handOverLate)
		s.dups.Go(func() { s.repeat(i, after, cmd, args) })
	}
}

func (s *handOverRun) repeat(i int, after time.Duration, cmd string, args []string) {
	time.Sleep(after)
	conn, err := s.c.Nodes[i].Conn(context.Background(), redis.DialReadTimeout(time.Minute), redis.DialWriteTimeout(time.Minute))
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	boxed := make([]any, len(args))
	for i, a := range args {
		boxed[i] = a
	}
	s.tracef("%s gets something again", s.c.Nodes[i].Name())
	_, _ = conn.Do(cmd, boxed...)
}

func (s *handOverRun) run() {
	rng := s.rng
	opts := []Option{WithRetryCount(-1), WithRetryDelay(2 * time.Second), WithRetryJitter(0)}
	first, worker := newRedlock(s.t, s.c, pick(rng, nil, []Option{WithFencing()}, []Option{WithOwner("api")})...), newRedlock(s.t, s.c)
	if rng.IntN(2) == 0 || s.calm {
		warm(s.t, worker)
	}
	s.mu.Lock()
	s.token = ""
	s.mu.Unlock()
	l, err := first.TryLock(s.t.Context(), []string{"a", "b"}[:1+rng.IntN(2)], s.life)
	if err != nil {
		s.failf("nothing is wrong yet: %v", err)
		s.report()
		return
	}
	s.hold("the first process", l.Until())
	s.tracef("%d nodes, calm %v, delay %v, life %v, until %v", len(s.nodes), s.calm, s.delay, s.life, s.offset(l.Until()))
	var wg, faults sync.WaitGroup
	for _, name := range []string{"x", "y"} {
		r := newRedlock(s.t, s.c, opts...)
		wg.Go(func() { s.contend(name, r) })
	}
	if s.calm {
		time.Sleep(300 * time.Millisecond) // Until they wait.
	} else {
		for _, n := range s.c.Nodes {
			if own := s.newRand(); own.IntN(3) > 0 {
				faults.Go(func() { s.disturb(n, own) })
			}
		}
		time.Sleep(magnitude(rng, time.Millisecond, time.Second))
	}
	if rng.IntN(3) == 0 {
		faults.Go(func() { _ = l.Extend(s.t.Context(), s.life) }) // It should not.
	}
	if rng.IntN(3) == 0 {
		faults.Go(func() { s.must(first.Close(s.t.Context())) })
	}
	s.release(worker, l)
	faults.Wait()
	for _, n := range s.c.Nodes {
		s.usual(n)
	}
	if s.calm {
		time.Sleep(500 * time.Millisecond) // Before they would ask of their own accord.
	} else {
		time.Sleep(handOverCalm)
	}
	synctest.Wait()
	s.checkLeft()
	s.checkTold()
	s.dups.Wait()
	time.Sleep(handOverLate + time.Second)
	synctest.Wait()
	s.checkLeft()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	wg.Wait()
	s.report()
}

// release releases the lock as a worker does: until it knows the result.
func (s *handOverRun) release(worker *Redlock, l *Lock) {
	s.leave("the first process") // It has handed the lock on, and this is its end.
	for {
		ctx, cancel := context.WithCancel(s.t.Context())
		if s.rng.IntN(2) == 0 {
			cancel()
		}
		start := time.Now()
		err := worker.Release(ctx, l.Resources(), l.Token())
		cancel()
		s.tracef("Release: %v", err)
		if took := time.Since(start); took > DefaultConnectTimeout+DefaultNodeTimeout {
			s.failf("(7) Release took %v", took)
		}
		switch {
		case err == nil:
			return
		case errors.Is(err, ErrLost):
			if time.Now().Before(l.Until()) {
				s.failf("the lock was there until %v: %v", s.offset(l.Until()), err)
			}
			return
		case !errors.Is(err, ErrNoQuorum):
			s.failf("Release: %v", err)
			return
		case s.calm:
			s.failf("nothing is wrong: %v", err)
			return
		}
		time.Sleep(magnitude(s.rng, time.Millisecond, time.Second))
	}
}

// contend waits for the lock, holds it for a moment, and waits again.
func (s *handOverRun) contend(name string, r *Redlock) {
	for {
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
		l, err := r.Lock(ctx, []string{"a"}, 3*time.Second)
		cancel()
		if err == nil {
			s.hold(name, l.Until())
			time.Sleep(20 * time.Millisecond)
			s.leave(name)
			_ = l.Unlock(s.t.Context())
			time.Sleep(15 * time.Second)
		}
		s.mu.Lock()
		ended := s.ended
		s.mu.Unlock()
		if ended {
			return
		}
	}
}

// hold notes that somebody has got the lock, which nobody else may have then.
func (s *handOverRun) hold(name string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.holder != "" && now.Before(s.until) {
		s.failures = append(s.failures, "(1) "+name+" and "+s.holder+" hold the lock")
	}
	if s.holder != "" || s.verbose {
		s.traceLocked(name + " holds the lock")
	}
	s.holder, s.until = name, until
	if name != "the first process" && s.taken.IsZero() {
		s.taken = now
	}
}

func (s *handOverRun) leave(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder == name {
		s.holder = ""
		s.traceLocked(name + " lets go of the lock")
	}
}

// disturb does to a node's connections what networks do.
func (s *handOverRun) disturb(n *testcluster.Node, rng *rand.Rand) {
	for range 1 + rng.IntN(4) {
		time.Sleep(magnitude(rng, time.Millisecond, 500*time.Millisecond))
		switch fault, length := rng.IntN(6), magnitude(rng, time.Millisecond, 2*time.Second); fault {
		case 0:
			n.Proxy().Reset()
		case 1: // With requests on their way, which come late.
			n.Proxy().SetDelays(length/2, length, 0, s.delay)
			time.Sleep(length)
			n.Proxy().Reset()
			s.usual(n)
		case 2: // The answers are lost.
			n.Proxy().DropReplies(true)
			time.Sleep(length)
			n.Proxy().Refuse(true)
			n.Proxy().Reset()
			n.Proxy().DropReplies(false)
			n.Proxy().Refuse(false)
		case 3:
			n.Proxy().Refuse(true)
			n.Proxy().Reset()
			time.Sleep(length)
			n.Proxy().Refuse(false)
		case 4:
			s.must(n.Hang())
			time.Sleep(length)
			s.must(n.Resume())
		case 5:
			s.must(n.Stop())
			time.Sleep(length)
			s.must(n.Restart(true))
		}
		s.tracef("%s was broken", n.Name())
	}
}

// checkLeft: no key of the lock is left but what a request of the first process has set
// after the release.
func (s *handOverRun) checkLeft() {
	for i, n := range s.c.Nodes {
		all, err := n.Keys()
		s.must(err)
		s.mu.Lock()
		late := s.nodes[i].late
		s.mu.Unlock()
		for key, state := range all {
			if state.Value == s.token && !late {
				s.failf("(5) %s still has %q, for %v", n.Name(), key, state.TTL)
			}
		}
	}
}

// checkTold: who waited got the lock: at once if nothing was wrong.
func (s *handOverRun) checkTold() {
	s.mu.Lock()
	late := 0
	for _, n := range s.nodes {
		if n.late {
			late++
		}
	}
	taken := !s.taken.IsZero()
	s.mu.Unlock()
	if !taken && late <= len(s.nodes)-quorum(len(s.nodes)) {
		s.failf("(9) nobody was told that the lock is free")
	}
}
