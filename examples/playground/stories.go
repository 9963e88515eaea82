package main

import (
	"context"
	"strings"
	"time"
)

// A story plays by itself, on a fresh stage, and says with each step what is to be seen.
type story struct {
	name, title, about string
	quarantine         bool
	steps              []step
}

type step struct {
	text  string
	does  string            // what buttons do, separated by commas
	until func(*stage) bool // what the step waits for; nil: nothing. The caller has p.mu
	then  string            // what is done as soon as it has come
}

// A telling is a story that is being told.
type telling struct {
	story
	step   int
	text   string
	cancel context.CancelFunc
	done   chan struct{}
}

var stories = []story{
	{
		name: "majority", title: "A majority dies", about: "Two dead nodes do no harm. With three, there are no locks for a while.",
		steps: []step{
			{text: "Client A takes the lock, and keeps it alive.", does: "lock A", until: holds("A"), then: "keep A"},
			{text: "Two of the five nodes die. The other three are still a majority.", does: "kill 4,kill 5"},
			{text: "So client A goes on extending its lock. Nobody waits for the dead.", until: func(st *stage) bool { return st.client("A").extended }},
			{text: "Client B wants the lock, too, and waits in line. When A releases it, B is told.", does: "lock B", until: waits("B"), then: "release A"},
			{text: "B has got it from three nodes. It keeps it alive.", does: "keep B", until: holds("B")},
			{text: "Now a third node dies. B has its lock until its time is over, but there is no majority left to extend it.", does: "kill 3", until: holdsNot("B")},
			{text: "Client C asks for the lock, and is refused at once: for all that two nodes know, the other three may have granted it.", does: "lock C", until: idle("C")},
			{text: "The nodes come back with their keys. The clients find them by themselves, and C gets the lock.", does: "restart 3,restart 4,restart 5,lock C", until: holds("C")},
		},
	},
	{
		name: "suspended", title: "The holder is suspended", about: "Its lock ends while it sleeps. A fence stops what it writes too late.",
		steps: []step{
			{text: "Client A takes the lock, keeps it alive, and is about to write.", does: "lock A", until: holds("A"), then: "keep A"},
			{text: "Right then its process is suspended: by a signal, by its virtual machine, or by a very long pause of its runtime.", does: "suspend A"},
			{text: "Client B waits for the lock. Nobody extends A's lock, so its keys live until their time is over.", does: "lock B", until: holds("B"), then: "keep B"},
			{text: "The keys have expired, and B has the lock. That is as it should be: a dead client must not keep the others out for ever."},
			{text: "B writes. Its fence is larger than A's, and the register remembers it.", does: "write B"},
			{text: "A wakes up, in the middle of its work. It had looked at its lock before it fell asleep.", does: "resume A"},
			{text: "So A writes. The register refuses, as it has seen a larger fence. No lock can do that, but a fence can.", does: "write A"},
		},
	},
	{
		name: "forgotten", title: "Nodes lose their keys", about: "A majority forgets who has the lock, and a second client gets in.",
		steps: []step{
			{text: "Client A has the lock. All five nodes store its key.", does: "lock A", until: holds("A"), then: "keep A"},
			{
				text: "Nodes 1, 2 and 3 are restarted, and have nothing on disk. Right after, client B asks for the lock.",
				does: "let A,empty 1,empty 2,empty 3,lock B", until: holds("B"),
			},
			{text: "Two clients have the lock: the red band shows for how long. Redlock promises nothing where a majority forgets.", until: one},
			{text: "The next story shows the cure: a node that may have forgotten something stays out until that has ended."},
		},
	},
	{
		name: "quarantine", title: "… with quarantine", about: "The same loss. Nodes that have forgotten grant nothing until it is safe.", quarantine: true,
		steps: []step{
			{text: "The same again, but the clients have the option WithQuarantine. Client A has the lock.", does: "lock A", until: holds("A"), then: "keep A"},
			{
				text: "Nodes 1, 2 and 3 are restarted without their keys, and client B asks for the lock.",
				does: "let A,empty 1,empty 2,empty 3,lock B", until: waits("B"),
			},
			{text: "Three nodes abstain, and the others know client A. So B has to wait.", until: holdsNot("A")},
			{text: "A's lock has ended, and nobody has it. That is the price: no lock until all that was forgotten must have ended.", until: holds("B"), then: "keep B"},
			{text: "The quarantine is over, and B has the lock. There were never two holders."},
		},
	},
}

func holds(name string) func(*stage) bool {
	return func(st *stage) bool { return st.client(name).state() == "holds" }
}

func holdsNot(name string) func(*stage) bool {
	return func(st *stage) bool { return st.client(name).state() != "holds" }
}

func waits(name string) func(*stage) bool {
	return func(st *stage) bool { return st.client(name).waits }
}

func idle(name string) func(*stage) bool {
	return func(st *stage) bool { return st.client(name).call == nil }
}

// one waits until there are no longer two holders.
func one(st *stage) bool { return len(st.holders()) < 2 }

func (st *stage) client(name string) *client {
	for _, c := range st.clients {
		if c.name == name {
			return c
		}
	}
	panic("no client " + name)
}

// play begins a story, and ends another one.
func (p *playground) play(name string) error {
	for _, s := range stories {
		if s.name != name {
			continue
		}
		p.stopStory()
		if err := p.startOver(s.quarantine); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(p.ctx)
		t := &telling{story: s, cancel: cancel, done: make(chan struct{})}
		p.mu.Lock()
		p.story = t
		p.mu.Unlock()
		go func() {
			defer close(t.done)
			p.tell(ctx, t)
		}()
		return nil
	}
	return errUnknown
}

func (p *playground) stopStory() {
	p.mu.Lock()
	t := p.story
	p.story = nil
	p.mu.Unlock()
	if t != nil {
		t.cancel()
		<-t.done
	}
}

// tell plays a story to its end, or until somebody stops it.
func (p *playground) tell(ctx context.Context, t *telling) {
	defer t.cancel()
	for i, s := range t.steps {
		p.mu.Lock()
		t.step, t.text = i+1, s.text
		p.say(tale, "", "%s", s.text)
		p.mu.Unlock()
		if !sleep(ctx, p.pause) { // Time to read, before it happens.
			return
		}
		if !p.perform(ctx, s.does) || !p.await(ctx, s.until) || !p.perform(ctx, s.then) || !sleep(ctx, p.pause) {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.story == t {
		p.story = nil
		p.say(tale, "", "That was “%s”. Everything is as the story left it: go on from here, or play another one.", t.title)
	}
}

// perform presses buttons, one after the other.
func (p *playground) perform(ctx context.Context, buttons string) bool {
	for what := range strings.SplitSeq(buttons, ",") {
		verb, whom, _ := strings.Cut(what, " ")
		if what != "" && (p.act(verb, whom) != nil || !sleep(ctx, p.pause/6)) {
			return false
		}
	}
	return true
}

// await waits for what a step is about, which may take a ttl and more.
func (p *playground) await(ctx context.Context, until func(*stage) bool) bool {
	for end := time.Now().Add(3*p.ttl + 4*nodeTimeout); until != nil; {
		p.mu.Lock()
		come := until(p.st)
		p.mu.Unlock()
		if come || time.Now().After(end) {
			return true
		}
		if !sleep(ctx, lookEvery/2) {
			return false
		}
	}
	return true
}
