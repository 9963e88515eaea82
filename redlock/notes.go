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

// This file is about the notes that clients leave on nodes, which say what set of nodes each client has. No call waits
// for any of it.

const (
	// notesEvery is how often a client looks at the notes, ± 20 %. The first look comes sooner.
	notesEvery = 8 * time.Second

	// notesPause is how long a node is not asked after it hid its run_id or refused the question.
	notesPause = 10 * time.Minute

	// maxFound bounds how many differences are kept at a time: somebody may write nonsense.
	maxFound = 16
)

// notesScript reads the notes on a node, and writes one. sets.Parse reads its answer.
var notesScript = node.NewScript("notes", node.Code(sets.Script), func(reply any) node.Outcome {
	if text, ok := reply.([]byte); ok {
		return node.Outcome{Stance: node.Yes, Value: string(text)}
	}
	return node.Unexpected("notes", reply)
})

// notes are what a Redlock knows about its own set and others.
type notes struct {
	co         *core
	label, who string
	key        any
	once       sync.Once
	timer      *time.Timer

	mu     sync.Mutex
	closed bool
	nodes  []noted
	found  map[string]*found
}

// noted is what a node has answered.
type noted struct {
	sets.Reading // without a Run the server is not known

	name  string
	asked time.Time // when the node was asked, if its answer has not come yet
	read  time.Time
	pause time.Time // until when the node is not asked again, since it does not answer
}

// found is a difference that was seen. It is reported once it holds of a time after its first sight. That takes a note
// that was written since, as a single one may have been delivered late. And if both sets have a server of the same
// name, each client must have found its own there since. If a replica has taken over, no client finds the old server
// after another has found the new one, though an idle client's notes name the old one for long.
type found struct {
	SetDifference

	until time.Time // the latest time at which it held, as far as the note says
	told  bool
}

func newNotes(co *core) *notes {
	host, _ := os.Hostname()
	k := &notes{
		co: co, label: co.defaults.setName, who: cmp.Or(co.defaults.owner, fmt.Sprintf("%s:%d", host, os.Getpid())),
		key: co.defaults.prefix + reservedMark + sets.Mark, found: make(map[string]*found),
	}
	for _, n := range co.nodes {
		k.nodes = append(k.nodes, noted{name: n.Name})
	}
	k.timer = time.AfterFunc(math.MaxInt64, k.look)
	k.timer.Stop()
	return k
}

// begin schedules the first look, once a node is connected. It is called with that link's mutex held.
func (k *notes) begin() { k.once.Do(func() { k.lookIn(notesEvery / 2) }) }

func (k *notes) lookIn(d time.Duration) { k.timer.Reset(d*4/5 + rand.N(d*2/5)) }

func (k *notes) close() {
	k.once.Do(func() {})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.timer.Stop()
}

// look asks all connected nodes, and reports differences that are no longer seen.
func (k *notes) look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	now := time.Now()
	mine := k.mine(now)
	for i := range k.nodes {
		n := &k.nodes[i]
		if n.asked.IsZero() && now.After(n.pause) &&
			k.co.nodes[i].Aside(i, node.Command{Script: notesScript, Keys: []any{k.key}, Args: n.ask(&mine, now)}, k) {
			n.asked = now
		}
	}
	for key, f := range k.found {
		if now.Sub(f.Seen) > 2*sets.Life {
			delete(k.found, key)
			k.tell(EventSetsAgree, f)
		}
	}
	k.lookIn(notesEvery)
}

// ask returns the script's arguments: they note the set on a node, unless a note that says the same need not be renewed
// yet.
func (n *noted) ask(mine *sets.Set, now time.Time) []any {
	age := now.Sub(n.read)
	if n.Run == "" || slices.ContainsFunc(n.Notes, func(o sets.Note) bool { return o.Age+age <= sets.Life/2 && mine.IsIn(&o.Set) }) {
		return sets.Read()
	}
	return sets.Write(n.Now+age, mine)
}

// mine returns the set as this client knows it.
func (k *notes) mine(now time.Time) sets.Set {
	s := sets.Set{Label: k.label, Who: k.who}
	for _, n := range k.nodes {
		server := sets.Server{Name: n.name, Run: n.Run}
		if n.Run != "" {
			server.Confirmed = now.Sub(n.read)
			server.Started = n.Uptime + server.Confirmed
		}
		s.Servers = append(s.Servers, server)
	}
	return s
}

// Receive takes a node's answer, and compares the set with the notes there. Without an answer in time, the node's last
// one stands.
func (k *notes) Receive(i int, out node.Outcome, at time.Time) {
	r, ok := sets.Parse(out.Value)
	k.mu.Lock()
	defer k.mu.Unlock()
	n, code := &k.nodes[i], conn.ErrorCode(out.Err)
	took := at.Sub(n.asked)
	n.asked = time.Time{}
	switch {
	case !ok && (out.Err == nil || code == "NOPERM" || code == "ERR"):
		n.pause = at.Add(notesPause)
	case !ok || took > sets.Late: // An answer that took so long may be out of date.
	case n.hear(r, at):
		for _, d := range k.differences(n, at) {
			k.see(d)
		}
	default: // This process may have stood still: forget earlier answers.
		for j := range k.nodes {
			if j != i {
				k.nodes[j].Reading = sets.Reading{}
			}
		}
	}
}

// hear takes a reading, and reports whether the node's clock has run as this client's did.
func (n *noted) hear(r sets.Reading, at time.Time) bool {
	since := at.Sub(n.read)
	if r.Run == n.Run {
		r.Uptime = min(r.Uptime, n.Uptime+since) // The node's clock may have been set forward.
	}
	goesOn := n.Run == "" || (r.Now-n.Now-since).Abs() <= sets.Late
	n.Reading, n.read = r, at
	return goesOn
}

// differences returns the differences in what was just read on a node. mu is held.
func (k *notes) differences(n *noted, now time.Time) (all []*found) {
	mine := k.mine(now)
	if names := mine.Twice(); len(names) > 0 {
		all = append(all, &found{SetDifference: SetDifference{Twice: names, Since: now, Seen: now}, until: now})
	}
	for _, other := range n.Notes {
		here, there, meet := sets.Compare(&mine, &other.Set)
		if other.Label == mine.Label && len(here)+len(there) > 0 {
			f := &found{SetDifference: SetDifference{
				Who: other.Who, Node: n.name, Nodes: other.Names(),
				OnlyHere: here, OnlyThere: there, QuorumsMeet: meet, Since: now, Seen: now,
			}, until: now.Add(-other.Age)}
			for _, s := range slices.Concat(mine.Servers, other.Servers) {
				if at := now.Add(-s.Confirmed); f.isOf(s.Name) && at.Before(f.until) {
					f.until = at
				}
			}
			all = append(all, f)
		}
	}
	return all
}

// see notes a difference that was read, and makes the connections anew to addresses at which other clients find another
// server. mu is held.
func (k *notes) see(d *found) {
	for i, n := range k.nodes {
		if d.isOf(n.name) {
			k.co.nodes[i].LookAgain()
		}
	}
	f := k.found[d.key()]
	if f == nil {
		if len(k.found) < maxFound {
			k.found[d.key()] = d
		}
		return
	}
	d.Since = f.Since
	f.SetDifference = d.SetDifference
	if !f.told && d.until.Sub(d.Since) > 3*sets.Late {
		f.told = true
		k.tell(EventSetsDiffer, f)
	}
}

// tell sends an event about a difference that was reported. mu is held.
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

// standing returns the reported differences that are not over.
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

// setDifferences returns the differences in what nodes of these names have just answered to sets.Question.
func setDifferences(label string, names, answers []string) (all []SetDifference) {
	k, now, seen := &notes{label: label}, time.Now(), make(map[string]bool)
	for i, name := range names {
		r, _ := sets.Parse(answers[i])
		k.nodes = append(k.nodes, noted{Reading: r, name: name, read: now})
	}
	for i := range k.nodes {
		for _, d := range k.differences(&k.nodes[i], now) {
			if !seen[d.key()] {
				seen[d.key()] = true
				all = append(all, d.SetDifference)
			}
		}
	}
	return all
}
