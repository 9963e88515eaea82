package waiting

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A move is something that happens.
type move struct {
	what what
	who  uint8 // a call, or a process
	node uint8
}

type what string

const (
	begin           what = "a call begins"
	carry           what = "the nodes carry out a request of a process"
	hear            what = "a process hears an answer"
	hearNews        what = "a process hears a message"
	loseNews        what = "a process misses a message"
	act             what = "a call looks"
	unlock          what = "a call unlocks"
	giveUp          what = "a call gives up"
	turnAway        what = "a call is turned away"
	listen          what = "a process listens"
	strangerUnlocks what = "the stranger unlocks"
	endTurn         what = "a turn of a process ends"
	pass            what = "time passes"
)

// moves are what may happen.
func (w *world) moves() (all []move) {
	for k, c := range w.calls {
		m := move{who: uint8(k)}
		switch c.phase {
		case planned:
			if k > 0 && w.calls[k-1].phase == planned || w.now > 0 && !w.lateCalls {
				continue // In this order.
			}
			if m.what = begin; w.orderly && k > 0 && w.calls[k-1].first {
				continue
			} else if w.orderly {
				return []move{m}
			}
			all = append(all, m)
		case waits:
			if at, any := w.due(c); any && at <= w.now {
				m.what = act
				all = append(all, m)
				if c.isPassed() {
					continue
				}
				s := w.procs[c.process].q.State(c.w)
				if why, at := c.t.Due(s); s.Head && w.done.turned < w.turned && why != ByTick && !at.After(w.at()) {
					m.what = turnAway
					all = append(all, m)
				}
			}
		case rests:
			if m.what = act; c.signal {
				all = append(all, m)
			}
		case holds:
			if m.what = unlock; c.dies == 0 {
				all = append(all, m)
			}
		}
		if (c.phase == waits || c.phase == asking || c.phase == rests) && w.done.giveUps < w.giveUps && !in(w.stay, k) {
			m.what = giveUp
			all = append(all, m)
		}
	}
	for k, p := range w.procs {
		m := move{who: uint8(k)}
		if len(p.out) > 0 {
			m.what = carry
			all = append(all, m)
		}
		if len(p.back) > 0 {
			m.what = hear
			all = append(all, m)
		}
		if !p.listens && p.wants && !w.never {
			m.what = listen
			all = append(all, m)
		}
		if len(p.turns) > 0 && !w.at().Before(p.turns[0].ends) {
			m.what = endTurn
			all = append(all, m)
		}
		for i := range p.news {
			if m.node = uint8(i); len(p.news[i]) > 0 {
				m.what = hearNews
				all = append(all, m)
				if m.what = loseNews; w.done.lost < w.lost {
					all = append(all, m)
				}
			}
		}
	}
	if w.prompt && len(all) > 0 {
		if i := slices.IndexFunc(all, func(m move) bool { return m.what == carry || m.what == act }); i >= 0 {
			return all[i : i+1]
		}
	}
	if w.held != 0 && w.dies == 0 && slices.ContainsFunc(w.nodes[0][:], func(s stored) bool { return s.token == 1 }) {
		all = append(all, move{what: strangerUnlocks})
	}
	if w.passing() > 0 {
		all = append(all, move{what: pass})
	}
	return all
}

// isBusy reports whether something is on its way, or somebody is to do something now.
func (w *world) isBusy() bool {
	for _, p := range w.procs {
		if len(p.out)+len(p.back) > 0 || !p.listens && p.wants && !w.never || slices.ContainsFunc(p.news, func(n []news) bool { return len(n) > 0 }) {
			return true
		}
		if len(p.turns) > 0 && !w.at().Before(p.turns[0].ends) {
			return true
		}
	}
	for _, c := range w.calls {
		if c.phase == rests && c.signal {
			return true
		}
		if c.phase == waits {
			if at, any := w.due(c); any && at <= w.now {
				return true
			}
		}
	}
	return false
}

// passing is how much time may pass; 0: none.
func (w *world) passing() time.Duration {
	if w.isBusy() {
		if w.done.ticks < w.ticks {
			return max(w.lag, ms)
		}
		return 0
	}
	if w.done.passes < w.passes {
		return w.next()
	}
	return 0
}

// next is how much time passes until something is due; 0: nothing is.
func (w *world) next() (next time.Duration) {
	for _, c := range w.calls {
		if c.phase == waits {
			if at, any := w.due(c); any && (next == 0 || at-w.now < next) {
				next = at - w.now
			}
		}
	}
	for _, p := range w.procs {
		if len(p.turns) > 0 {
			if left := p.turns[0].ends.Sub(w.at()); next == 0 || left < next {
				next = left
			}
		}
	}
	for _, n := range w.nodes {
		for _, s := range n { // Until then nothing is free.
			if left := s.until - w.now; s.until != 0 && left > 0 && next > 0 {
				next = min(next, left)
			}
		}
	}
	return next
}

// checkEnd has nobody sleep for ever where nothing can happen any more.
func (w *world) checkEnd() {
	for _, c := range w.calls {
		if (c.phase == waits || c.phase == rests) && !c.isPassed() && w.isFree(c.wants) && w.next() == 0 {
			w.wrong("a call sleeps for ever")
		}
	}
}

// does carries out a move.
func (w *world) does(m move) {
	w.expire()
	k := int(m.who)
	switch m.what {
	case begin:
		w.begins(w.calls[k])
	case carry:
		w.carry(k)
	case hear:
		w.hears(k)
	case hearNews:
		w.hearsNews(k, int(m.node))
	case loseNews:
		w.done.lost++
		w.procs[k].news[m.node] = w.procs[k].news[m.node][1:]
	case act:
		w.looks(w.calls[k])
	case unlock:
		w.unlocks(w.calls[k])
	case giveUp:
		w.done.giveUps++
		w.givesUp(w.calls[k])
	case turnAway:
		w.done.turned++
		w.turnedAway(w.calls[k])
	case listen:
		p := w.procs[k]
		p.listens = true
		w.do(p, func(q *Queue) { q.Listening() })
		for _, c := range w.calls {
			if c.process == k && w.isInLine(c) && c.w.head && !c.w.now {
				w.wrong("a head does not ask again, though it can get in line now")
			}
		}
	case strangerUnlocks:
		for i := range w.nodes {
			w.nodes[i].release(w, i, request{token: 1, wants: w.held, wakes: !w.silent})
		}
	case endTurn:
		w.endsTurn(k)
	case pass:
		w.pass()
	}
	w.settle()
	w.checkLines()
}

// checkAlone has each ask for itself where nobody asks as often as it would.
func (w *world) checkAlone(c *caller) {
	s := w.procs[c.process].q.State(c.w)
	for r := range resources {
		if !in(c.wants, r) {
			continue
		}
		heads, delays := 0, 0
		for _, o := range w.calls {
			if o.process != c.process || !in(o.wants, r) || !w.isInLine(o) {
				continue
			}
			if o.w.head {
				heads++
			}
			if o.delay != c.delay {
				delays++
			}
		}
		if (heads == 0 || delays > 0) && !s.Alone {
			w.wrong("a call takes it that another one asks as often as it would")
		}
	}
}

// wakes is when something is due for a call that waits.
func (w *world) wakes(c *caller) time.Time {
	_, at := c.t.Due(w.procs[c.process].q.State(c.w))
	return at
}

// settle has calls look that will find nothing to do. None sleeps past what is due.
func (w *world) settle() {
	for _, c := range w.calls {
		if c.isPassed() {
			continue
		}
		if c.phase == waits {
			w.checkAlone(c)
		}
		if c.phase == waits && !c.signal {
			if at := w.wakes(c); !at.IsZero() && (c.alarm == 0 || at.Before(epoch.Add(c.alarm))) {
				w.wrong("something is due for a call, and it is not told to look")
			}
		}
		if c.phase == waits && c.signal {
			if at := w.wakes(c); at.IsZero() || at.After(w.at()) {
				w.looks(c)
			}
		}
	}
}

// pass has time pass. Nobody waits for what is free, but for as long as it takes to be told.
func (w *world) pass() {
	d, busy := w.passing(), w.isBusy()
	if busy {
		w.done.ticks++
	} else {
		w.done.passes++
	}
	for _, c := range w.calls {
		if c.phase != waits || c.isPassed() || !w.isFree(c.wants) {
			c.idle = 0
			continue
		}
		if !busy {
			c.idle += d
		}
		patience := w.patience
		if w.procs[c.process].q.State(c.w).Alone {
			patience += 5 * c.delay // Others may ask for more just before it, and it shares what they are told.
		}
		if c.idle > patience && w.isNext(c) {
			w.wrong("what a call waits for is free for %v, and it does not ask", c.idle)
		}
	}
	w.now += d
}

// isNext reports whether a call that waits does not wait behind another one, that asks for both of them.
func (w *world) isNext(c *caller) bool {
	s := w.procs[c.process].q.State(c.w)
	return s.Head || s.Alone
}

// isFree reports whether a quorum of nodes would grant that.
func (w *world) isFree(wants uint8) bool {
	free := 0
	for i := range w.nodes {
		if !slices.ContainsFunc([]int{0, 1}, func(r int) bool { return in(wants, r) && w.nodes[i][r].token != 0 }) {
			free++
		}
	}
	return free > len(w.nodes)/2
}

// checkLines has no process stay in line for which nobody waits. A node that alone still has a key of a dead holder may have
// refused the attempt that has got the lock, and so put it in line: that costs the next one a message there, and the other
// nodes have told it.
func (w *world) checkLines() {
	for k, p := range w.procs {
		if len(p.out) > 0 {
			continue
		}
		for r := range resources {
			if slices.ContainsFunc(w.calls, func(c *caller) bool {
				return c.process == k && in(c.wants, r) && (c.phase == rests || c.phase == waits || c.phase == asking)
			}) {
				continue
			}
			for i := range w.nodes {
				stays := slices.ContainsFunc(w.nodes[i][r].line, func(p place) bool { return p.process == k })
				if stays && !in(w.longOn, i) {
					w.wrong("a process stays in line, and nobody waits there")
				}
			}
		}
	}
}

// play returns the world after these moves.
func play(l limits, moves []move) *world {
	w := newWorld(l)
	for _, m := range moves {
		w.does(m)
	}
	return w
}

type visit struct {
	from int32
	move move
}

func way(visits []visit, at int) (moves []move) {
	for ; at > 0; at = int(visits[at].from) {
		moves = append(moves, visits[at].move)
	}
	slices.Reverse(moves)
	return moves
}

// tooMany is more states than a search is to have.
const tooMany = 2_000_000

// search visits every state, breadth first, and returns the way to one that is wrong, and how many there are.
func search(l limits) (story []string, states int) {
	visits := []visit{{}}
	seed, seen := maphash.MakeSeed(), map[uint64]bool{}
	for at := 0; at < len(visits); at++ {
		if len(visits) > tooMany {
			return []string{"too many states"}, len(visits)
		}
		before := way(visits, at)
		start := play(l, before)
		moves := start.moves()
		if len(moves) == 0 {
			if start.checkEnd(); start.broken != "" {
				return tell(l, before, start.broken), len(visits)
			}
		}
		for _, m := range moves {
			w := play(l, before)
			w.does(m)
			if w.broken != "" {
				return tell(l, append(before, m), w.broken), len(visits)
			}
			if sum := maphash.Bytes(seed, w.key()); !seen[sum] {
				seen[sum] = true
				visits = append(visits, visit{int32(at), m})
			}
		}
	}
	return nil, len(visits)
}

func tell(l limits, moves []move, why string) (story []string) {
	w := newWorld(l)
	for i, m := range moves {
		w.does(m)
		story = append(story, fmt.Sprintf("%d. %+v, at %v", i+1, m, w.now))
	}
	return append(story, "Then: "+why+".")
}

// key is what tells states apart.
func (w *world) key() []byte {
	k := &keyed{w: w, tokens: map[int]int{0: 0, 1: 1, 2: 2}}
	k.num(w.done.turned, w.done.giveUps, w.done.lost, w.done.ticks, w.done.passes)
	for _, c := range w.calls {
		k.num(c.phase, k.token(c.token), int(c.why), c.putOffs)
		k.flag(c.first, c.s.Head, c.s.Alone, c.signal)
		k.dur(c.began, c.alarm)
		k.num(int(c.idle))
		k.waiter(c)
	}
	for _, n := range w.nodes {
		for _, s := range n {
			k.num(k.token(s.token), s.reserved, len(s.line))
			k.dur(s.until, s.ends)
			k.flag(s.bell)
			for _, p := range s.line {
				k.num(p.process)
				k.dur(p.began)
			}
		}
	}
	for _, p := range w.procs {
		k.process(p)
	}
	return k.b
}

type keyed struct {
	w      *world
	b      []byte
	tokens map[int]int
}

func (k *keyed) num(all ...int) {
	for _, n := range all {
		k.b = binary.AppendVarint(k.b, int64(n))
	}
}

func (k *keyed) flag(all ...bool) {
	for _, f := range all {
		k.num(map[bool]int{true: 1}[f])
	}
}

func (k *keyed) dur(all ...time.Duration) {
	for _, d := range all {
		k.num(int(d - k.w.now))
	}
}

func (k *keyed) at(all ...time.Time) {
	for _, t := range all {
		if t.IsZero() {
			k.num(1 << 60)
			continue
		}
		k.dur(t.Sub(epoch))
	}
}

// token numbers tokens as they are met.
func (k *keyed) token(t int) int {
	if _, ok := k.tokens[t]; !ok {
		k.tokens[t] = len(k.tokens)
	}
	return k.tokens[t]
}

func (k *keyed) text(d string) {
	t := 0
	if d != "" {
		_, _ = fmt.Sscanf(d, "d%d", &t)
	}
	k.num(k.token(t))
}

func (k *keyed) waiter(c *caller) {
	if c.place != nil {
		k.at(c.place.ends)
	}
	if c.phase != waits && c.phase != asking && c.phase != rests || c.w == nil {
		return
	}
	k.flag(c.w.sleeps, c.w.passed != nil)
	k.flag(c.w.head, c.w.now)
	k.at(c.w.tryAt, c.w.keepUntil)
	k.text(c.w.keptFor)
	k.text(c.keptFor)
	if c.t != nil {
		k.at(c.t.tick, c.t.expiry, c.t.ends)
		k.flag(c.t.putOff)
		k.num(c.t.extended)
		k.text(c.t.after)
	}
}

func (k *keyed) process(p *process) {
	k.flag(p.listens, p.wants)
	for _, t := range p.gave {
		k.num(int(max(t-k.w.now, 0)))
	}
	k.num(len(p.out), len(p.back), len(p.turns))
	for _, q := range p.out {
		k.request(&q)
	}
	for _, a := range p.back {
		k.request(&a.request)
		k.flag(a.got)
		k.num(a.told...)
		for _, v := range a.votes {
			k.flag(v.yes)
			k.text(v.holder)
			k.num(int(v.left))
		}
	}
	for _, all := range p.news {
		k.num(len(all))
		for _, n := range all {
			k.b = append(k.b, n.key...)
			k.text(n.digest)
		}
	}
	for r := range resources {
		g := p.q.byKey[key(r)]
		if g == nil {
			k.num(-1)
			continue
		}
		k.num(g.line.Len())
		for e := g.line.Front(); e != nil; e = e.Next() {
			k.num(slices.IndexFunc(k.w.calls, func(c *caller) bool { return c.w == e.Value.(*Waiter) }))
		}
		k.flag(g.turn != nil)
		if g.turn != nil {
			k.at(g.turn.ends)
			k.num(len(g.turn.resting), len(g.turn.keys))
		}
		k.flag(g.answer != nil, g.mixed, g.inLine, g.heard.used)
		k.at(g.answered, g.yield, g.used)
		k.text(g.notified)
		k.text(g.heard.digest)
		k.num(g.heard.nodes)
		k.flag(g.heard.from...)
	}
}

func (k *keyed) request(q *request) {
	k.num(int(q.kind), q.call, k.token(q.token), int(q.wants))
	k.flag(q.line, q.yields, q.wakes, q.unlock, q.pass.Leave)
	k.num(q.pass.Node)
	k.b = append(k.b, q.pass.Key...)
	k.text(q.pass.Digest)
}

const (
	x  = 1
	y  = 2
	xy = 3
	ms = time.Millisecond

	soon = 6 * ms // an expiry margin, or the messages of some nodes
)

type named struct {
	name string
	limits
}

var worlds = []named{
	{"two of a process", limits{calls: []plan{{process: 0, wants: x}, {process: 0, wants: x}}, held: x, passes: 3, patience: soon}},
	{"two processes", limits{calls: []plan{{process: 0, wants: x}, {process: 1, wants: x}}, held: x, passes: 3, patience: soon}},
	{"two and one", limits{swift: true, calls: []plan{{process: 0, wants: x}, {process: 1, wants: x}, {process: 0, wants: x}}, held: x, passes: 2, patience: soon}},
	{"who gives up", limits{calls: []plan{{process: 0, wants: x}, {process: 1, wants: x}}, held: x, giveUps: 1, passes: 2, patience: soon}},
	{"who gives up before another of its process", limits{calls: []plan{{process: 0, wants: x}, {process: 0, wants: x}}, held: x, giveUps: 1, passes: 2, patience: soon}},
	{"who does not listen yet", limits{calls: []plan{{process: 0, wants: x}, {process: 1, wants: x}}, held: x, deaf: true, passes: 2, patience: soon}},
	{"two that do not listen yet", limits{calls: []plan{{process: 0, wants: x}, {process: 0, wants: x}}, held: x, deaf: true, giveUps: 1, passes: 1, patience: soon}},
	{"newcomers", limits{calls: []plan{{process: 0, wants: x}, {process: 1, wants: x}, {process: 0, wants: x}}, lateCalls: true, passes: 2, patience: soon}},
	{"who tries once", limits{calls: []plan{{process: 0, wants: x}, {process: 1, wants: x, tries: true}}, held: x, lateCalls: true, passes: 2, patience: soon}},
	{"two nodes", limits{nodes: 2, calls: []plan{{process: 0, wants: x}, {process: 1, wants: x}}, held: x, passes: 2, patience: soon, orderly: true}},
	{"three nodes", limits{nodes: 3, calls: []plan{{process: 0, wants: x}, {process: 0, wants: x}}, held: x, passes: 2, patience: soon, orderly: true}},
	{"one of three is slow", limits{nodes: 3, slow: true, calls: []plan{{process: 0, wants: x}, {process: 0, wants: x}}, held: x, passes: 2, patience: soon, orderly: true}},
	{"different retry delays", limits{calls: []plan{{process: 0, wants: x, delay: time.Hour}, {process: 0, wants: x, delay: 30 * time.Minute}}, held: x, mixed: true, passes: 4, patience: soon}},
	{"a timed retry that gives way", limits{calls: []plan{{process: 0, wants: x, delay: 50 * ms}, {process: 1, wants: x, delay: 50 * ms}}, held: x, passes: 4, patience: soon}},
	{"the holder dies", limits{calls: []plan{{process: 0, wants: x}, {process: 1, wants: x}}, held: x, dies: 20 * ms, passes: 3, patience: soon}},
	{"messages are lost", limits{calls: []plan{{process: 0, wants: x, delay: 300 * ms}, {process: 1, wants: x, delay: 300 * ms}}, held: x, lost: 1, passes: 4, patience: 301 * ms}},
	{"two resources, nobody in line", limits{calls: []plan{{process: 0, wants: xy}, {process: 0, wants: y}}, deaf: true, never: true, passes: 2, patience: soon}},
	{"a line without a head", limits{swift: true, calls: []plan{{process: 0, wants: y, delay: 70 * ms}, {process: 0, wants: xy, delay: 70 * ms}, {process: 0, wants: x, delay: 50 * ms}}, held: y, prompt: true, passes: 12, patience: soon, orderly: true}},
	{"a line that has no head any more", limits{swift: true, prompt: true, calls: []plan{{process: 0, wants: x}, {process: 0, wants: y}, {process: 0, wants: xy}, {process: 0, wants: x}}, held: xy, giveUps: 1, stay: 14, passes: 1, patience: soon, orderly: true}},
	{"a release that comes back", limits{swift: true, prompt: true, calls: []plan{{process: 0, wants: x}, {process: 1, wants: x}, {process: 0, wants: x}}, held: x, lateCalls: true, giveUps: 2, passes: 1, patience: soon}},
	{"a release that tells nobody", limits{calls: []plan{{process: 0, wants: x, delay: 50 * ms}, {process: 0, wants: x, delay: 50 * ms}}, held: x, silent: true, swift: true, passes: 5, patience: 50*ms + soon}},
	{"three retry delays", limits{calls: []plan{{process: 0, wants: x, delay: 50 * ms}, {process: 0, wants: x, delay: time.Hour}, {process: 0, wants: x, delay: 50 * ms}}, held: x, mixed: true, prompt: true, swift: true, giveUps: 1, passes: 2, patience: soon}},
	{"a reservation beside a holder", limits{nodes: 3, calls: []plan{{process: 0, wants: x, delay: 20 * ms}}, held: x, heldOn: 6, dies: 10 * time.Second, passes: 4, patience: soon}},
	{"newcomers of a line without a head", limits{calls: []plan{{process: 0, wants: y}, {process: 0, wants: xy}, {process: 0, wants: x}}, held: y, swift: true, prompt: true, lateCalls: true, passes: 1, patience: soon}},
	{"who is turned away", limits{calls: []plan{{process: 0, wants: x}, {process: 1, wants: x}}, held: x, turned: 1, swift: true, passes: 3, patience: soon + 25*ms}},
	{"a timed retry that gives way twice", limits{swift: true, calls: []plan{{process: 0, wants: x}, {process: 1, wants: x}, {process: 2, wants: x, delay: 20 * ms}}, held: x, orderly: true, prompt: true, lag: 60 * ms, ticks: 2, passes: 2, patience: soon}},
	{"who keeps what it was told of", limits{swift: true, calls: []plan{{process: 0, wants: xy}, {process: 0, wants: xy}, {process: 1, wants: x, delay: 40 * ms}}, held: x, kept: y, orderly: true, giveUps: 1, passes: 4, patience: KeepTime + soon}},
	{"who keeps what another one was told of", limits{swift: true, calls: []plan{{process: 0, wants: xy}, {process: 0, wants: y}}, held: x, kept: y, orderly: true, giveUps: 1, passes: 3, patience: KeepTime + soon}},
	{"another holder stays", limits{calls: []plan{{process: 0, wants: x}, {process: 1, wants: x, tries: true}}, held: x, dies: 20 * ms, lateCalls: true, passes: 3, patience: soon}},
	{"the holder dies, but not on one node", limits{nodes: 3, calls: []plan{{process: 0, wants: x}}, held: x, dies: 20 * ms, longOn: 1, swift: true, passes: 3, patience: soon}},
	{"another holder dies", limits{calls: []plan{{process: 0, wants: x}, {process: 1, wants: x, tries: true, dies: 20 * ms}}, held: x, dies: 20 * ms, lateCalls: true, passes: 4, patience: soon}},
	{"turns of a process", limits{calls: []plan{{process: 0, wants: x, turn: 10 * ms}, {process: 0, wants: x, turn: 10 * ms}, {process: 0, wants: x, turn: 10 * ms}}, swift: true, lateCalls: true, passes: 3, patience: soon}},
	{"turns beside another process", limits{calls: []plan{{process: 0, wants: x, turn: 10 * ms}, {process: 0, wants: x, turn: 10 * ms}, {process: 1, wants: x, turn: 10 * ms}}, swift: true, lateCalls: true, passes: 3, patience: soon}},
	{"turns, and one that takes no part", limits{calls: []plan{{process: 0, wants: x, turn: 10 * ms}, {process: 0, wants: x}, {process: 0, wants: x, turn: 10 * ms}}, swift: true, lateCalls: true, passes: 2, patience: soon}},
	{"turns, and who gives up", limits{calls: []plan{{process: 0, wants: x, turn: 10 * ms}, {process: 0, wants: x, turn: 10 * ms}, {process: 0, wants: x, turn: 10 * ms}}, swift: true, giveUps: 1, passes: 2, patience: soon}},
	{"turns that other resources end", limits{calls: []plan{{process: 0, wants: x, turn: 10 * ms}, {process: 0, wants: xy, turn: 10 * ms}, {process: 0, wants: x, turn: 10 * ms}}, swift: true, lateCalls: true, passes: 2, patience: soon}},
	{"turns of two processes", limits{calls: []plan{{process: 0, wants: x, turn: 10 * ms}, {process: 0, wants: x, turn: 10 * ms}, {process: 1, wants: x, turn: 10 * ms}, {process: 1, wants: x, turn: 10 * ms}}, swift: true, prompt: true, lateCalls: true, passes: 3, patience: soon}},
	{"turns on three nodes", limits{nodes: 3, calls: []plan{{process: 0, wants: x, turn: 10 * ms}, {process: 0, wants: x, turn: 10 * ms}, {process: 1, wants: x, turn: 10 * ms}}, swift: true, prompt: true, lateCalls: true, passes: 2, patience: soon}},
	{"turns, and who is turned away", limits{calls: []plan{{process: 0, wants: x, turn: 10 * ms}, {process: 0, wants: x, turn: 10 * ms}, {process: 1, wants: x}}, turned: 1, swift: true, lateCalls: true, passes: 3, patience: soon + 25*ms}},
	{"turns of both resources", limits{calls: []plan{{process: 0, wants: xy, turn: 10 * ms}, {process: 0, wants: xy, turn: 10 * ms}, {process: 0, wants: y, turn: 10 * ms}}, swift: true, lateCalls: true, passes: 3, patience: soon}},
	{"turns after a loss", limits{calls: []plan{{process: 0, wants: x, turn: 10 * ms, dies: 5 * ms}, {process: 0, wants: x, turn: 10 * ms}, {process: 0, wants: x, turn: 10 * ms}}, swift: true, lateCalls: true, passes: 3, patience: soon + 10*ms}},
	{"x and xy", limits{calls: []plan{{process: 0, wants: x}, {process: 1, wants: xy}}, held: xy, passes: 2, patience: soon}},
	{"x, y and xy", limits{swift: true, calls: []plan{{process: 0, wants: xy}, {process: 0, wants: x}, {process: 0, wants: y}}, held: xy, passes: 2, patience: soon}},
}

// large take a minute together.
var large = []named{
	{"a release that comes back", limits{swift: true, calls: []plan{{process: 0, wants: x}, {process: 1, wants: x}, {process: 0, wants: x}}, held: x, lateCalls: true, giveUps: 2, passes: 1, patience: soon}},
	{"who gives up before others", limits{calls: []plan{{process: 0, wants: x}, {process: 0, wants: x}, {process: 1, wants: x}}, held: x, giveUps: 1, passes: 1, patience: soon, orderly: true}},
	{"one of three is slow", limits{nodes: 3, slow: true, calls: []plan{{process: 0, wants: x}, {process: 1, wants: x}}, held: x, passes: 1, patience: soon, orderly: true}},
	{"three nodes", limits{nodes: 3, calls: []plan{{process: 0, wants: x}, {process: 1, wants: x}}, held: x, passes: 1, patience: soon, orderly: true}},
}

// Of calls that wait, those of a process get what they wait for in their order, nobody stays in line for nothing, and
// nobody sleeps past a release: without losses, what a call waits for is not free for longer than it takes to be told.
func TestSearch(t *testing.T) {
	if testcluster.RaceEnabled {
		t.Skip("one goroutine has no races")
	}
	worlds := worlds
	if !testing.Short() {
		worlds = slices.Concat(worlds, large)
	}
	for _, l := range worlds {
		t.Run(l.name, func(t *testing.T) {
			began := time.Now()
			story, states := search(l.limits)
			require.Empty(t, story, strings.Join(story, "\n"))
			t.Logf("%d states in %.1f s", states, time.Since(began).Seconds())
		})
	}
}
