package waiting

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// The search of this package has calls of a few processes wait for resources of a few nodes, in every order in which
// things may happen. What redlock/wait.go does with the rules is done here by a caller, and what the scripts do with
// lines by a store. All nodes carry out an attempt in one step: which of two attempts wins is not in question here.

const (
	resources = 2
	ttl       = time.Hour // of a lock that somebody holds
)

// A plan is a call that is to come.
type plan struct {
	process int
	wants   uint8         // resources, as a set
	delay   time.Duration // between its timed retries; 0: a long time
	tries   bool          // it makes one attempt
	dies    time.Duration // its lock lives for so long, and it never releases it; 0: it may
	turn    time.Duration // it takes part in turns of that length; 0: it does not
}

// Limits say how a world is, and how often what may happen.
type limits struct {
	nodes     int // 0: 1
	calls     []plan
	held      uint8         // resources that a stranger has at first
	heldOn    uint8         // set of nodes on which it has them, and the others are kept for somebody else; 0: all
	longOn    uint8         // set of nodes on which its keys do not expire
	silent    bool          // its release wakes nobody
	kept      uint8         // and those that another one has for ever
	lag       time.Duration // that passes while something is on its way; 0: a millisecond
	dies      time.Duration // when its keys expire; 0: never
	deaf      bool          // processes listen some time after somebody has begun to wait
	never     bool          // or not at all
	slow      bool          // node 0 is much slower than the others
	patience  time.Duration // for how long a resource may be free, and somebody waits for it
	mixed     bool          // nothing is said of the order in a process
	lateCalls bool          // calls may begin when others have ended
	orderly   bool          // calls begin one after the other has asked, and before anything else happens
	stay      uint8         // calls that do not give up, as a set
	prompt    bool          // calls look, and nodes carry out, before anything else happens
	swift     bool          // what the nodes have carried out is heard of at once

	turned                       int // times that calls are turned away
	giveUps, lost, ticks, passes int // calls; messages; lags while something is on its way; instants to which time goes on
}

// A world is all of it.
type world struct {
	limits

	now    time.Duration
	procs  []*process
	nodes  []store
	calls  []*caller
	done   limits
	tokens int
	broken string
}

// A process has a queue.
type process struct {
	q       *Queue
	out     []request // on its way to the nodes
	back    []answer
	news    [][]news // by node
	listens bool
	wants   bool                     // to
	gave    [resources]time.Duration // it has woken another one: until then its newcomers do not ask at once
	turns   []*Turn                  // those whose timers run
}

// A request is one that all nodes carry out, or a pass.
type request struct {
	kind   uint8
	call   int
	token  int
	wants  uint8
	line   bool // lock: it gets in line if it is refused
	yields bool
	wakes  bool // release
	unlock bool // release: of a lock
	pass   Pass
}

func (q *request) String() string {
	switch q.kind {
	case locks:
		return fmt.Sprintf("a lock for call %d", q.call)
	case releases:
		return "a release"
	}
	return fmt.Sprintf("%+v", q.pass)
}

const (
	locks uint8 = iota
	releases
	passes
)

// An answer is that of all nodes to a request.
type answer struct {
	request

	got   bool
	votes []vote
	told  []int // releases and passes: the process that was told, plus 1; by node and resource; negative: still reserved
}

// A vote is a node's refusal.
type vote struct {
	yes    bool
	holder string // empty: the resource is kept for another process
	left   time.Duration
}

type news struct{ key, digest string }

// A store is a node.
type store [resources]stored

type stored struct {
	token    int
	until    time.Duration // 0: for ever
	line     []place
	bell     bool
	reserved int // process, plus 1; 0: nobody
	ends     time.Duration
}

type place struct {
	process int
	began   time.Duration
}

// A caller is a call.
type caller struct {
	plan
	id, phase int
	began     time.Duration
	token     int
	w         *Waiter
	t         *Timer
	why       Reason // of the attempt that is under way
	s         State
	first     bool          // it is the first, before it waits
	keptFor   string        // the holder for which it has last kept what it was told of
	putOffs   int           // how often its timed retry was put off
	signal    bool          // it is to look
	alarm     time.Duration // when it looks by itself; 0: never
	idle      time.Duration // for how long what it waits for is free
	place     *Turn         // of its lock; nil: it has none, or none with turns
}

const (
	planned = iota
	asking
	rests
	waits
	holds
	over
)

var (
	epoch    = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	errTaken = errors.New("taken")
)

func (w *world) at() time.Time { return epoch.Add(w.now) }

func key(r int) string       { return string(rune('x' + r)) }
func digest(t int) string    { return fmt.Sprint("d", t) }
func number(k string) int    { return int(k[0] - 'x') }
func in(s uint8, r int) bool { return s>>r&1 != 0 }

func half(d time.Duration) time.Duration { return d / 2 }

func newWorld(l limits) *world {
	w := &world{limits: l, tokens: 2}
	n := max(l.nodes, 1)
	w.nodes = make([]store, n)
	for i := range w.nodes {
		for r := range resources {
			if in(l.held, r) && l.heldOn != 0 && !in(l.heldOn, i) {
				w.nodes[i][r].reserved, w.nodes[i][r].ends = 9, ReservedFor
			} else if in(l.held, r) {
				if w.nodes[i][r].token = 1; !in(l.longOn, i) {
					w.nodes[i][r].until = l.dies
				}
			}
			if in(l.kept, r) {
				w.nodes[i][r].token = 2
			}
		}
	}
	for k, p := range l.calls {
		for len(w.procs) <= p.process {
			w.procs = append(w.procs, &process{q: NewQueue(n, n/2+1, half), news: make([][]news, n), listens: !l.deaf})
		}
		if p.delay == 0 {
			p.delay = time.Hour
		}
		w.calls = append(w.calls, &caller{plan: p, id: k})
	}
	return w
}

func (w *world) wrong(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// do uses a process's queue, and passes on what is to be.
func (w *world) do(p *process, f func(q *Queue)) {
	f(p.q)
	for _, pass := range p.q.Passes() {
		p.out = append(p.out, request{kind: passes, pass: pass})
	}
}

// expire has keys and reservations end.
func (w *world) expire() {
	for i := range w.nodes {
		for r := range resources {
			s := &w.nodes[i][r]
			if s.token != 0 && s.until != 0 && s.until <= w.now {
				s.token, s.until = 0, 0
			}
			if s.reserved != 0 && s.ends <= w.now {
				s.reserved, s.ends = 0, 0
			}
		}
	}
}

// carry has the nodes carry out a process's next request.
func (w *world) carry(k int) {
	p := w.procs[k]
	q := p.out[0]
	p.out = p.out[1:]
	a := answer{request: q}
	switch q.kind {
	case locks:
		yes := 0
		for i := range w.nodes {
			v := w.nodes[i].lock(w, k, q)
			if a.votes = append(a.votes, v); v.yes {
				yes++
			}
		}
		if a.got = yes > len(w.nodes)/2; !a.got {
			for i := range w.nodes {
				w.nodes[i].release(w, i, request{token: q.token, wants: q.wants})
			}
		}
	case releases:
		for i := range w.nodes {
			a.told = append(a.told, w.nodes[i].release(w, i, q)...)
		}
	case passes:
		a.told = w.nodes[q.pass.Node].pass(w, k, q.pass)
	}
	p.back = append(p.back, a)
	if w.swift {
		w.hears(k)
	}
}

// lock is lock.lua and queue.lua.
func (n *store) lock(w *world, k int, q request) (v vote) {
	var taken []int
	for r := range resources {
		if s := &n[r]; in(q.wants, r) && s.token != 0 && s.token != q.token {
			left := s.until - w.now
			if s.until == 0 {
				left = ttl
			}
			if taken = append(taken, r); len(taken) == 1 {
				v.holder = digest(s.token)
			}
			v.left = max(v.left, left)
		}
	}
	if len(taken) == 0 && q.yields {
		for r := range resources {
			if s := &n[r]; in(q.wants, r) && s.reserved != 0 && s.reserved != k+1 {
				taken = append(taken, r)
				v.left = max(v.left, s.ends-w.now)
			}
		}
	}
	if len(taken) > 0 {
		if q.line && n.enter(k, w.calls[q.call].began, taken) && v.holder == "" {
			v.left += ReservedFor
		}
		return v
	}
	for r := range resources {
		if s := &n[r]; in(q.wants, r) {
			if q.line {
				s.leave(k)
			}
			if s.token, s.until = q.token, 0; w.calls[q.call].dies > 0 {
				s.until = w.now + w.calls[q.call].dies
			}
		}
	}
	v.yes = true
	return v
}

// enter gets a process in line, and reports whether it is behind another one.
func (n *store) enter(k int, began time.Duration, taken []int) (behind bool) {
	for _, r := range taken {
		s := &n[r]
		if s.reserved == k+1 {
			s.reserved, s.ends = 0, 0
		}
		s.line = slices.DeleteFunc(slices.Clone(s.line), func(p place) bool { return p.process == k })
		s.line = append(s.line, place{k, began})
		slices.SortFunc(s.line, func(a, b place) int {
			if a.began != b.began {
				return int(a.began - b.began)
			}
			return a.process - b.process
		})
		s.bell = true
		behind = behind || s.line[0].process != k
	}
	return behind
}

func (s *stored) leave(k int) {
	s.line = slices.DeleteFunc(slices.Clone(s.line), func(p place) bool { return p.process == k })
	if s.reserved == k+1 {
		s.reserved, s.ends = 0, 0
	}
}

// release is unlock.lua.
func (n *store) release(w *world, i int, q request) (told []int) {
	var rung [resources]bool
	for r := range resources {
		s := &n[r]
		if !in(q.wants, r) || s.token != q.token {
			continue
		}
		s.token, s.until = 0, 0
		if q.wakes && s.bell {
			s.bell, rung[r] = false, true
		}
	}
	for r := range resources {
		if in(q.wants, r) && q.wakes {
			told = append(told, n[r].tell(w, i, r, digest(q.token), rung[r]))
		}
	}
	return told
}

// tell is the part of unlock.lua and pass.lua that tells who is first in line.
func (s *stored) tell(w *world, i, r int, name string, rung bool) (told int) {
	if !rung {
		return 0
	}
	if s.reserved != 0 {
		told = -s.reserved
	}
	for told == 0 && len(s.line) > 0 {
		first := s.line[0].process
		s.line = s.line[1:]
		if p := w.procs[first]; p.listens {
			p.news[i] = append(p.news[i], news{key(r), name})
			told, s.reserved, s.ends = first+1, first+1, w.now+ReservedFor
		}
	}
	s.bell = len(s.line) > 0
	return told
}

// pass is pass.lua.
func (n *store) pass(w *world, k int, p Pass) []int {
	r := number(p.Key)
	s := &n[r]
	if s.reserved == k+1 {
		s.reserved, s.ends = 0, 0
	}
	if p.Leave {
		s.line = slices.DeleteFunc(slices.Clone(s.line), func(p place) bool { return p.process == k })
	}
	if p.Digest == "" || s.token != 0 || !s.bell {
		return nil
	}
	s.bell = false
	return []int{s.tell(w, p.Node, r, p.Digest, true)}
}
