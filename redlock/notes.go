package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/sets"
)

// This file is about the notes that clients leave on nodes, of which set of nodes they have, and about what those of
// others say. No call waits for any of it.

// notesEvery is how often a client looks at the notes, ± 20 %. The first two looks come sooner.
const notesEvery = 10 * time.Second

// notesPause is when a node is asked again that does not tell who it is, or forbids to ask.
const notesPause = 10 * time.Minute

// notesScript answers as sets.Parse reads it; nothing is a no.
var notesScript = node.NewScript("notes", node.Code(sets.Script), func(reply any) node.Outcome {
	text, ok := reply.([]byte)
	switch {
	case !ok:
		return node.Unexpected("notes", reply)
	case len(text) == 0:
		return node.Outcome{Stance: node.No}
	default:
		return node.Outcome{Stance: node.Yes, Value: string(text)}
	}
})

// notes are what a Redlock knows of its own set and of others.
type notes struct {
	co         *core
	label, who string
	names      []string // of the nodes
	key        any
	once       sync.Once
	timer      *time.Timer

	mu     sync.Mutex
	closed bool
	asked  bool          // answers are on their way
	next   time.Duration // from one look to the next
	doubts bool          // a node's clock has not gone on as this client's
	nodes  []noted
	found  map[string]*found
}

// noted is what is known of a node.
type noted struct {
	run                string // of its server; empty: it is not known
	started, confirmed time.Time

	heard  bool          // it has answered in this look
	shown  time.Duration // by its clock, at read; a client that stood still, and what was late, are known by it
	read   time.Time     // zero: never
	others []sets.Note   // what lay there then
	pause  time.Time     // until when it is not asked again, since it does not tell
}

// found is a difference that was seen. It is told when it was seen again, in a note that was written anew: a single
// one may have been written late.
type found struct {
	SetDifference

	written time.Time
	told    bool
}

func newNotes(co *core) *notes {
	host, _ := os.Hostname()
	k := &notes{
		co: co, label: co.defaults.setName, who: cmp.Or(co.defaults.owner, fmt.Sprintf("%s:%d", host, os.Getpid())),
		key: co.defaults.prefix + reservedMark + sets.Mark, next: notesEvery / 2, nodes: make([]noted, len(co.nodes)), found: make(map[string]*found),
	}
	for _, n := range co.nodes {
		k.names = append(k.names, n.Name)
	}
	k.timer = time.AfterFunc(math.MaxInt64, k.look)
	k.timer.Stop()
	return k
}

// begin has the first look come, once a node is connected. It is called with that node's mutex held.
func (k *notes) begin() { k.once.Do(k.later) }

func (k *notes) later() {
	k.timer.Reset(k.next*4/5 + rand.N(k.next*2/5))
	k.next = notesEvery
}

func (k *notes) close() {
	k.once.Do(func() {})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.timer.Stop()
}

// look asks all nodes that are connected, and then compares what they have answered in time.
func (k *notes) look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch k.asked = !k.asked; {
	case k.closed:
	case k.asked:
		now := time.Now()
		mine := k.mine(now)
		for i := range k.nodes {
			if n := &k.nodes[i]; now.After(n.pause) {
				n.heard = false
				k.co.nodes[i].Aside(i, node.Command{Script: notesScript, Keys: []any{k.key}, Args: n.ask(&mine, now)}, k)
			}
		}
		k.timer.Reset(sets.Late)
	default:
		k.judge()
		k.later()
	}
}

// ask has the set noted on a node, unless a note that says the same need not be renewed yet.
func (n *noted) ask(mine *sets.Set, now time.Time) []any {
	age := now.Sub(n.read)
	if n.run == "" || slices.ContainsFunc(n.others, func(o sets.Note) bool { return o.Age+age <= sets.Life/2 && mine.IsIn(&o.Set) }) {
		return sets.Read(sets.Life)
	}
	return sets.Write(sets.Life, n.shown+age, mine)
}

// mine is the set as this client knows it.
func (k *notes) mine(now time.Time) sets.Set {
	s := sets.Set{Label: k.label, Who: k.who}
	for i, n := range k.nodes {
		server := sets.Server{Name: k.names[i], Run: n.run}
		if n.run != "" {
			server.Started, server.Confirmed = now.Sub(n.started), now.Sub(n.confirmed)
		}
		s.Servers = append(s.Servers, server)
	}
	return s
}

// Receive takes a node's answer. Without one, it is as it was last seen.
func (k *notes) Receive(i int, out node.Outcome, at time.Time) {
	r, ok := sets.Parse(out.Value)
	k.mu.Lock()
	defer k.mu.Unlock()
	n, code := &k.nodes[i], conn.ErrorCode(out.Err)
	switch {
	case ok:
		k.doubts = !n.hear(r, at) || k.doubts
		if r.Wrote {
			k.co.nodes[i].Wrote()
		}
	case out.Stance == node.No:
		*n = noted{pause: at.Add(notesPause)}
	case code == "NOPERM" || code == "ERR":
		n.pause = at.Add(notesPause)
	}
}

// hear takes what was read, and says whether the node's clock has gone on as this client's.
func (n *noted) hear(r sets.Reading, at time.Time) bool {
	started, off := at.Add(-r.Uptime), r.Now-n.shown-at.Sub(n.read)
	if r.Run == n.run && n.started.After(started) {
		started = n.started // Its clock was set forward.
	}
	known := !n.read.IsZero()
	*n = noted{run: r.Run, started: started, confirmed: at, heard: true, shown: r.Now, read: at, others: r.Notes}
	return !known || off.Abs() <= sets.Late
}

// judge compares the set with those that a look has found. mu is held.
func (k *notes) judge() {
	now := time.Now()
	if k.doubts { // This process may have stood still: it only knows what it has heard since.
		k.doubts = false
		for i := range k.nodes {
			if !k.nodes[i].heard {
				k.nodes[i] = noted{pause: k.nodes[i].pause}
			}
		}
		return
	}
	for _, d := range k.differences(now) {
		k.see(d)
		for i, name := range k.names {
			if slices.Contains(d.OnlyHere, name) && slices.Contains(d.OnlyThere, name) {
				k.co.nodes[i].LookAgain()
			}
		}
	}
	for key, f := range k.found {
		if now.Sub(f.Seen) > 2*sets.Life {
			delete(k.found, key)
			k.tell(EventSetsAgree, f)
		}
	}
}

// differences returns those that were read on each node. mu is held.
func (k *notes) differences(now time.Time) (all []*found) {
	mine := k.mine(now)
	if names := mine.Twice(); len(names) > 0 {
		all = append(all, &found{SetDifference: SetDifference{Twice: names, Since: now, Seen: now}, written: now})
	}
	for i, n := range k.nodes {
		for _, other := range n.others {
			theirs := other.Aged(now.Sub(n.read))
			d := sets.Compare(&mine, &theirs)
			if !n.heard || theirs.Label != mine.Label || len(d.Mine)+len(d.Theirs) == 0 {
				continue
			}
			all = append(all, &found{SetDifference: SetDifference{
				Who: theirs.Who, Node: k.names[i], Nodes: theirs.Names(),
				OnlyHere: d.Mine, OnlyThere: d.Theirs, QuorumsMeet: d.Meet, Since: now, Seen: now,
			}, written: n.read.Add(-other.Age)})
		}
	}
	return all
}

// see notes a difference that was read. mu is held.
func (k *notes) see(d *found) {
	f := k.found[d.key()]
	if f == nil {
		k.found[d.key()] = d
		return
	}
	d.Since = f.Since
	f.SetDifference = d.SetDifference
	if !f.told && min(d.Seen.Sub(d.Since), d.written.Sub(f.written)) >= notesEvery {
		f.told = true
		k.tell(EventSetsDiffer, f)
	}
}

// key is the same for what is told once.
func (d *SetDifference) key() string { return fmt.Sprintf("%q %q %v", d.Nodes, d.Twice, d.QuorumsMeet) }

// tell sends an event, if the difference was told. mu is held.
func (k *notes) tell(kind EventKind, f *found) {
	if !f.told {
		return
	}
	d := f.clone()
	e := Event{Kind: kind, Node: d.Node, Set: &d}
	if kind == EventSetsDiffer {
		e.Err = errors.New(d.String())
	}
	k.co.send(context.Background(), e)
}

// standing returns the differences that were told and are not over.
func (k *notes) standing() (all []SetDifference) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.found {
		if f.told {
			all = append(all, f.clone())
		}
	}
	slices.SortFunc(all, func(a, b SetDifference) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.key(), b.key()))
	})
	return all
}

// setDifferences returns those in what the nodes of these names have answered to readSets just now.
func setDifferences(label string, names, answers []string) (all []SetDifference) {
	k, now := &notes{label: label, names: names, nodes: make([]noted, len(names))}, time.Now()
	for i, answer := range answers {
		if r, ok := sets.Parse(answer); ok {
			k.nodes[i].hear(r, now)
		}
	}
	for _, d := range k.differences(now) {
		if !slices.ContainsFunc(all, func(a SetDifference) bool { return a.key() == d.key() }) {
			all = append(all, d.SetDifference)
		}
	}
	return all
}

// readSets is the command that reads a node's notes. space is what the library's own keys begin with.
func readSets(space string) []any {
	return append([]any{"EVAL", notesScript.Source, 1, space + sets.Mark}, sets.Read(sets.Life)...)
}
