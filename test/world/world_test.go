package world

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// limits say how often what may happen, happens at most.
type limits struct {
	tokens                                  int  // attempts, one after the other or together, on one resource
	breaks, fails, refusals, giveUps, ticks int  // of the connection, of connecting, by the server, by a proxy; instants that the node has asked for
	extensions, repairs                     int  // of each lock
	nonsense, doubles, repeats              int  // answers that no script gives; requests that arrive again; releases that are asked for once more
	silences, flushes, forgets, renewals    int  // watchdogs that find nothing answered; keys lost; scripts forgotten; connections made anew
	unanswered                              int  // locks that may be unanswered; 0: many
	wakes                                   int  // the process stands still
	pauses, minutes, hours                  int  // short times without an answer; two minutes; nearly an hour, after which nothing is on its way any more
	withdraws, closes, foreign, leaves      bool // requests are taken back; Close; another process releases; releases may leave the keys
	other                                   bool // another client locks and unlocks, too
}

// A token is an attempt's.
type token struct {
	node.Trace

	id       int
	leaves   bool
	locked   bool // its lock request was handed to the node
	held     bool // the server has said yes
	heard    bool // the call has heard of it
	doubled  bool // a request of it arrives again
	missing  bool // an extension has found nothing, and a repair may follow
	released bool // its release was
	foreign  bool // another process has done that, whose token it is
	removed  bool // a release of it has removed the key
	unsure   bool // the answer to one was lost
	refused  bool // its lock request was, and nothing else has come of it
	doubted  bool // nobody can know what has become of a request of it
	kept     bool // its release was refused, and was not carried out since
	must     bool // so it is to be sent once more before the next connection follows
	over     bool // the answer to a release that was carried out was heard
	undone   bool // its key was set behind a release, by what came late

	extended, repaired int
	repairs            time.Duration // when its last repair was asked for
}

const ttl, minHold, timeout = time.Hour, time.Minute, 250 * time.Millisecond

const within = timeout / 2 // of repairs

func (t *token) Life() time.Duration { return ttl }
func (t *token) LeavesKeys() bool    { return t.leaves }
func (t *token) Keys() []any         { return resource }
func (t *token) Value() any          { return t.id }

func (t *token) Release(time.Time, bool) (node.Command, node.Receiver) {
	return t.command(t.release()), nil
}

func (t *token) release() *node.Script {
	if t.leaves {
		return leave
	}
	return release
}

func (t *token) command(s *node.Script) node.Command {
	return node.Command{Script: s, Keys: resource, Args: []any{t.id}}
}

var resource = []any{"a"}

// script returns one of which the server knows what it does.
func script(name string, stances map[string]node.Stance) *node.Script {
	return node.NewScript(name, name, func(reply any) node.Outcome {
		said, _ := reply.(string)
		stance, ok := stances[said]
		if !ok {
			return node.Unexpected(name, reply)
		}
		out := node.Outcome{Stance: stance}
		if stance != node.Yes {
			out.Err = errors.New(said)
		}
		return out
	})
}

var (
	says    = map[string]node.Stance{"yes": node.Yes, "no": node.No, "gone": node.Gone}
	lock    = script("lock", says)
	extend  = script("extension", says)
	repair  = script("repair", says)
	release = script("release", says)
	leave   = script("release with a min hold", says)
)

// A call is a request that somebody waits for.
type call struct {
	w        *world
	of       *token
	kind     node.Kind
	q        *node.Request
	answered bool
	done     bool // taken back, or refused
	given    bool // nobody waits for it any more
}

func (c *call) isReleaseOf(t *token) bool { return c.of == t && c.kind == node.Release }

func (c *call) Receive(_ int, out node.Outcome, _ time.Time) {
	switch {
	case c.answered:
		c.w.wrong("a call is answered twice")
	case c.done:
		c.w.wrong("a call is answered that was refused or taken back")
	case c.kind != node.Release && out.Stance == node.Yes && !c.of.held:
		c.w.wrong("a call is told yes, and the server has not said so")
	case c.kind == node.Release && out.Stance == node.Yes && !c.of.removed && !c.of.unsure:
		c.w.wrong("a release says that it has removed the key, and none has")
	case c.kind == node.Release && (out.Stance == node.No || out.Stance == node.Gone) && c.w.before && !c.of.doubled:
		c.w.wrong("a release says that the lock was lost, and one has removed it")
	}
	c.answered = true
	c.of.heard = c.of.heard || c.kind != node.Release && out.Stance == node.Yes
	c.of.missing = c.kind == node.Ask && out.Stance == node.Gone
}

// A message is a request on its way to the server.
type message struct {
	script *node.Script // nil: a PING
	tokens []any
	eval   bool
}

func (m message) String() string {
	if m.script == nil {
		return "PING"
	}
	return fmt.Sprint(m.script.Name, " of ", m.tokens)
}

// A reply is on its way back.
type reply struct {
	to     message
	value  any
	err    error
	before bool // a release of the token had removed the key before it was carried out
}

// A world is a node's rules, what is on its way, and the server. What is not exported of the rules is in its hash, too.
type world struct {
	limits

	n       *node.Node
	c, next *node.Conn // the connection; nil: there is none. The one that is to follow
	now     time.Duration
	due     time.Duration // when the node has asked to be called; 0: not
	wire    []message     // of the connection, in order
	replies []reply
	late    []message // of connections that have ended, or given up by a proxy

	server   Server        // -1 is the other client's token
	held     time.Duration // until when releases may leave the key for a min hold
	knows    bool          // the scripts
	timeless bool          // keys do not expire, as the end is looked at

	attempts     []*token
	calls        []*call
	done         limits
	joined, lost bool   // as the facts say
	unknown      int64  // requests whose outcome is
	vanished     int    // times that keys have, as the facts say
	settled      [2]int // requests of unknown outcome, and releases, as the facts say
	locked       bool   // the other client has
	over         bool   // closed
	ended        bool   // Close was
	before       bool   // of the answer that was heard last
	broken       string
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld(l limits) *world {
	w := &world{limits: l, knows: true}
	w.n = node.New(node.Config{
		Timeout: timeout, Silence: time.Second, Epoch: epoch, UnusedKey: "none",
		MaxUnanswered: func() int64 { return int64(cmp.Or(l.unanswered, 100)) }, IsEnough: func() bool { return false },
		Code: func(err error) string { word, _, _ := strings.Cut(fmt.Sprint(err), " "); return word },
	})
	for i := range l.tokens {
		t := &token{id: i + 1, leaves: l.leaves}
		if l.foreign && i == l.tokens-1 {
			t.foreign = true
			t.BeginForeign(t, 1, 100)
			w.late = append(w.late, message{script: lock, tokens: []any{t.id}})
		} else {
			t.Begin(t, 1)
		}
		w.attempts = append(w.attempts, t)
	}
	return w
}

func (w *world) wrong(why string) {
	if w.broken == "" {
		w.broken = why
	}
}

func (w *world) at() time.Time { return epoch.Add(w.now) }

// after does what the driver does after each step.
func (w *world) after() {
	for _, f := range w.n.Facts() {
		switch f.What {
		case node.Joined:
			w.is(&w.joined, true, "connected twice")
		case node.Left:
			w.is(&w.joined, false, "left twice")
		case node.Lost:
			w.is(&w.lost, true, "lost twice")
		case node.Well:
			w.lost = false
		case node.Settled:
			w.settled[0] += f.Unknown
			w.settled[1] += f.Released
		case node.Vanished:
			if w.vanished++; w.vanished > w.done.flushes*len(w.attempts) && w.done.hours+w.done.doubles == 0 {
				w.wrong("keys are told to have vanished that were not lost, or that were told of before")
			}
		default:
		}
	}
	if at, set := w.n.Due(); set {
		w.due = max(at.Sub(epoch), w.now+1)
	}
	_, _ = w.n.Alarm()
	w.look()
}

// look holds what the node knows repeatst what was.
func (w *world) look() {
	s := w.n.Status(w.at())
	switch {
	case s.Unknown != w.unknown:
		w.wrong(fmt.Sprintf("%d requests are of unknown outcome, and it says %d", w.unknown, s.Unknown))
	case s.Owed < 0 || s.Repeats < 0 || s.Owed+s.Repeats > len(w.attempts):
		w.wrong(fmt.Sprintf("%d releases are owed and %d repeated, of %d tokens", s.Owed, s.Repeats, len(w.attempts)))
	case s.Up && w.lost:
		w.wrong("it is connected, and nobody was told")
	case s.Up != w.joined:
		w.wrong("it is connected, and it was told otherwise")
	}
	for _, t := range w.attempts {
		switch {
		case t.Has(0, node.MarkHeld) && !t.held:
			w.wrong("it says that the node had a key, and it never did")
		case t.heard && !t.Has(0, node.MarkHeld):
			w.wrong("it does not say that the node had the key")
		case t.Has(0, node.MarkConfirmed) && !t.removed && !t.unsure:
			w.wrong("it says that a release has removed the key, and none has")
		}
	}
}

func (w *world) is(is *bool, now bool, why string) {
	if *is == now {
		w.wrong(why)
	}
	*is = now
}

// ask hands a request to the node.
func (w *world) ask(t *token, kind node.Kind, s *node.Script) {
	task := &node.Task{Kind: kind, Command: t.command(s), Trace: &t.Trace, Limit: w.n.Timeout, Within: within, Lives: ttl}
	c := &call{w: w, of: t, kind: kind, q: &node.Request{Task: task}}
	task.Receiver = c
	w.calls = append(w.calls, c)
	c.done = w.n.Enqueue(c.q, w.at()) != nil
	w.after()
}

// write is the writer.
func (w *world) write() {
	batch, dropped := w.n.Next(w.c, nil, w.at())
	for _, s := range batch {
		m := message{s.Command.Script, s.Command.Args, s.Eval}
		w.wire = append(w.wire, m)
		w.check(m)
	}
	w.after()
	for _, q := range dropped {
		q.Deliver(node.Outcome{Err: node.ErrWithdrawn}, w.at())
	}
}

// check looks at what is sent.
func (w *world) check(m message) {
	for _, id := range m.tokens {
		t := w.attempts[id.(int)-1]
		t.refused = t.refused && m.script != repair
		if m.script == repair && w.now > t.repairs+within {
			w.wrong("a repair is sent when the lock may have lapsed")
		}
		switch m.script {
		case release, leave, node.Look:
			t.must = t.must && m.script == node.Look
			if !t.released {
				w.wrong("a release is sent of a token that nobody has given up")
			}
		default:
			if t.released {
				w.wrong("a request is sent behind the release of its token")
			}
		}
	}
}

// carry is the server.
func (w *world) carry(m message) reply {
	if !w.timeless {
		w.server.Expire(w.now)
	}
	if m.script == nil || m.script == node.Probe {
		return reply{to: m, value: int64(1)}
	}
	if m.script == node.Look {
		held := []any{}
		for i, id := range m.tokens {
			if w.server.Token == id {
				held = append(held, int64(i+1))
			}
		}
		return reply{to: m, value: held}
	}
	if !m.eval && !w.knows {
		return reply{to: m, err: errors.New("NOSCRIPT No matching script")}
	}
	w.knows = true
	t := w.attempts[m.tokens[0].(int)-1]
	had, before := w.server, t.removed
	stance := node.Silent
	switch m.script {
	case lock:
		stance = w.server.Lock(t.id, w.now+ttl)
	case extend:
		stance = w.server.Extend(t.id, w.now+ttl)
	case repair:
		stance = w.server.Repair(t.id, w.now+ttl)
	case release:
		stance = w.server.Release(t.id)
	case leave:
		if w.held == 0 {
			w.held = w.now + minHold
		}
		stance = w.server.Leave(t.id, w.held)
	}
	ends := m.script == release || m.script == leave
	t.held = t.held || !ends && stance == node.Yes
	t.refused = t.refused && !t.held
	t.removed = t.removed || ends && stance == node.Yes
	t.undone = t.undone || t.released && !ends && stance == node.Yes && w.server != had
	said := map[node.Stance]string{node.Yes: "yes", node.No: "no", node.Gone: "gone"}[stance]
	return reply{to: m, value: said, before: before}
}

// hear is the reader.
func (w *world) hear(r reply) {
	w.before = r.before
	ends := r.to.script == release || r.to.script == leave
	q, out, turn := w.n.Answer(w.c, r.value, r.err, w.at())
	if q != nil && q.Command.Script != r.to.script {
		w.wrong("an answer is taken for another request's")
	}
	w.after()
	if ends {
		w.answered(w.of(r.to), r.err != nil || r.value == "QUEUED")
	}
	switch turn {
	case node.Told:
		q.Deliver(out, w.at())
	case node.Unasked:
		w.wrong("an answer is taken for one that nobody has asked for")
	case node.Drained:
		w.end(nil)
	case node.TakenOver:
		if len(w.wire) > 0 {
			w.wrong("requests are left on the old connection")
		}
		if slices.ContainsFunc(w.attempts, func(t *token) bool { return t.must }) {
			w.wrong("what the old server has refused was not sent to it once more")
		}
		w.n.Follow(w.next, w.at())
		w.c, w.next = w.next, nil
	case node.Goes:
	}
}

// isReleasing reports whether a release of the token is in flight.
func (w *world) isReleasing(t *token) bool {
	is := func(m message) bool { return (m.script == release || m.script == leave) && w.of(m) == t }
	return slices.ContainsFunc(w.wire, is) || slices.ContainsFunc(w.replies, func(r reply) bool { return is(r.to) })
}

// answered looks at when a release is sent again after an answer.
func (w *world) answered(t *token, refused bool) {
	if first := !refused && !t.over; first && len(w.attempts) == 1 && w.n.Status(w.at()).Repeats > 0 && w.due > w.now+firstGap {
		w.wrong("what may come late is not looked for soon after the release")
	}
	t.kept, t.over = refused && t.Has(0, node.MarkSent), t.over || !refused
}

const firstGap = 20 * time.Millisecond

// pull takes the next message from the wire.
func (w *world) pull() message {
	m := w.wire[0]
	w.wire = w.wire[1:]
	return m
}

// serve has the server carry out the next request, and read has its answer be heard.
func (w *world) serve() {
	w.replies = append(w.replies, w.carry(w.pull()))
}

func (w *world) read() {
	r := w.replies[0]
	w.replies = w.replies[1:]
	w.hear(r)
}

// silence has nothing come for a while, and the watchdog look. It looks twice, and late: what has arrived is read first.
func (w *world) silence() {
	var broken error
	for _, d := range []time.Duration{node.MinSilence + node.WatchInterval, node.Arrival + 2*node.MinStandstill} {
		w.now += d
		if broken = w.n.Watch(w.c, w.at()); broken != nil {
			w.end(broken)
			return
		}
		w.after()
	}
	w.wrong("a connection on which nothing is answered goes on")
}

// end is the end of the connection. What was on its way may still arrive.
func (w *world) end(why error) {
	w.n.End(w.c, why)
	for _, m := range w.wire {
		w.lose(m)
	}
	for _, r := range w.replies {
		w.lose(r.to)
	}
	failed, why := w.n.Ended(w.c, false, w.at())
	for _, m := range w.wire {
		w.delay(m)
	}
	w.c, w.next, w.wire, w.replies, w.due = nil, nil, nil, nil, 0
	w.after()
	if why != nil && !w.lost && !w.n.IsClosing() && !errors.As(why, new(node.StandstillError)) {
		w.wrong("the connection has broken, and nobody was told")
	}
	w.fail(failed, why)
	if why == nil || w.n.MayEnd() {
		w.leave()
	}
}

// of is the token that a message is about; of a look, the first.
func (w *world) of(m message) *token { return w.attempts[m.tokens[0].(int)-1] }

// doubt notes that nobody can know what has become of a request.
func (w *world) doubt(m message) {
	if m.script == nil || m.script == node.Look || m.script == node.Probe {
		return
	}
	w.of(m).doubted = true
	w.of(m).unsure = w.of(m).unsure || m.script == release || m.script == leave
}

// lose counts a request whose answer is lost.
func (w *world) lose(m message) {
	w.doubt(m)
	if m.script == lock || m.script == repair || m.script == extend && w.leaves {
		w.unknown++
	}
}

// delay has a message go on without its connection.
func (w *world) delay(m message) {
	if m.script != nil && m.script != node.Look {
		w.late = append(w.late, m)
	}
}

func (w *world) leave() {
	failed, why := w.n.Leave(w.at())
	w.over = true
	w.after()
	w.fail(failed, why)
}

func (w *world) fail(failed []*node.Request, why error) {
	for _, q := range failed {
		q.Deliver(node.Outcome{Err: why}, w.at())
	}
}

func (w *world) connect() {
	if w.n.State() == node.Backoff {
		w.n.Redial()
	}
	w.c = new(node.Conn)
	w.n.Connected(w.c, w.at())
	w.after()
}

// tick has the time be that at which the node has asked to be called.
func (w *world) tick() {
	w.now, w.due = max(w.now, w.due), 0
	w.n.Tick(w.at())
	w.after()
}

// finish has nothing go wrong any more: what is late is lost, and all that the node wants is done. It says what is
// wrong in the end.
func (w *world) finish() string {
	w.late, w.timeless = nil, true
	for range 400 {
		switch {
		case w.broken != "":
			return w.broken
		case w.over, w.n.State() == node.Idle:
			return w.left()
		case w.c == nil:
			w.connect()
		case w.n.Queued(w.c) > 0:
			w.write()
		case len(w.wire) > 0:
			w.serve()
		case len(w.replies) > 0:
			w.read()
		case w.due > 0:
			w.tick()
		default:
			return w.left()
		}
	}
	return "it never ends"
}

// isExcused reports whether the key of a token may be left. What is undone behind the release stays if the node is
// closed. What arrives again, though it has been answered, is reckoned with only if the node has said yes.
func (w *world) isExcused(t *token) bool {
	return t.undone && (w.over || t.doubled) || t.doubled && !t.heard
}

// left is what is wrong when nothing is to be done any more.
func (w *world) left() string {
	if s := w.n.Status(w.at()); (s.Owed != 0 || s.Repeats != 0 || s.Backlog != 0) && !w.over {
		return fmt.Sprintf("nothing is done any more, and %d releases are owed, %d repeated, %d requests wait", s.Owed, s.Repeats, s.Backlog)
	}
	for _, t := range w.attempts {
		if w.server.Token == t.id && t.released && w.server.Until > w.held && !w.isExcused(t) {
			return fmt.Sprintf("the key of token %d is left behind", t.id)
		}
	}
	for _, c := range w.calls {
		if !c.answered && !c.done && (!w.over || w.n.State() == node.Closed) {
			return fmt.Sprintf("nobody answers the %s of token %d", c.q.Command.Script.Name, c.of.id)
		}
	}
	if w.ended && !w.over {
		return "the node is never closed"
	}
	if s := w.n.Status(w.at()); !w.over && (int64(w.settled[0]) != s.Unknown || int64(w.settled[1]) != s.Released) {
		return fmt.Sprintf("told of %d unknown outcomes and %d releases, of %d and %d", w.settled[0], w.settled[1], s.Unknown, s.Released)
	}
	return ""
}
