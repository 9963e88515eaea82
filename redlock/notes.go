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

// notesScript answers as sets.Parse reads it.
var notesScript = func() *node.Script {
	s := node.NewScript("notes", node.Code(sets.Script), func(reply any) node.Outcome {
		switch text, ok := reply.([]byte); {
		case !ok:
			return node.Unexpected("notes", reply)
		case len(text) == 0:
			return node.Outcome{Stance: node.No}
		default:
			return node.Outcome{Stance: node.Yes, Value: string(text)}
		}
	})
	s.Rare = true
	return s
}()

// notes are what a Redlock knows of its own set and of others.
type notes struct {
	co          *core
	label, who  string
	names       []string
	key         any
	every, life time.Duration
	once        sync.Once
	timer       *time.Timer

	mu     sync.Mutex // never taken with a node's
	closed bool
	looks  int
	nodes  []noted
	last   *look
	found  map[string]*found
}

// noted is what is known of a node.
type noted struct {
	run                string // of its server; empty: it is not known
	started, confirmed time.Time

	shown  time.Duration // by its clock, at read; a client that stood still, and what was late, are known by it
	read   time.Time     // zero: never
	others []sets.Note   // what lay there then

	pause time.Time // until when it is not asked again, since it does not tell
}

// found is a difference that was seen. It is told when it was seen again, in a note that was written anew: a single
// one may have been written late.
type found struct {
	SetDifference

	written time.Time
	told    bool
}

// A look is one at the notes of all nodes.
type look struct {
	*notes

	left   int    // nodes that have not answered
	heard  []bool // those that have
	doubts bool   // a clock has not gone on as this client's
}

func newNotes(co *core) *notes {
	host, _ := os.Hostname()
	k := &notes{
		co: co, label: co.defaults.setName, who: cmp.Or(co.defaults.owner, fmt.Sprintf("%s:%d", host, os.Getpid())), key: co.defaults.prefix + reservedMark + sets.Mark,
		every: notesEvery, life: sets.Life, nodes: make([]noted, len(co.nodes)), found: make(map[string]*found),
	}
	for _, n := range co.nodes {
		k.names = append(k.names, n.Name)
	}
	k.timer = time.AfterFunc(math.MaxInt64, k.look)
	k.timer.Stop()
	return k
}

// begin has the first look come, once a node is connected.
func (k *notes) begin() {
	k.once.Do(func() { k.timer.Reset(k.soon(k.every / 2)) })
}

func (k *notes) soon(d time.Duration) time.Duration { return d*4/5 + rand.N(d*2/5+1) }

func (k *notes) close() {
	k.once.Do(func() {})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.timer.Stop()
}

// look asks all nodes that are connected.
func (k *notes) look() {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return
	}
	k.judge() // What the last one has brought, should a node not have answered yet.
	k.looks++
	next := k.every
	if k.looks == 1 {
		next /= 2
	}
	k.timer.Reset(k.soon(next))
	now, l := time.Now(), &look{notes: k, left: len(k.nodes) + 1, heard: make([]bool, len(k.nodes))}
	k.last = l
	mine, commands := k.mine(now), make([]node.Command, len(k.nodes))
	for i := range commands {
		if now.After(k.nodes[i].pause) {
			commands[i] = k.command(i, &mine, now)
		}
	}
	k.mu.Unlock()
	for i, n := range k.co.nodes {
		if commands[i].Script == nil || !n.Aside(i, commands[i], l) {
			l.count()
		}
	}
	l.count()
}

// command notes the set on a node, unless a note that says the same need not be renewed yet.
func (k *notes) command(i int, mine *sets.Set, now time.Time) node.Command {
	n, args := &k.nodes[i], sets.Read(k.life)
	if age := now.Sub(n.read); n.run != "" && !slices.ContainsFunc(n.others, func(o sets.Note) bool {
		return o.Age+age <= k.life/2 && mine.IsIn(&o.Set)
	}) {
		args = sets.Write(k.life, n.shown+age, mine)
	}
	return node.Command{Script: notesScript, Keys: []any{k.key}, Args: args}
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
func (l *look) Receive(i int, out node.Outcome, at time.Time) {
	r, ok := sets.Parse(out.Value)
	if r.Wrote {
		l.co.nodes[i].Wrote()
	}
	l.mu.Lock()
	if ok && l == l.last {
		l.doubts = !l.nodes[i].hear(r, at) || l.doubts
		l.heard[i] = true
	}
	if out.Stance == node.No {
		l.nodes[i] = noted{}
	}
	if code := conn.ErrorCode(out.Err); out.Stance == node.No || code == "NOPERM" || code == "ERR" {
		l.nodes[i].pause = at.Add(notesPause)
	}
	l.mu.Unlock()
	l.count()
}

// hear takes what was read, and says whether the node's clock has gone on as this client's.
func (n *noted) hear(r sets.Reading, at time.Time) bool {
	started := at.Add(-r.Uptime)
	if r.Run == n.run && n.started.After(started) {
		started = n.started // Its clock was set forward.
	}
	off := r.Now - n.shown - at.Sub(n.read)
	known := !n.read.IsZero()
	*n = noted{run: r.Run, started: started, confirmed: at, shown: r.Now, read: at, others: r.Notes}
	return !known || off.Abs() <= sets.Late
}

// count has the last answer judge the look.
func (l *look) count() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left--; l.left == 0 && l == l.last {
		l.judge()
	}
}

// judge compares the set with those that the last look has found, once. mu is held.
func (k *notes) judge() {
	l, now := k.last, time.Now()
	if k.last = nil; l == nil || k.closed {
		return
	}
	if l.doubts { // This process may have stood still: it only knows what it has heard since.
		for i := range k.nodes {
			if !l.heard[i] {
				k.nodes[i] = noted{}
			}
		}
		return
	}
	for _, d := range k.differences(l.heard, now) {
		k.see(d)
	}
	for key, f := range k.found {
		if now.Sub(f.Seen) > 2*k.life {
			delete(k.found, key)
			k.tell(EventSetsAgree, f)
		}
	}
}

// differences returns those that were read, from each node that was heard. mu is held.
func (k *notes) differences(heard []bool, now time.Time) (all []*found) {
	mine := k.mine(now)
	if names := mine.Twice(); len(names) > 0 {
		all = append(all, &found{SetDifference: SetDifference{Twice: names, Since: now, Seen: now}, written: now})
	}
	for i, n := range k.nodes {
		for _, other := range n.others {
			theirs := other.Aged(now.Sub(n.read))
			d := sets.Compare(&mine, &theirs)
			if !heard[i] || theirs.Label != mine.Label || len(d.Mine)+len(d.Theirs) == 0 {
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
	if !f.told && d.Seen.Sub(d.Since) >= k.every && d.written.Sub(f.written) >= k.every {
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
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Who, b.Who), slices.Compare(a.Nodes, b.Nodes))
	})
	return all
}

// setDifferences returns those in what the nodes of these names have answered to readSets just now.
func setDifferences(label string, names, answers []string) (all []SetDifference) {
	k, now, heard := &notes{label: label, names: names, nodes: make([]noted, len(names))}, time.Now(), make([]bool, len(names))
	for i, answer := range answers {
		if r, ok := sets.Parse(answer); ok {
			heard[i] = true
			k.nodes[i].hear(r, now)
		}
	}
	for _, d := range k.differences(heard, now) {
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
