// Package world has the rules of one node (internal/node) run beside a network and a server that the tests play. A
// search tries what may happen, in any order, and holds each state against what must never be.
package world

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/test/server"
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
	looks, asides, sleeps, anews            int  // of the watchdog, in time; requests that cost nobody anything; hours in which the machine sleeps; other servers that others find
	quarantine                              int  // times that the server grants nothing for a while
	direct, old, long                       bool // lock requests go without the script; the server does not know that; the other client's value is too long for it
	askedAgain, stops                       int  // lock requests that are made again; times that the process stops for a while, and the watchdog with it
	deletes                                 bool // releases go without the script
	waiters                                 int  // that get in line while somebody holds the resource
	ageless                                 bool // connections are not made anew because of their age
	patient, enough                         bool // token 1 has a short node timeout, and token 2 a long one; a quorum votes without this node
}

// A token is an attempt's.
type token struct {
	node.Trace

	id                     int
	leaves, deletes        bool
	locked                 bool          // its lock request was handed to the node
	held                   bool          // the server has said yes
	heard                  bool          // the call has heard of it
	doubled                bool          // a request of it arrives again
	missing                bool          // an extension has found nothing, and a repair may follow
	released               bool          // its release was
	foreign                bool          // another process has done that, whose token it is
	removed                bool          // a release of it has removed the key
	unsure                 bool          // the answer to one was lost
	refused                bool          // its lock request was, and nothing else has come of it
	doubted                bool          // nobody can know what has become of a request of it
	kept                   bool          // its release was refused, and was not carried out since
	must                   bool          // so it is to be sent once more before the next connection follows
	over                   bool          // the answer to a release that was carried out was heard
	lateAtClose            bool          // its key was there like that when the node was closed
	undone                 bool          // its key was set behind a release, by what came late
	vanishes               bool          // the server has lost its key, which was said to be there
	until                  time.Duration // until when it lives at least by what was heard
	flushed                bool          // the server has lost its key
	behind                 uint          // bits: the tokens whose release was asked for before its lock
	again                  int           // lock requests that were made again
	asked, sent, givenBack int           // its releases: that were asked for, that were sent as the first one, and that nobody has asked for
	touched                bool          // what may set its key was written, or nobody can know what has become of what may give that a longer life
	heardNo                bool          // the server has said no to it
	told                   bool          // a release has said that it removed the key

	extended, repaired int
	repairs            time.Duration // when its last repair was asked for
}

const ttl, minHold, shortTimeout = time.Hour, time.Minute, 250 * time.Millisecond

const (
	within   = shortTimeout / 2 // of repairs
	patience = 2 * time.Second
	age      = 20 * time.Second // of connections, and by how much of a quarter of it they are made anew before
	spread   = 0.5
)

func (t *token) Life() time.Duration { return ttl }
func (t *token) LeavesKeys() bool    { return t.leaves }
func (t *token) Keys() []any         { return resource }
func (t *token) Value() any          { return t.id }

func (t *token) Release(now time.Time, again bool) (node.Command, node.Receiver) {
	return t.releasing(now, again), nil
}

// releasing is the command that releases it. What leaves the key for a min hold depends on when it is sent. One that
// was sent before tells those who wait.
func (t *token) releasing(now time.Time, again bool) node.Command {
	c := t.command(t.release())
	c.Timed, c.Args = t.leaves, append(c.Args, now, again)
	if t.deletes && !again {
		c.Script, c.Keys = deletion, withBell
	}
	return c
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

var resource, withBell = []any{"a"}, []any{"a", "bell"}

// script returns one of which the server knows what it does.
func script(name string, stances map[string]node.Stance) *node.Script {
	return node.NewScript(name, name, func(reply any) node.Outcome {
		said, _ := reply.(string)
		if said == "abstains" {
			return node.Outcome{Abstained: true, Err: errors.New(said)}
		}
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
	lock    = grants(script("lock", says))
	set     = direct(grants(script("direct lock", says)))
	extend  = script("extension", says)
	repair  = grants(script("repair", says))
	aside   = script("question", says)
	release = script("release", says)
	leave   = script("release with a min hold", says)

	deletion = &node.Script{Name: "direct release", Decode: release.Decode, Deletes: true}
)

func grants(s *node.Script) *node.Script {
	s.Grants = true
	return s
}

// direct has a script be sent as SET and PTTL.
func direct(s *node.Script) *node.Script {
	s.Direct = func(token, value any, _ int64) node.Outcome {
		if long, is := value.([]byte); is {
			value = -len(long)
		}
		id, is := value.(int)
		switch {
		case value == nil, is && id == token:
			return node.Outcome{Stance: node.Yes}
		case is:
			return node.Outcome{Stance: node.No, Err: errors.New("no")}
		}
		return node.Unexpected("direct lock", value)
	}
	return s
}

// tooLong is a value that is too long for a server to be asked for it again.
var tooLong = make([]byte, 1<<20+1)

// A dialect counts the answers that it has heard.
type dialect struct {
	heard    int
	abstains bool
}

func (d *dialect) Script(s *node.Script, _, _ bool) *node.Script { return s }
func (d *dialect) Key() any                                      { return nil }
func (d *dialect) Args() []any                                   { return nil }

func (d *dialect) Heard(out node.Outcome, _ time.Time) {
	d.heard++
	d.abstains = out.Abstained
}

func (d *dialect) Abstains(time.Time) error {
	if d.abstains {
		return errors.New("abstains")
	}
	return nil
}

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
	script  *node.Script // nil: a PING
	tokens  []any
	eval    bool
	part    int           // 1: the SET or DELIFEQ of a direct request, 2: its PTTL
	refused bool          // the server has refused the first part
	again   bool          // a release that is sent again
	at      time.Duration // when it was written
}

// locks reports whether it is a lock request, or the part of one that sets.
func (m message) locks() bool { return m.script == lock || m.script == set && m.part < 2 }

// ends reports whether it is a release.
func (m message) ends() bool {
	return m.script == release || m.script == leave || m.script == deletion
}

// isOfToken reports whether it is about a single token.
func (m message) isOfToken() bool {
	return m.script != nil && m.script != node.Look && m.script != aside
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

	server   server.Server // -1 is the other client's token
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

	dialect     *dialect
	abstains    bool          // the server grants nothing
	first       reply         // to the SET or DELIFEQ of a direct request whose PTTL is not answered yet
	keepsKeys   bool          // on this connection: its server has refused DELIFEQ, or PTTL of the bell
	bell        bool          // somebody is in line
	noDirect    bool          // on this connection: its server does not know direct requests
	neverDirect bool          // a value was too long
	slept       time.Duration // for how long the machine has: the server's clock went on
	alarm       time.Duration // when the watchdog is due; 0: not
	oldAt       time.Duration // when the connection is to be made anew; 0: never
	lastReply   time.Duration
	lead        time.Duration // for how long the machine had slept when that was planned
	planned     time.Duration // when the watchdog was to look, if nothing calls it earlier
	forgot      bool          // the server has forgotten scripts since the handshake
	served      bool          // a reply that is no error was heard on this connection
	replied     bool          // any, to what is not aside, since the node is connected
	wanted      bool          // it was told that somebody needs the node
	stalled     bool          // it was told that there is no connection for a while
	longest     time.Duration // that a reply has taken
	calm        bool          // the node was closed while it was connected, and nothing has gone wrong since
	looked      bool          // a look was lost with the last connection
	carried     int64         // releases of which it was heard that they were carried out
	putOff      bool          // the watchdog was late on this connection, and has put its look off
	turnedAway  bool          // somebody was, since the last reply, as the node was silent
	failed      bool          // not connected since an attempt has failed, or since silence
	askedAnew   time.Duration // when others have last found another server, and that was heard; 0: never
	mail        mail          // for what was asked aside
}

// A mail counts answers that are due.
type mail int

func (m *mail) Receive(int, node.Outcome, time.Time) { *m-- }

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld(l limits) *world {
	w := &world{limits: l, knows: true, now: 1} // At 0 is what never was.
	if l.quarantine > 0 {
		w.dialect = new(dialect)
	}
	c := node.Config{
		Timeout: w.timeout(), Silence: time.Second, Epoch: epoch.Add(-time.Hour), UnusedKey: "none",
		MaxUnanswered: func() int64 { return w.most() }, IsEnough: func() bool { return l.enough },
		Clock: func(now time.Time) (time.Time, time.Duration) { return now, w.slept },
		Code:  func(err error) string { word, _, _ := strings.Cut(fmt.Sprint(err), " "); return word },
	}
	if l.anews > 0 && !l.ageless {
		c.Age = age
	}
	w.n = node.New(c)
	for i := range l.tokens {
		t := &token{id: i + 1, leaves: l.leaves, deletes: l.deletes}
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

// clock is the server's.
func (w *world) clock() time.Duration { return w.now + w.slept }

// most is how many locks may be unanswered.
func (w *world) most() int64 { return int64(cmp.Or(w.unanswered, 100)) }

// lock is the script of lock requests.
func (w *world) lock() *node.Script {
	if w.direct {
		return set
	}
	return lock
}

// conn returns a new connection.
func (w *world) conn() *node.Conn {
	c := &node.Conn{Spread: spread}
	if w.deletes {
		c.Deletes = "DELIFEQ"
	}
	if w.dialect != nil {
		c.Dialect = w.dialect
	}
	return c
}

// after does what the driver does after each step.
func (w *world) after() {
	for _, f := range w.n.Facts() {
		switch f.What {
		case node.Wanted:
			w.is(&w.wanted, true, "wanted twice")
		case node.Stalled:
			w.stalled = true
		case node.Joined:
			w.is(&w.joined, true, "connected twice")
		case node.Left:
			w.is(&w.joined, false, "left twice")
		case node.Lost:
			if f.Why == nil {
				w.wrong("a node is lost for no reason")
			}
			w.is(&w.lost, true, "lost twice")
		case node.Well:
			w.lost = false
		case node.Settled:
			w.settled[0] += f.Unknown
			w.settled[1] += f.Released
		case node.Vanished:
			w.vanished++
		default:
		}
	}
	if at, set := w.n.Due(); set {
		w.due = max(at.Sub(epoch), w.now+1)
	}
	if d, set := w.n.Alarm(); set && w.looks > 0 {
		if w.alarm = w.now + d; d > 0 { // If not, it is due as it was.
			w.planned, w.lead = w.alarm, w.slept
		}
	}
	w.look()
}

// look holds what the node knows repeatst what was.
func (w *world) look() {
	s := w.n.Stats(w.at())
	switch {
	case s.Cleaned > w.carried:
		w.wrong(fmt.Sprintf("%d releases that were owed are said to have been carried out, and %d were", s.Cleaned, w.carried))
	case s.Unknown != w.unknown:
		w.wrong(fmt.Sprintf("%d requests are of unknown outcome, and it says %d", w.unknown, s.Unknown))
	case s.PendingReleases < 0 || s.Repeats < 0 || s.PendingReleases+s.Repeats > len(w.attempts):
		w.wrong(fmt.Sprintf("%d releases are owed and %d repeated, of %d tokens", s.PendingReleases, s.Repeats, len(w.attempts)))
	case s.Up && w.lost:
		w.wrong("it is connected, and nobody was told")
	case s.RTT > w.longest, w.n.Takes() > max(w.longest, 1):
		w.wrong(fmt.Sprintf("replies take %v, or %v of late, and none has taken longer than %v", s.RTT, w.n.Takes(), w.longest))
	case (w.n.Takes() > 0) != (w.c != nil && w.replied):
		w.wrong("how long replies take is said without one, or not with one")
	case s.Up && w.n.Unreached() != nil, !s.Up && w.n.Unreached() == nil:
		w.wrong("it is said that it is not reached, or that it is")
	case w.isReachWrong():
		w.wrong("it is said that it is being connected to without a failure, or it is not")
	case s.Up != w.joined:
		w.wrong("it is connected, and it was told otherwise")
	}
	for _, t := range w.attempts {
		switch {
		case t.Has(0, node.MarkHeld) && !t.held:
			w.wrong("it says that the node had a key, and it never did")
		case t.heard && !t.Has(0, node.MarkHeld):
			w.wrong("it does not say that the node had the key")
		case t.told && !t.Has(0, node.MarkConfirmed):
			w.wrong("it does not say that a release has removed the key")
		case t.Has(0, node.MarkConfirmed) && !t.removed && !t.unsure:
			w.wrong("it says that a release has removed the key, and none has")
		}
	}
}

// isReachWrong asks how the node is reached, which would have an idle one be connected to.
func (w *world) isReachWrong() bool {
	if w.n.State() == node.Idle {
		return false
	}
	up, connecting := w.n.Reach()
	return up != (w.n.State() == node.Up) || connecting != (w.n.State() == node.Connecting && !w.failed)
}

func (w *world) is(is *bool, now bool, why string) {
	if *is == now {
		w.wrong(why)
	}
	*is = now
}

// ask hands a request to the node.
func (w *world) ask(t *token, kind node.Kind, s *node.Script) {
	limit := w.limit(t, kind)
	command := t.command(s)
	if kind == node.Release {
		command = t.releasing(w.at(), t.deletes && t.asked > 0)
		t.asked++
	}
	task := &node.Task{Kind: kind, Command: command, Trace: &t.Trace, Limit: limit, Within: within, Lives: lives(kind)}
	c := &call{w: w, of: t, kind: kind, q: &node.Request{Task: task}}
	task.Receiver = c
	may := w.takes(kind, limit)
	w.calls = append(w.calls, c)
	err := w.n.Enqueue(c.q, w.at())
	c.done = err != nil
	if err != nil && w.isOnTime() {
		w.checkRefusal(err, kind, limit)
	}
	if w.isReleaseWrong(t, kind, err) {
		w.wrong(fmt.Sprintf("a release is taken, or not: %v", err))
	}
	if kind != node.Release && c.done == may && w.isOnTime() {
		w.wrong(fmt.Sprintf("that a %s is taken is %t", s.Name, !c.done))
	}
	if c.done && w.isSilent(limit) {
		w.turnedAway = true
	}
	w.after()
}

// lives is for how long the keys live at least by what a yes says.
func lives(kind node.Kind) time.Duration {
	if kind == node.Ask {
		return ttl / 2
	}
	return ttl
}

// isReleaseWrong reports whether a release should have been taken, or should not, where that is plain.
func (w *world) isReleaseWrong(t *token, kind node.Kind, err error) bool {
	nothing, state := !t.touched && !t.foreign, w.n.State()
	switch {
	case kind != node.Release || w.ended || w.direct || w.deletes:
		return false
	case state == node.Backoff || state == node.Connecting && nothing:
		return err == nil
	}
	return err != nil && !nothing && !t.refused && !t.over && !t.heardNo
}

// checkRefusal looks at why a request was not taken.
func (w *world) checkRefusal(err error, kind node.Kind, limit time.Duration) {
	silent := w.isSilent(limit) && w.n.State() == node.Up
	switch {
	case errors.Is(err, node.ErrClosed) != (w.ended && (kind != node.Release || w.n.State() == node.Closed)):
		w.wrong(fmt.Sprintf("that it is closed is said or not: %v", err))
	case errors.Is(err, node.ErrSilent) && !silent:
		w.wrong("it is said to be silent")
	case errors.Is(err, node.ErrBehind) && w.now-w.lastReply >= time.Second, errors.Is(err, node.ErrSilent) && !errors.Is(err, node.ErrBehind) && w.now-w.lastReply < time.Second:
		w.wrong("a node that answers all the time is said to be silent, or the other way round")
	}
}

// timeout is the Redlock's node timeout.
func (w *world) timeout() time.Duration {
	if w.patient {
		return 3 * shortTimeout
	}
	return shortTimeout
}

// limit is the node timeout of a request.
func (w *world) limit(t *token, kind node.Kind) time.Duration {
	switch {
	case !w.patient || kind == node.Release:
	case t.id == 1:
		return w.timeout() / 8
	case t.id == 2:
		return patience
	}
	return w.timeout()
}

// isOnTime reports whether the watchdog has looked whenever it was due.
func (w *world) isOnTime() bool {
	return w.looks > 0 && w.sleeps == 0 || w.pauses+w.silences+w.wakes+w.minutes+w.hours+w.sleeps == 0
}

// takes reports whether the node is to take a request that is no release.
func (w *world) takes(kind node.Kind, limit time.Duration) bool {
	locks := int64(0)
	for _, c := range w.calls {
		if c.kind == node.LockRequest && !c.answered && !c.done {
			locks++
		}
	}
	switch state := w.n.State(); {
	case w.ended, state == node.Backoff, w.isSilent(limit):
		return false
	case kind == node.RepairRequest:
		return state == node.Up
	case kind == node.LockRequest:
		return locks < w.most() && (state != node.Connecting || !w.failed || !w.enough)
	}
	return true
}

// oldest is the request that has waited longest for its answer.
func (w *world) oldest() (m message, is bool) {
	switch {
	case w.c == nil:
		return m, false
	case w.first.to.part > 0:
		return w.first.to, true
	case len(w.replies) > 0:
		return w.replies[0].to, true
	case len(w.wire) > 0:
		return w.wire[0], true
	}
	return m, false
}

// isSilent reports whether it has waited for longer than somebody would wait.
func (w *world) isSilent(limit time.Duration) bool {
	m, is := w.oldest()
	return is && w.now-m.at > max(limit, w.timeout()) && w.now-w.planned <= max(w.timeout(), node.MinStandstill)
}

// overdue is by how much the watchdog is late: what has come may not have been read.
func (w *world) overdue() time.Duration {
	if w.looks == 0 || w.c == nil {
		return 0
	}
	return max(w.now-w.planned, w.slept-w.lead)
}

// wake says that the process may have stood still. A connection that may have died is not up any more at once.
func (w *world) wake() bool {
	wakes := w.n.Wake(w.at())
	if up, connecting := w.n.Reach(); wakes && (up || !connecting) {
		w.wrong("a connection that may have died while the process stood still is up")
	}
	return wakes
}

// watch has the watchdog look when it is due.
func (w *world) watch() {
	w.now, w.alarm = max(w.now, w.alarm), 0
	late := w.overdue()
	_, busy := w.oldest()
	wakes := w.wake()
	if wakes != (late > max(w.timeout(), node.MinStandstill) && !busy && !w.ended) {
		w.wrong(fmt.Sprintf("that a connection is made anew after a standstill of %v is %t", late, wakes))
	}
	if wakes {
		w.after()
		w.end(nil)
		return
	}
	if w.putOff = late >= node.MinStandstill && !w.putOff; w.putOff {
		if w.n.Watch(w.c, w.at()) != nil || w.n.IsOld(w.c, w.at()) {
			w.wrong("what has arrived is not read before a connection is broken")
		}
		w.after()
		if w.alarm > w.now+node.Arrival {
			w.wrong("the watchdog does not come back when what has arrived was read")
		}
		return
	}
	limit := w.timeout()
	m, busy := w.oldest()
	if busy && m.isOfToken() && !m.ends() && !w.turnedAway {
		limit = max(w.limit(w.of(m), node.Ask), limit)
	}
	isBroken := busy && w.now-m.at >= max(2*limit, time.Second)
	broken := w.n.Watch(w.c, w.at())
	if isBroken != (broken != nil) {
		w.wrong(fmt.Sprintf("that a connection is broken after %v without an answer is %t", w.now-m.at, !isBroken))
	}
	if broken != nil {
		w.failed = true
		w.end(broken)
		return
	}
	old := !w.ended && w.oldAt > 0 && w.now >= w.oldAt
	switch is := w.n.IsOld(w.c, w.at()); {
	case is != old:
		w.wrong(fmt.Sprintf("that a connection is to be made anew is %t", is))
	case is:
		w.n.Renews(w.at())
		w.oldAt = w.now + 30*time.Second // Unless another connection serves by then.
	}
	w.after()
	sleeps := w.alarm - w.now
	switch {
	case w.alarm == 0, w.n.Stats(w.at()).Backlog > 0 && sleeps > node.WatchInterval:
		w.wrong("the watchdog does not look in time")
	case w.alarm > max(w.lastReply+node.IdlePing, w.now+node.WatchInterval):
		w.wrong("the watchdog sleeps when the next PING is due")
	case w.now-w.lastReply >= node.IdlePing && w.n.Stats(w.at()).Backlog == 0:
		w.wrong("an idle connection is not sent a PING")
	}
}

// write is the writer.
func (w *world) write() {
	batch, dropped := w.n.Next(w.c, nil, w.at())
	for _, s := range batch {
		m := message{script: s.Command.Script, tokens: s.Command.Args, eval: s.Eval}
		if s.Forgot != w.forgot {
			w.wrong("the writer is told that the server has forgotten scripts, or is not")
		}
		if m.ends() {
			w.checkRelease(m)
			m.again = m.tokens[2] == true
			m.tokens = m.tokens[:1]
		}
		m.at = w.now
		if s.Direct {
			m.part = 1
			w.wire = append(w.wire, m)
			m.part = 2
		}
		w.wire = append(w.wire, m)
		w.check(m)
	}
	w.after()
	if w.looks > 0 && len(batch) > 0 && w.alarm > w.now+node.WatchInterval {
		w.wrong("the watchdog sleeps though something was written")
	}
	for _, q := range dropped {
		if t := w.attempts[q.Command.Args[0].(int)-1]; !t.released && w.now <= t.repairs+within {
			w.wrong("a repair is not sent though there is time for it")
		}
		q.Deliver(node.Outcome{Err: node.ErrWithdrawn}, w.at())
	}
}

// checkRelease looks at a release that is sent.
func (w *world) checkRelease(m message) {
	t := w.of(m)
	if m.script == leave && !m.tokens[1].(time.Time).Equal(w.at()) {
		w.wrong("a release says how long it leaves the key by another time than that of its sending")
	}
	if m.eval || m.tokens[2] == true { // The server did not know its hash; or it says so.
		return
	}
	if t.sent++; t.sent > t.asked+t.givenBack {
		w.wrong("a release that is sent again does not say so")
	}
}

// check looks at what is sent.
func (w *world) check(m message) {
	if m.script == deletion && !m.eval && w.keepsKeys != (m.part == 0) {
		w.wrong("a release goes without the script where the server refuses that, or with it where it does not")
	}
	if m.script != deletion && m.part > 0 && (w.noDirect || w.neverDirect || w.dialect != nil) {
		w.wrong("a lock is asked for without the script where that is not possible")
	}
	if m.script == aside {
		return
	}
	for _, id := range m.tokens {
		t := w.attempts[id.(int)-1]
		t.touched = t.touched || m.script == lock || m.script == set || m.script == repair
		t.refused = t.refused && m.script != repair
		if m.script == repair && w.now > t.repairs+within {
			w.wrong("a repair is sent when the lock may have lapsed")
		}
		switch m.script {
		case release, leave, deletion, node.Look:
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
		w.server.Expire(w.clock())
	}
	switch {
	case m.script == deletion && m.part == 2:
		left := int64(-2)
		if w.bell {
			left = 1000
		}
		return reply{to: m, value: left}
	case m.script == nil, m.part == 2:
		return reply{to: m, value: int64(1)}
	case m.script == aside:
		return reply{to: m, value: "yes"}
	case m.part == 1 && w.old:
		return reply{to: m, err: errors.New("ERR syntax error")}
	}
	if m.script == node.Look {
		held := []any{}
		for i, id := range m.tokens {
			if w.server[0].Token == id {
				held = append(held, int64(i+1))
			}
		}
		return reply{to: m, value: held}
	}
	if !m.eval && !w.knows && m.part == 0 {
		return reply{to: m, err: errors.New("NOSCRIPT No matching script")}
	}
	w.knows = w.knows || m.part == 0
	t := w.attempts[m.tokens[0].(int)-1]
	had, before := w.server, t.removed
	if w.abstains && m.script.Grants {
		return reply{to: m, value: "abstains"}
	}
	stance := node.Silent
	switch m.script {
	case lock, set:
		stance, _ = w.server.Lock(t.id, 1, w.clock()+ttl)
	case extend:
		stance = w.server.Extend(t.id, 1, w.clock()+ttl, 0)
	case repair:
		stance = w.server.Repair(t.id, 1, w.clock()+ttl, 0)
	case release, deletion:
		stance = w.server.Release(t.id, 1)
		w.tell(m.part == 0 && (stance == node.Yes || m.again && w.server[0].Token == 0))
	case leave:
		if w.held == 0 {
			w.held = w.clock() + minHold
		}
		stance = w.server.Leave(t.id, 1, w.held)
	}
	ends := m.ends()
	t.held = t.held || !ends && stance == node.Yes
	t.refused = t.refused && !t.held
	t.removed = t.removed || ends && stance == node.Yes
	t.undone = t.undone || t.released && !ends && stance == node.Yes && w.server != had
	var said any = map[node.Stance]string{node.Yes: "yes", node.No: "no", node.Gone: "gone"}[stance]
	if m.script == deletion && m.part == 1 {
		said = map[node.Stance]int64{node.Yes: 1, node.Gone: 0}[stance]
	} else if m.part == 1 {
		if said = nil; had[0].Token != 0 {
			said = had[0].Token
		}
	}
	return reply{to: m, value: said, before: before}
}

// tell has the server tell who is in line that the resource is free, if it rings.
func (w *world) tell(rings bool) { w.bell = w.bell && !rings }

// saysAll reports whether no script follows a reply to a release.
func (w *world) saysAll(r reply) bool {
	return r.to.part == 0 || r.to.part == 2 && r.value == int64(-2) && w.first.value == int64(1)
}

// hear is the reader.
func (w *world) hear(r reply) {
	w.before = r.before
	ends, vanished := r.to.ends() && w.saysAll(r), w.vanished
	value := r.value
	if w.long && value == -1 {
		value = tooLong
	}
	if ends && r.err == nil && r.value != "QUEUED" {
		w.carried++
	}
	if w.longest = max(w.longest, w.now-r.to.at); r.to.part != 1 {
		w.served = w.served || r.to.part == 0 && r.err == nil || r.to.part == 2 && w.first.err == nil && (r.to.script != deletion || r.err == nil)
		w.replied = w.replied || r.to.script != aside
	}
	q, out, effect := w.n.Answer(w.c, value, r.err, w.at())
	w.forgot = w.forgot || effect == node.Goes && r.err != nil && strings.HasPrefix(r.err.Error(), "NOSCRIPT")
	if q != nil && q.Command.Script != r.to.script && (q.Command.Script != deletion || r.to.script != release) {
		w.wrong("an answer is taken for another request's")
	}
	removed := ends && r.to.part == 2
	w.halves(r)
	w.after()
	w.heardOf(r, vanished)
	if removed {
		w.of(r.to).told = true
	}
	if ends {
		w.answered(w.of(r.to), r.err != nil || r.value == "QUEUED")
	}
	switch effect {
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
		w.begin()
		w.after()
	case node.Goes:
	}
}

// halves notes the replies to a direct request: the first is all that is known until the second has come.
func (w *world) halves(r reply) {
	first := w.first
	switch w.first = (reply{}); r.to.part {
	case 1:
		w.first = r
	case 2:
		if r.to.script == deletion {
			w.keepsKeys = w.keepsKeys || first.err != nil || r.err != nil
			return
		}
		w.noDirect = w.noDirect || first.err != nil && strings.Contains(first.err.Error(), "syntax error")
		w.neverDirect = w.neverDirect || w.long && first.value == -1
	}
}

// heardOf holds what follows from an answer against what was.
func (w *world) heardOf(r reply, vanished int) {
	if r.to.script != aside && r.to.part != 1 {
		w.lastReply, w.turnedAway = w.now, false
	}
	if failed := r.err; w.c != nil && r.to.script != aside && r.to.part == 0 && (w.c.Said() != nil) != (failed != nil) {
		w.wrong("what the server has said last is not known")
	}
	if w.dialect != nil {
		if heard := r.to.script != nil && r.to.script.Grants && r.err == nil; heard != (w.dialect.heard > 0) {
			w.wrong("the dialect does not hear what the server grants")
		}
		w.dialect.heard = 0
		if (w.n.Abstains(w.at()) != nil) != (w.dialect.abstains && w.n.Speaks() != nil) {
			w.wrong("it is not said that the server grants nothing")
		}
	}
	if !r.to.isOfToken() {
		return
	}
	t := w.of(r.to)
	t.heardNo = t.heardNo || r.err != nil || r.to.refused || r.value == "abstains"
	t.told = t.told || r.to.ends() && r.value == "yes"
	if w.vanished > vanished && !t.flushed && !t.doubled {
		w.wrong("keys are told to have vanished that were not lost, or that were told of before")
	}
	t.flushed = t.flushed && w.vanished == vanished
	if r.to.refused || r.value == "abstains" && r.to.script == lock {
		t.refused = !t.held && !t.doubled
	}
	switch r.value {
	case "yes":
		t.vanishes = t.vanishes && r.to.ends()
		if r.to.script == lock || r.to.script == repair {
			t.until = max(t.until, r.to.at+ttl)
		}
	case "no", "gone":
		t.heardNo = true
		if t.vanishes && w.now < t.until && r.to.script != repair && w.vanished == vanished && w.n.State() == node.Up {
			w.wrong("a key that has vanished is not told of")
		}
		t.vanishes = t.vanishes && r.to.script == repair
	}
}

// begin notes that a connection begins.
func (w *world) begin() {
	w.noDirect, w.failed, w.first, w.forgot, w.served, w.keepsKeys = false, false, reply{}, false, false, false
	w.turnedAway, w.putOff = false, false
	w.lastReply = w.now
	if w.oldAt = 0; w.anews > 0 && !w.ageless {
		w.oldAt = w.now + age - time.Duration(spread*float64(age/4))
	}
}

// isReleasing reports whether a release of the token is in flight.
func (w *world) isReleasing(t *token) bool {
	is := func(m message) bool { return m.ends() && w.of(m) == t }
	return slices.ContainsFunc(w.wire, is) || slices.ContainsFunc(w.replies, func(r reply) bool { return is(r.to) })
}

// answered looks at when a release is sent again after an answer.
func (w *world) answered(t *token, refused bool) {
	if first := !refused && !t.over; first && len(w.attempts) == 1 && w.n.Stats(w.at()).Repeats > 0 && w.due > w.now+firstGap {
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
	m := w.pull()
	if other := w.server[0].Token; other > 0 && m.isOfToken() && m.locks() && w.of(m).behind&(1<<other) != 0 && w.inOrder() && !w.attempts[other-1].undone {
		w.wrong("a lock is refused because of one whose release was asked for before")
	}
	w.replies = append(w.replies, w.carry(m))
}

// inOrder reports whether nothing may happen by which a release comes after what was asked for later.
func (w *world) inOrder() bool { return w.refusals+w.giveUps+w.forgets+w.nonsense+w.renewals == 0 }

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
			w.failed = true
			w.end(broken)
			return
		}
		w.after()
	}
	w.wrong("a connection on which nothing is answered goes on")
}

var errLong = errors.New("a reply is too long to be read")

// end is the end of the connection. What was on its way may still arrive.
func (w *world) end(why error) {
	w.calm = w.calm && why == nil
	w.n.End(w.c, why)
	if served := w.c.HasServed(); served != (w.served || errors.As(w.c.Why(), new(node.StandstillError))) {
		w.wrong(fmt.Sprintf("that the server has answered is %t", served))
	}
	if w.first.to.part > 0 && len(w.wire)+len(w.replies) == 0 {
		w.wrong("half an answer has no other half")
	}
	isLook := func(m message) bool { return m.script == node.Look }
	w.looked = slices.ContainsFunc(w.wire, isLook) || slices.ContainsFunc(w.replies, func(r reply) bool { return isLook(r.to) })
	for _, m := range w.wire {
		w.lose(m)
	}
	for _, r := range w.replies {
		w.lose(r.to)
	}
	failed, why := w.n.Ended(w.c, errors.Is(why, errLong), w.at())
	for _, m := range w.wire {
		w.delay(m)
	}
	w.c, w.next, w.wire, w.replies, w.due, w.alarm, w.first, w.turnedAway, w.putOff = nil, nil, nil, nil, 0, 0, reply{}, false, false
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
	if !m.isOfToken() {
		return
	}
	w.of(m).doubted = true
	w.of(m).touched = w.of(m).touched || m.script == extend && w.leaves
	w.of(m).unsure = w.of(m).unsure || m.ends()
	w.of(m).vanishes = w.of(m).vanishes && !m.ends()
}

// lose counts a request whose answer is lost.
func (w *world) lose(m message) {
	w.doubt(m)
	if m.script == lock || m.script == set && m.part != 1 || m.script == repair || m.script == extend && w.leaves {
		w.unknown++
	}
}

// delay has a message go on without its connection.
func (w *world) delay(m message) {
	if m.isOfToken() && m.part != 2 {
		m.at = 0
		w.late = append(w.late, m)
	}
}

func (w *world) leave() {
	failed, why := w.n.Finish(w.at())
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
		w.n.Retry()
	}
	w.c, w.replied = w.conn(), false
	w.begin()
	w.n.Connected(w.c, w.at())
	if w.looked && !w.ended && w.n.Queued(w.c) == 0 {
		w.wrong("a look that was lost with its connection is not the first on the next one")
	}
	w.looked = false
	w.after()
}

// tick has the time be that at which the node has asked to be called.
func (w *world) tick() {
	w.now, w.due = max(w.now, w.due), 0
	w.n.Tick(w.at())
	w.after()
}

// flow has what is queued be written, what is written carried out, or an answer heard. It says whether there was any.
func (w *world) flow() bool {
	switch {
	case w.n.Queued(w.c) > 0:
		w.write()
	case len(w.wire) > 0:
		w.serve()
	case len(w.replies) > 0:
		w.read()
	default:
		return false
	}
	return true
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
		case w.flow():
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
	if t.lateAtClose && w.calm {
		return false
	}
	return t.undone && (w.over || t.doubled) || t.doubled && !t.heard
}

// left is what is wrong when nothing is to be done any more.
func (w *world) left() string {
	if s := w.n.Stats(w.at()); (s.PendingReleases != 0 || s.Repeats != 0 || s.Backlog != 0) && !w.over {
		return fmt.Sprintf("nothing is done any more, and %d releases are owed, %d repeated, %d requests wait", s.PendingReleases, s.Repeats, s.Backlog)
	}
	for _, t := range w.attempts {
		if w.server[0].Token == t.id && t.released && w.server[0].Until > w.held && !w.isExcused(t) {
			return fmt.Sprintf("the key of token %d is left behind", t.id)
		}
	}
	// What is set behind its release, and the end of a life, free it without a word.
	undone := func(t *token) bool { return t.undone || t.doubled }
	if w.bell && w.server[0].Token == 0 && !w.over && w.done.minutes+w.done.hours+w.done.sleeps == 0 && !slices.ContainsFunc(w.attempts, undone) {
		return "the resource is free, and who is in line was not told"
	}
	for _, c := range w.calls {
		if !c.answered && !c.done && (!w.over || w.n.State() == node.Closed) {
			return fmt.Sprintf("nobody answers the %s of token %d", c.q.Command.Script.Name, c.of.id)
		}
	}
	if w.mail != 0 {
		return fmt.Sprintf("%d questions that nobody waits for have no answer, or two", w.mail)
	}
	if w.ended && !w.over {
		return "the node is never closed"
	}
	if s := w.n.Stats(w.at()); !w.over && (int64(w.settled[0]) != s.Unknown || int64(w.settled[1]) != s.Cleaned) {
		return fmt.Sprintf("told of %d unknown outcomes and %d releases, of %d and %d", w.settled[0], w.settled[1], s.Unknown, s.Cleaned)
	}
	return ""
}
