// Package quorum has the rules of rounds (internal/lease) run beside nodes, connections and clocks that the tests play:
// several clients ask a few nodes for locks. A search tries what may happen, in any order, and holds each state against
// what must never be. Package world does the same with the rules of one node (internal/node).
//
// A lease.Round of each claim is the very code. Around it, the tests do what redlock/round.go and
// redlock/acquisition.go do: they send what is to be sent, set the timer, give back, take the result, and go on with a
// new claim. What is below a round is this contract, which internal/node keeps:
//
//   - The requests of one claim reach a node in the order in which they were made, as long as the connection lasts. A
//     release that is asked for behind a lock request is carried out after it, however late that is.
//   - A connection may break at any time. A request on it may have been carried out, may never be, or may be later. The
//     round is told that there is no answer. A release is sent again until it is confirmed.
//   - What comes twice, or behind its release, is released again.
//   - An answer comes to a request once at most. It may come as late as it likes, or never.
//   - A request may be refused before it is sent. That is told at once.
//   - A release is sent wherever the claim may have left something. It is not sent where a lock request was refused, and
//     no other one is on its way.
//
// And this is what a node promises, as safety.md has it:
//
//   - A key that was set lives for the validity at least, by the clock of the client that has it set: the drift is what a
//     node's clock may gain. It lives for ttl and drift at most.
//   - A node carries out one request after the other, each as a whole. A lock request sets all keys or none.
//   - The counters of fences are not lost, and grow with each grant. Where they may be lost, nothing is said of fences.
//   - Who grants a lock, or raises a counter, says what that was before, or nothing if it does not know.
//   - A node that has restarted without its data grants nothing for the longest ttl. Where that is not so, two locks may
//     overlap.
//
// The clients' clocks may stand still while their machines sleep: then they say by how much they are behind. A process
// may stand still at any time, too, its clock going on: then nothing is read, and its timers are late.
package quorum

import (
	"errors"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/test/server"
)

const (
	maxNodes   = 5
	maxClients = 3
	maxTokens  = 16
)

// strangers hold keys from the beginning, and never answer for it. Their tokens are the last ones.
const strangers = maxTokens - 3

// Limits say how a world is, and how often what may happen. The zero value of a number is never, but for those that
// newWorld has another for.
type limits struct {
	nodes, clients int

	ttl, drift, patience, unit time.Duration
	early                      time.Duration           // by which keys end before they may
	atLeast                    time.Duration           // of what is left when a lock is taken
	least, trip                time.Duration           // all answers take so long, and at most that; 0: as late as they like
	wants                      [maxClients]uint8       // resources, as a set
	fenced                     bool                    // locks have fences
	blocks                     bool                    // and numbers below those
	proposals                  [maxClients]int64       // of fences
	behind                     uint8                   // set of nodes whose clocks forbid what is proposed
	counters                   [maxNodes]int64         // of fences, at first
	held                       [maxNodes]uint8         // which stranger has the first resource: 1 to 3
	heldSecond                 [maxNodes]uint8         // and the second one
	mute, down, unnamed        uint8                   // sets of nodes that answer nothing, that are not asked, and that name no holder
	takes                      [maxNodes]time.Duration // to answer of late, as the rules are told
	slow                       bool                    // they do take as long
	refuse                     [maxClients]uint8       // sets of nodes that answer a client's lock requests with an error
	given                      [maxClients]uint8       // so many of the nodes, the first ones; 0: all
	tries                      [maxClients]uint8       // how often a client asks for a lock
	digests                    string                  // of the tokens, one letter for each
	anyExpiry                  bool                    // keys may go at any time. Nothing is said of validities then
	untimed                    bool                    // no time passes
	together                   bool                    // all clients begin before anything else
	swift                      bool                    // what a node has carried out is heard of at once
	interleaved                bool                    // what is told when the time is over comes one by one
	foreign                    bool                    // the last client releases the first client's lock by token
	lucks                      int                     // 0: what is random is always in the middle; else it is one of so many
	claims                     uint8                   // how many tokens there are at most; 0: as many as there is room for
	wins                       int                     // so many clients must have got the lock at the end, if not 0
	comesTo                    string                  // what the first client must have got at the end: "granted", "taken", "no quorum"; empty: anything
	ordered                    bool                    // nodes are told apart, though they are alike
	forgetful                  bool                    // a node that has lost its data grants locks at once
	oneToken                   bool                    // all claims have the same
	half                       bool                    // of the nodes are taken for a quorum
	leaves                     uint8                   // set of nodes whose first key of the first client goes as soon as it is set

	max budget
}

// A thing is what happens a limited number of times.
type thing uint8

const (
	ticks     thing = iota // units of time pass that nobody waits for
	giveUps                // a client does not wait any more
	breaks                 // connections
	lates                  // what was on a connection that broke is carried out nevertheless
	twice                  // requests are carried out twice
	flushes                // a node loses its keys, but not its counters
	restarts               // a node loses its keys and counters
	stops                  // a process stands still
	sleeps                 // a machine sleeps
	faults                 // a node answers with an error
	reserves               // a node keeps a free resource for somebody else
	lies                   // a node says another counter than it has
	extends                // a lock is extended
	unlocks                // a lock is released
	repairs                // a node is repaired
	lags                   // a client stops between looking at the clock and asking
	reads                  // an answer was read, and is heard a while later
	turned                 // a request is refused before it is sent
	premature              // a timer comes early
	delays                 // a result is not taken at once
	things
)

type budget [things]uint8

// A task is what a request asks a node for.
type task uint8

const (
	lockTask task = iota
	raiseTask
	extendTask
	repairTask
	releaseTask
)

// background is the round of a request that no round waits for.
const background = 255

// A message is a request of a claim that the node has not carried out yet.
type message struct {
	task  task
	round uint8
	mute  bool // its connection is over: nobody hears the answer
	aim   int64
	sent  time.Duration
}

// A reply is an answer that is on its way.
type reply struct {
	task   task
	round  uint8
	stance node.Stance
	fault  fault
	holder uint8 // its token; 0: none was named
	fence  int64
	found  int64         // the counter, before
	sent   time.Duration // the request
	read   time.Duration // the client has, and has not heard it yet; 0: it has not
}

type fault uint8

const (
	none fault = iota
	reserved
	refuses
)

// A round is a lease.Round with what is known of it otherwise: what it was told, and what it has said.
type round struct {
	lease.Round

	armed    bool
	due      time.Duration // if armed: since its start
	begun    bool
	done     bool // it has said so
	taken    bool // its client has looked at the result
	asks     uint8
	limit    time.Duration // that it was given at first
	given    time.Duration // when it asked last for the lock
	asked    time.Duration // when it asked last, since its start
	decided  uint64        // by question: it has said so
	settles  uint64
	gathers  bool // it did so before this step
	raises   uint8
	turn     uint8         // a set of nodes that keep a free resource for others
	ends     time.Duration // of an extension: when the lock ends that is extended, by the world\'s time
	raised   bool
	aim      int64 // the latest
	stood    time.Duration
	was      lease.Verdict   // when it was decided last
	question uint8           // that was asked last
	last     [maxNodes]int64 // the fence with which a node has said yes; 0: it has not, or not again
	gaveUp   bool
	delayed  bool // its result is
	told     bool // those releases tell others
	fenceBy  time.Duration

	silencing bool // the time is over, and those are told of it one by one: from which node on, up to which question
	from      uint8
	upTo      uint32
	why       error

	own   [maxNodes]node.Stance // what the nodes have voted, by what they were heard to say
	of    [maxNodes]uint8       // to which question
	named [maxNodes]byte        // who they have said has the resource, by digest
	said  [maxNodes]uint64      // a set: the fences with which a node has said yes; bit 0 without fences
}

// A claim is a token, and all that is under way for it.
type claim struct {
	who, nr  uint8
	token    uint8
	start    time.Duration // by the world's time
	rounds   []*round      // the first is that of the lock, the others are extensions and the release
	wire     [maxNodes][]message
	replies  [maxNodes][]reply
	copies   [maxNodes][]message // that come once more
	left     [maxNodes]bool      // the node may have something of it
	released bool
	floor    int64 // the largest fence of those that had been got when it began
	fence    int64 // 0: it has none
	first    int64 // the smallest number that is its own
	ended    bool  // nothing of it matters any more
}

// A phase is what a client does.
type phase uint8

const (
	idle    phase = iota
	asking        // for a lock
	resting       // between two claims of one attempt
	holding
	ending // the release is under way
)

// A client is a process with one call at a time.
type client struct {
	id      uint8
	phase   phase
	tries   uint8
	stop    uint8         // 1: it stands still; 2: its machine sleeps
	slept   time.Duration // in all
	began   time.Duration // the attempt, by its own clock
	rest    time.Duration // until when it rests, by its own clock
	until   lease.Deadline
	last    lease.Verdict // of the latest attempt
	got     bool          // a lock, once
	contest time.Duration // until when its contest lasts, by its own clock; 0: there is none
	split   bool          // votes of the attempt, as was told
	extra   time.Duration // that standstills have cost
	ops     uint8         // rounds of extension that it has had a result of
	claims  []*claim

	hash    bool // the sums are right
	sum     uint64
	columns [maxNodes]uint64
}

// A world is all of it. Clients and claims are not changed once another world may have them, but copied first.
type world struct {
	*limits

	s       *search
	now     time.Duration
	used    budget
	nodes   [maxNodes]server.Server
	closed  [maxNodes]time.Duration // until when a node grants nothing, as it has restarted
	clients [maxClients]*client
	fresh   [maxClients]bool // this world's own
	tokens  uint8
	broken  string
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

var (
	errReserved = errors.New("reserved")
	errPending  = errors.New("pending")
	errTooLate  = errors.New("too late")
	errTaken    = errors.New("taken")
	errBroken   = errors.New("connection broken")
	errFault    = errors.New("out of memory")
	errTurned   = errors.New("not sent")
)

// ms is the unit that the rules reckon in.
const ms = time.Millisecond

func (l limits) withDefaults() *limits {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&l.unit, ms)
	set(&l.patience, 2*l.unit)
	set(&l.ttl, 6*l.unit)
	set(&l.drift, l.unit)
	if l.digests == "" {
		l.digests = "acbdfehgjilknmpo"
	}
	if l.claims == 0 {
		l.claims = strangers - 1
	}
	for k := range l.wants {
		if l.wants[k] == 0 {
			l.wants[k] = 1
		}
	}
	for k := range l.tries {
		if l.tries[k] == 0 {
			l.tries[k] = 1
		}
	}
	return &l
}

func newWorld(s *search) *world {
	l := s.limits
	w := &world{limits: l, s: s, tokens: 1}
	for i := range l.nodes {
		n := &w.nodes[i]
		for r, by := range [...]uint8{l.held[i], l.heldSecond[i]} {
			n[r].Counter = l.counters[i]
			if by != 0 {
				n[r].Token, n[r].Until = strangers+int(by)-1, forGood
			}
		}
	}
	for k := range l.clients {
		w.clients[k] = &client{id: uint8(k)}
	}
	return w
}

// forGood is until when a key is there that does not go.
const forGood = 1 << 50

func (l *limits) need(nodes int) int {
	if l.half {
		return nodes / 2
	}
	return nodes/2 + 1
}

func (l *limits) spare(r *round) int { return len(r.Ballots) - l.need(len(r.Ballots)) }

// sees is how many nodes a client is given.
func (l *limits) sees(c *client) int {
	if n := l.given[c.id]; n > 0 {
		return int(n)
	}
	return l.nodes
}

func (l *limits) validity() time.Duration { return l.ttl - l.drift }

func in(set uint8, i int) bool                { return set>>i&1 != 0 }
func (w *world) mono(c *client) time.Duration { return w.now - c.slept }
func (w *world) at(c *client) time.Time       { return epoch.Add(w.mono(c)) }
func (w *world) wrong(why string) {
	if w.broken == "" {
		w.broken = why
	}
}

// copyOf is a world that may be changed.
func (w *world) copyOf() *world {
	c := *w
	c.fresh = [maxClients]bool{}
	return &c
}

// own has client k be this world's own.
func (w *world) own(k int) *client {
	if !w.fresh[k] {
		c := *w.clients[k]
		c.hash = false
		c.claims = slices.Clone(c.claims)
		for i, cl := range c.claims {
			if !cl.ended {
				c.claims[i] = cl.clone()
			}
		}
		w.clients[k], w.fresh[k] = &c, true
	}
	return w.clients[k]
}

func (cl *claim) clone() *claim {
	c := *cl
	c.rounds = slices.Clone(c.rounds)
	for i, r := range c.rounds {
		if r != settled {
			c.rounds[i] = r.clone()
		}
	}
	return &c
}

func (r *round) clone() *round {
	c := *r
	c.Ballots = slices.Clone(r.Ballots)
	if r.Fencing != nil {
		f := *r.Fencing
		cloneFencing(&f)
		c.Fencing = &f
	}
	if r.Contest != nil {
		contest := *r.Contest // Its votes are never changed, but replaced.
		c.Contest = &contest
	}
	return &c
}

// settled is a round of which nothing is to come any more.
var settled = &round{begun: true, done: true, taken: true, settles: 1}

func (c *client) current() *claim {
	if len(c.claims) == 0 {
		return nil
	}
	return c.claims[len(c.claims)-1]
}

// push appends without touching what another world may have, too.
func push[T any](q []T, x T) []T { return append(q[:len(q):len(q)], x) }
