package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A story plays by itself, on a fresh stage, and says after each step what has come of it.
type story struct {
	name, title, about string
	quarantine         bool
	steps              []step
}

type step struct {
	does  string // what buttons do, separated by commas; "hold A" is to lock, and to keep alive what that gets
	next  string // that, in words
	waits string // what the step waits for, to be shown meanwhile

	// says is the step's sentence, made of what has happened. It is "" if it is not so, or not yet. The caller has p.mu.
	says func(*stage) string
}

// forget is what two stories have in common.
const forget = "client A extends its lock no more, nodes 1, 2 and 3 are restarted without their keys " +
	"and client B asks for the lock"

var stories = []story{
	{
		name: "majority", title: "A majority dies", about: "Two dead nodes do no harm. With three, there are no locks for a while.",
		steps: []step{
			{does: "hold A", next: "client A asks for the lock", waits: "client A has the lock", says: keepsIt},
			{
				does: "kill 4,kill 5", next: "nodes 4 and 5 are killed", waits: "both are down",
				says: func(st *stage) string {
					return say(len(st.with(down)) == 2, "%s are dead. The other three are still a majority.", capital(nodesText(st.with(down))))
				},
			},
			{waits: "client A has extended its lock without them", says: func(st *stage) string {
				a := st.client("A")
				alone := !slices.ContainsFunc(a.latest.yes, func(n string) bool { return slices.Contains(st.with(down), n) })
				return say(a.keeps() && a.latest.at.After(st.disturbed) && alone && a.latest.took < nodeTimeout,
					"Since then, client A has extended its lock with the votes of %s. Nobody waits for the dead.", nodesText(a.latest.yes))
			}},
			{does: "hold B", next: "client B asks for the lock", waits: "client B stands in line", says: behind("B", "A")},
			{
				does: "release A", next: "client A releases the lock", waits: "client B has the lock",
				says: func(st *stage) string {
					return say(st.client("A").lock == nil && st.client("B").keeps(),
						"Client A has released the lock, and client B has got it from %s. B keeps it alive.", nodesText(st.client("B").yes))
				},
			},
			{does: "kill 3", next: "node 3 is killed", waits: "a third node is down", says: func(st *stage) string {
				return say(st.up() < need && st.client("B").state() == "holds", "%s are dead. Client B has its lock until its time is over, "+
					"as there is no majority left to extend it.", capital(nodesText(st.with(down))))
			}},
			{waits: "the time of B's lock is over", says: func(st *stage) string {
				return say(st.up() < need && len(st.holders()) == 0, "The time of client B's lock is over. Nobody has the lock now.")
			}},
			{
				does: "lock C", next: "client C asks for the lock", waits: "client C is refused",
				says: func(st *stage) string {
					c := st.client("C")
					return say(st.up() < need && len(st.with("")) > 0 && c.state() == "" && c.refusal != nil,
						"Client C was refused. For all that %s can know, the other nodes may have granted the lock to somebody.", nodesText(st.with("")))
				},
			},
			{
				does: "restart 3,restart 4,restart 5,lock C",
				next: "nodes 3, 4 and 5 are restarted with their keys and client C asks for the lock", waits: "client C has the lock",
				says: func(st *stage) string {
					return say(st.up() == len(st.nodes) && st.client("C").state() == "holds",
						"The nodes are back with their keys. Client C has found them by itself, and has got the lock from %s.", nodesText(st.client("C").yes))
				},
			},
		},
	},
	{
		name: "suspended", title: "The holder is suspended", about: "Its lock ends while it sleeps. A fence stops what it writes too late.",
		steps: []step{
			{does: "hold A", next: "client A asks for the lock", waits: "client A has the lock", says: keepsIt},
			{does: "hold B", next: "client B asks for the lock", waits: "client B stands in line", says: behind("B", "A")},
			{does: "suspend A", next: "client A is suspended", waits: "it stands still", says: func(st *stage) string {
				a := st.client("A")
				return say(a.awake != nil && a.state() == "holds", "Just before it writes, client A's process is suspended: by a signal, by its "+
					"virtual machine, or by a very long pause of its runtime. Nobody extends its lock now.")
			}},
			{waits: "client B has the lock", says: func(st *stage) string {
				return say(st.client("A").state() == "believes" && st.client("B").keeps(), "The time of A's lock is over, and client B has got it from %s. "+
					"That is as it should be: a dead client must not keep the others out for ever.", nodesText(st.client("B").yes))
			}},
			{
				does: "write B", next: "client B writes to the register", waits: "client B has written",
				says: func(st *stage) string {
					b := st.client("B")
					return say(st.wrote == "B" && b.fence > st.client("A").fence && st.guard.Seen() == b.fence,
						"Client B has written. Its fence is larger than A's, and the register remembers it.")
				},
			},
			{does: "resume A", next: "client A goes on", waits: "client A goes on", says: func(st *stage) string {
				return say(st.client("A").awake == nil && st.refused == "" && len(st.holders()) == 1 && st.client("B").state() == "holds",
					"Client A goes on in the middle of its work. It had looked at its lock before it fell asleep; now client B has it.")
			}},
			{
				does: "write A", next: "client A writes to the register", waits: "client A has tried to write",
				says: func(st *stage) string {
					return say(st.wrote == "B" && st.refused == "A" && st.guard.Seen() > st.client("A").fence,
						"Client A has tried to write. The register has refused it, as it has seen a larger fence. No lock can do that, but a fence can.")
				},
			},
		},
	},
	{
		name: "forgotten", title: "Nodes lose their keys", about: "A majority forgets who has the lock, and a second client gets in.",
		steps: []step{
			{does: "hold A", next: "client A asks for the lock", waits: "client A has the lock", says: keepsIt},
			{
				does: "let A,empty 1,empty 2,empty 3,lock B", next: forget, waits: "client B has the lock, too",
				says: func(st *stage) string {
					forgot := meet(st.emptied(), st.client("B").yes)
					return say(len(st.holders()) == 2 && len(forgot) > 0, "Two clients have the lock: the red band shows for how long. %s had nothing on disk, "+
						"and said yes to client B, too. Redlock promises nothing where a majority forgets.", capital(nodesText(forgot)))
				},
			},
			{waits: "only one of them has it", says: func(st *stage) string {
				return say(len(st.holders()) < 2 && st.two() > 0, "For %s, two clients had the lock.", seconds(st.two()))
			}},
			{waits: "you have read this", says: func(*stage) string {
				return "The next story shows the cure: a node that may have forgotten something stays out until that has ended."
			}},
		},
	},
	{
		name: "quarantine", title: "… with quarantine", about: "The same loss. Nodes that have forgotten grant nothing until it is safe.", quarantine: true,
		steps: []step{
			{
				does: "hold A", next: "client A asks for the lock", waits: "client A has the lock",
				says: func(st *stage) string {
					text := keepsIt(st)
					return say(text != "" && st.quarantine, "The same again, but the clients have the option WithQuarantine. %s", text)
				},
			},
			{
				does: "let A,empty 1,empty 2,empty 3,hold B", next: forget, waits: "client B is refused",
				says: func(st *stage) string {
					b, a := st.client("B"), st.client("A")
					forgot := saying(b.refusal, quarantined)
					return say(len(forgot) > 0 && b.waits && a.state() == "holds",
						"%s were restarted without their keys, and abstain. So client B has to wait for client A, as it should.", capital(nodesText(forgot)))
				},
			},
			{waits: "the time of A's lock is over", says: func(st *stage) string {
				return say(len(st.holders()) == 0 && st.client("B").waits,
					"The time of A's lock is over, and nobody has it now. That is the price: no lock until all that was forgotten must have ended.")
			}},
			{waits: "client B has the lock", says: func(st *stage) string {
				a, b := st.client("A"), st.client("B")
				over := meet(st.emptied(), b.yes)
				return say(b.keeps() && len(over) > 0 && b.since.After(a.ended) && !a.ended.IsZero() && st.two() == 0,
					"Client B has got the lock from %s, as the quarantine of %s is over. Nobody had it for %s. There were never two holders.",
					nodesText(b.yes), nodesText(over), seconds(b.since.Sub(a.ended)))
			}},
		},
	},
}

// say is the sentence if it is so.
func say(so bool, format string, args ...any) string {
	if !so {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// keepsIt says that client A keeps its lock alive, and which nodes store its key.
func keepsIt(st *stage) string {
	stored := st.nodesOf("A")
	return say(st.client("A").keeps() && len(stored) >= need, "Client A has the lock, and keeps it alive. %s store its key.",
		capital(nodesText(stored)))
}

// behind says that a client waits for another one.
func behind(name, holder string) func(*stage) string {
	return func(st *stage) string {
		return say(st.client(name).waits && st.client(holder).state() == "holds",
			"Client %s wants the lock, too, and has to wait, as client %s has it.", name, holder)
	}
}

// meet are the names that both have.
func meet(some, others []string) []string {
	return slices.DeleteFunc(slices.Clone(some), func(n string) bool { return !slices.Contains(others, n) })
}

func (st *stage) client(name string) *client {
	for _, c := range st.clients {
		if c.name == name {
			return c
		}
	}
	panic("no client " + name)
}

// A telling is a story that is being told.
type telling struct {
	story
	step   int
	text   string
	cancel context.CancelFunc
	done   chan struct{}
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
		t := &telling{story: s, step: 1, text: s.steps[0].announces(), cancel: cancel, done: make(chan struct{})}
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
	last := "That was “" + t.title + "”. Everything is as the story left it: go on from here, or play another one."
	for i, s := range t.steps {
		if !p.tellStep(ctx, t, i+1, s) {
			last = "“" + t.title + "” ends here. It went on only if " + s.waits + ", and that has not come."
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.story == t && ctx.Err() == nil {
		p.story = nil
		p.say(tale, "", "%s", last)
	}
}

// tellStep announces what is done, does it, waits for what comes of it, and says that. A sentence is shown for as long as
// it takes to read it, but no longer than it is so.
func (p *playground) tellStep(ctx context.Context, t *telling, number int, s step) bool {
	p.show(t, number, s.announces())
	if s.does != "" {
		if !sleep(ctx, p.pause) {
			return false
		}
		p.show(t, number, "Now "+s.next+".")
		for what := range strings.SplitSeq(s.does, ",") {
			verb, whom, _ := strings.Cut(what, " ")
			if p.act(verb, whom) != nil || !sleep(ctx, min(p.pause/6, p.ttl/16)) {
				return false
			}
		}
	}
	text := p.await(ctx, t, number, s)
	for end := time.Now().Add(p.pause); text != "" && time.Now().Before(end); {
		if !sleep(ctx, min(p.pause, lookEvery/2)) {
			return false
		}
		if !p.isSo(func(st *stage) bool { return s.says(st) == text }) {
			break
		}
	}
	return text != ""
}

// announces says what the step is about to do, or what it waits for.
func (s *step) announces() string {
	if s.does == "" {
		return "Waiting until " + s.waits + "."
	}
	return "Next, " + s.next + "."
}

func (p *playground) show(t *telling, number int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.step != number || t.text != text {
		t.step, t.text = number, text
		p.rec.add()
	}
}

// await waits for what a step is about, which may take a ttl and more, and says it. It returns the sentence, or "" if
// that has not come.
func (p *playground) await(ctx context.Context, t *telling, number int, s step) (text string) {
	said := func(st *stage) bool {
		if text = s.says(st); text != "" {
			t.step, t.text = number, text
			p.say(tale, "", "%s", text)
		}
		return text != ""
	}
	for end := time.Now().Add(3*p.ttl + 4*nodeTimeout); !p.isSo(said); {
		p.show(t, number, "Waiting until "+s.waits+".")
		if time.Now().After(end) || !sleep(ctx, lookEvery/2) {
			return ""
		}
	}
	return text
}

// isSo looks at the stage as it is now.
func (p *playground) isSo(so func(*stage) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.st.readKeys()
	p.st.record()
	return so(p.st)
}
