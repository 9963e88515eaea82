package redlockhttp

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// A Wrong is something that somebody should look at, in a State.
type Wrong struct {
	Level string `json:"level"` // bad, or warning where nothing fails yet
	Text  string `json:"text"`  // what is wrong, in a sentence
	Next  string `json:"next"`  // what to look at, or to do
	See   string `json:"see"`   // the address of where to read on
}

const (
	docs = "https://github.com/seed6c881748/redlock/blob/main/docs/"

	stuckAfter  = 5 * time.Minute  // a wait that is longer is shown, as RedlockHolderStuck alerts then
	recent      = 15 * time.Minute // how long an event is shown as wrong
	vanishedFor = 24 * time.Hour   // how long vanished keys are: a second holder may have got in, which shows later
	maxStuck    = 5                // resources with waiters that are shown, the longest wait first; others are counted
)

// wrongs collects what is wrong, even in what a query leaves out of the lists.
type wrongs struct {
	now   time.Time
	all   []Wrong
	nodes []Node
	held  []redlock.HeldLock

	differ bool // the present differences are among them
}

func (w *wrongs) say(level, text, next, see string) {
	w.all = append(w.all, Wrong{level, text, next, docs + see})
}

// wrongOf returns what is wrong, the worst first.
func wrongOf(s *State, now time.Time, sets []redlock.SetDifference, held []redlock.HeldLock, calls []redlock.WaitingCall, semaphore func(redlock.WaitingCall) string) []Wrong {
	w := &wrongs{now: now, nodes: s.Nodes, held: held, all: []Wrong{}}
	w.quorum(s.Need)
	w.notExtended()
	w.withoutQuorum(calls)
	for i := range s.Nodes {
		w.node(&s.Nodes[i])
	}
	w.vanished()
	w.sets(sets)
	if n := s.Counts.Queued; n > 0 {
		w.say("warning", count(n, "attempt waits", "attempts wait")+" for a turn to ask the nodes.",
			"If that stays: the nodes are slow, or asked for too much. Give them more processor time, or lock less.", "operations.md#overload")
	}
	w.stuck(calls, semaphore)
	w.events(s.Events)
	slices.SortStableFunc(w.all, func(a, b Wrong) int { return cmp.Compare(a.Level, b.Level) })
	return w.all
}

// sets adds the clients whose set of nodes differs, each once.
func (w *wrongs) sets(all []redlock.SetDifference) {
	w.differ = len(all) > 0
	for _, d := range all {
		level, next := "bad", "Compare the list of nodes there with this process's, and give both the same. If their locks have nothing to do with each other, give them other prefixes, or name the sets (WithSetName)."
		if d.QuorumsMeet {
			level, next = "warning", "No lock is at risk. If the set is being changed, go on when nobody has the old one; otherwise compare the lists of nodes."
		}
		w.say(level, d.String()+".", next, "operations.md#one-set-of-nodes")
	}
}

// away returns what a node that gives no votes does instead; "" if it votes, or nobody has asked it yet.
func (n *Node) away() string {
	switch n.State {
	case "up", "connecting", "closed":
		return ""
	case "unresponsive":
		return "is unresponsive"
	case "quarantined":
		return "is in quarantine"
	case "mismatched":
		return "is set up for others"
	default:
		return "is " + n.State
	}
}

func (w *wrongs) quorum(need int) {
	var away []string
	for i := range w.nodes {
		if why := w.nodes[i].away(); why != "" {
			away = append(away, w.nodes[i].Name+" "+why)
		}
	}
	spare := len(w.nodes) - need
	give := " give no votes ("
	if len(away) == 1 {
		give = " gives no vote ("
	}
	some := strconv.Itoa(len(away)) + " of " + count(len(w.nodes), "node", "nodes") + give + strings.Join(away, ", ") + ")"
	switch {
	case len(away) > spare:
		w.say("bad", "There is no quorum: "+some+", and "+count(need, "vote is", "votes are")+" needed.",
			"Bring back any of them, with its data if there is no quarantine. Until then nothing can be locked or extended, and what is held ends.", "telemetry.md#quorumdown")
	case len(away) == spare && spare > 0:
		w.say("warning", "With one more node away there is no quorum: "+some+".",
			"Nothing fails yet. Restore one of them before you restart or change anything else.", "telemetry.md#onenodefromnoquorum")
	}
}

// node adds what is wrong with a node.
func (w *wrongs) node(n *Node) {
	what := n.Name + " " + n.away()
	if n.Error != "" {
		what += ": " + n.Error
	}
	what += "."
	switch n.State {
	case "down":
		w.say("bad", what, nextOfDown(n.Error), "telemetry.md#nodedown")
	case "unresponsive":
		w.say("bad", what, nextOfUnresponsive(n.Error), "telemetry.md#nodedown")
	case "mismatched":
		w.say("bad", what, "Give all clients the same nodes. If these are the new ones, Admit or redlock admit sets the node up for them.", "operations.md#changing-the-set")
	case "quarantined":
		w.say("warning", what, "Wait: it votes again by itself. Find out why it has restarted or lost its data.", "operations.md#quarantine")
	}
}

// nextOfDown returns the next step by what a server, or the way to it, has said.
func nextOfDown(why string) string {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(why, word) })
	}
	switch {
	case has("READONLY", "MASTERDOWN"):
		return "Its address leads to a replica: have it lead to a master."
	case has("NOAUTH", "WRONGPASS", "NOPERM"):
		return "Compare the user, the password and the rights with those on the server."
	case has("connection refused"):
		return "Nothing listens there: does its server run, and at this address?"
	case has("no such host"):
		return "Is the name of its host right, and is it known on this machine?"
	case has("x509", "tls:"):
		return "Compare its certificate, and the settings of TLS, with those of this client."
	default:
		return "Does its server run, and is it reached from this machine? redlock check, started here, tells the network from the server."
	}
}

func nextOfUnresponsive(why string) string {
	switch {
	case strings.Contains(why, "OOM"):
		return "Its memory is full: look at used_memory and maxmemory."
	case strings.Contains(why, "MISCONF"):
		return "Its server cannot write to its disk: look at its log, and whether the disk is full."
	case strings.Contains(why, "LOADING"):
		return "Its server reads its data: wait."
	case strings.Contains(why, "NOPERM"):
		return "Compare the rights of its user with those on the other servers: redlock check says which are missing."
	case !strings.Contains(why, redlock.ErrNodeTimeout.Error()) && !strings.Contains(why, "no answer"): // Before the ttl was used up.
		return "Its server refuses what it is asked: look at its log and its settings. redlock check says whether it is fit for locks."
	default:
		return "It is connected, but answers too late: look at SLOWLOG, its processor, swapping, and the way to it. A long way needs a longer WithNodeTimeout."
	}
}

func (w *wrongs) notExtended() {
	late, first := 0, redlock.HeldLock{}
	for _, l := range w.held {
		if l.Kept && 2*l.Until.Sub(w.now) < l.Until.Sub(l.Extended) {
			if late++; late == 1 || l.Until.Before(first.Until) {
				first = l
			}
		}
	}
	if late > 0 {
		w.say("bad", count(late, "kept lock is", "kept locks are")+" not being extended: "+called(first.Resources)+" has "+lasting(first.Until.Sub(w.now))+" left.",
			"Its context ends then, and its work must stop. See below which nodes give no votes.", "holding.md#time-to-stop")
	}
}

func (w *wrongs) withoutQuorum(calls []redlock.WaitingCall) {
	n := 0
	for i := range calls {
		if errors.Is(calls[i].Err, redlock.ErrNoQuorum) {
			n++
		}
	}
	if n > 0 {
		w.say("bad", count(n, "call waits", "calls wait")+" for a quorum.",
			"See below which nodes give no votes. If all do, they are overloaded, or the node timeout is too short for the way to them.", "telemetry.md#noquorum")
	}
}

// vanished adds one sentence for all nodes: a lock that somebody breaks is gone from each of them.
func (w *wrongs) vanished() {
	var lost []string
	for i := range w.nodes {
		if n := &w.nodes[i]; n.Vanished > 0 && w.now.Sub(n.VanishedAt) <= vanishedFor {
			lost = append(lost, n.Name+" has lost keys of "+count(int(n.Vanished), "held lock", "held locks")+" since the start, the last at "+w.clock(n.VanishedAt))
		}
	}
	next := "What happened to that server then: FLUSHALL, a restart without its data, eviction, a clock that was set forward, keys deleted by hand, redlock break?"
	if len(lost) > 1 {
		next = "At the same time on all nodes: somebody has broken or released a lock. Otherwise: FLUSHALL, restarts without data, eviction, or clocks that were set forward?"
	}
	if len(lost) > 0 {
		w.say("warning", strings.Join(lost, "; ")+".", next, "telemetry.md#keysvanish")
	}
}

// stuck adds the holders that others have long waited for.
func (w *wrongs) stuck(calls []redlock.WaitingCall, semaphore func(redlock.WaitingCall) string) {
	groups := make(map[string][]redlock.WaitingCall)
	var order []string
	for _, c := range calls { // The longest wait first.
		key := cmp.Or(semaphore(c), strings.Join(c.Resources, "\x00"))
		if groups[key] == nil {
			if w.now.Sub(c.Since) < stuckAfter {
				continue
			}
			order = append(order, key)
		}
		groups[key] = append(groups[key], c)
	}
	order = slices.DeleteFunc(order, func(key string) bool { // It was added before.
		return slices.ContainsFunc(groups[key], func(c redlock.WaitingCall) bool { return errors.Is(c.Err, redlock.ErrNoQuorum) })
	})
	for _, key := range order[:min(len(order), maxStuck)] {
		first := groups[key][0]
		long := ", the longest for " + lasting(w.now.Sub(first.Since))
		if name := semaphore(first); name != "" {
			w.say("warning", "Calls wait for a permit of "+called([]string{name})+long+".",
				"See below who holds its permits, and for how long. End that work, bound it with WithMaxHold, or give more permits.", "telemetry.md#holderstuck")
			continue
		}
		w.say("warning", count(len(groups[key]), "call waits", "calls wait")+" for "+called(first.Resources)+long+w.holderOf(groups[key])+".",
			"See what that holder does: end its work, or bound it with WithMaxHold. Leave it if it is a leader, and these stand by.", "telemetry.md#holderstuck")
	}
	if more := len(order) - maxStuck; more > 0 {
		w.say("warning", count(more, "more resource is", "more resources are")+" waited for for longer than "+lasting(stuckAfter)+".",
			"See the calls that wait, and for whom.", "telemetry.md#holderstuck")
	}
}

// holderOf returns who has what calls wait for, by the call that has asked most often: calls further back in the line
// ask only at first, and what they know may be old.
func (w *wrongs) holderOf(calls []redlock.WaitingCall) string {
	c := slices.MaxFunc(calls, func(a, b redlock.WaitingCall) int { return cmp.Compare(a.Attempts, b.Attempts) })
	if c.Holder == "" {
		return ""
	}
	text, since := ": "+cmp.Or(c.HolderOwner, c.Holder), ""
	if !c.HolderSince.IsZero() {
		since = " since " + w.clock(c.HolderSince)
	}
	if slices.ContainsFunc(w.held, func(l redlock.HeldLock) bool { return l.Holder == c.Holder }) {
		return text + ", in this process, has held it" + since
	}
	if since != "" {
		since += " at least"
	}
	return text + " has held it" + since
}

// steps are the next steps after an event, by kind.
var steps = map[string][2]string{
	"node down":         {"It is back. Its server's log says whether that was a restart; if not, it was the network.", "telemetry.md#nodedown"},
	"node unresponsive": {"It votes again. Look at what its server did then: SLOWLOG, its log, its memory.", "telemetry.md#nodedown"},
	"not acquired":      {"See the votes below: which nodes gave none, and why.", "telemetry.md#noquorum"},
	"extended":          {"See the votes below. An extension that failed is repeated; the lock ends if none succeeds in time.", "holding.md#how-it-extends"},
	"released":          {"The lock had ended before its release: the ttl is too short for the work, or the keys are gone.", "telemetry.md#holdlost"},
	"hold ended":        {"See what that work did without its lock. Expired: no quorum, or the process stood still. Lost: the keys are gone.", "telemetry.md#holdlost"},
	"hold at risk":      {"See the votes below: which nodes did not extend it, and why.", "holding.md#time-to-stop"},
	"overloaded":        {"More is asked for than the nodes can answer: give them more processor time, or lock less.", "operations.md#overload"},
	"sets differ":       {"The sets agree now. Until then two could hold one lock: find out who had other nodes, and what they did.", "operations.md#one-set-of-nodes"},
	"polling":           {"Waiters hear of no releases from this node, and ask again and again: look at the rights, and at the pool.", "operations.md#rights"},
}

// events adds recent events that nothing else has reported.
func (w *wrongs) events(latest []Event) {
	now := make(map[string]string)
	for i := range w.nodes {
		now[w.nodes[i].Name] = "node " + w.nodes[i].State
	}
	type kind struct {
		count int
		last  *Event
	}
	kinds := make(map[string]*kind)
	var order []string
	for i := range latest {
		e := &latest[i]
		if e.Level != "warning" || w.now.Sub(e.Time) > recent || e.Kind == string(redlock.EventKeysVanished) || e.Kind == string(redlock.EventSetsDiffer) && w.differ || now[e.Node] == e.Kind {
			continue
		}
		if kinds[e.Kind] == nil {
			kinds[e.Kind] = &kind{last: e}
			order = append(order, e.Kind)
		}
		kinds[e.Kind].count++
	}
	for _, name := range order {
		k, step := kinds[name], steps[name]
		whose := ""
		if about := cmp.Or(k.last.Node, called(k.last.Resources)); about != "" {
			whose = " (" + about + ")"
		}
		level := "warning"
		if name == string(redlock.EventHoldEnded) { // Work may have gone on without a lock.
			level = "bad"
		}
		shown := cmp.Or(map[string]string{"extended": "extension failed", "released": "release failed"}[name], name)
		w.say(level, count(k.count, "event", "events")+" “"+shown+"” in the last 15 minutes, the last at "+w.clock(k.last.Time)+whose+".",
			cmp.Or(step[0], "See the events below."), cmp.Or(step[1], "operations.md#what-to-watch"))
	}
}

// clock returns a time in the form that the page shows, with its day if that is not today.
func (w *wrongs) clock(t time.Time) string {
	t = t.In(w.now.Location())
	if t.Format(time.DateOnly) != w.now.Format(time.DateOnly) {
		return t.Format(time.DateTime)
	}
	return t.Format(time.TimeOnly)
}

// lasting returns a duration in the form that the page shows.
func lasting(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	default:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
}

// called returns the names of a lock's resources, and not more of them than people read.
func called(resources []string) string {
	text := strings.Join(listed(resources[:min(len(resources), 3)]), ", ")
	if more := len(resources) - 3; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
