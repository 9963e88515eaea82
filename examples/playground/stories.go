package main

import (
	"fmt"
	"slices"
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
const forget = "client A extends its lock no more, nodes 1, 2 and 3 are restarted without their keys and client B asks for the lock"

var stories = []story{
	{
		name: "majority", title: "A majority dies", about: "Two dead nodes do no harm. With three, there are no locks for a while.",
		steps: []step{
			{does: "hold A", next: "client A asks for the lock", waits: "client A has the lock", says: keepsIt},
			{does: "kill 4,kill 5", next: "nodes 4 and 5 are killed", waits: "both are down", says: func(st *stage) string {
				return say(len(st.with(down)) == 2, "%s are dead. The other three are still a majority.", capital(nodesText(st.with(down))))
			}},
			{waits: "client A has extended its lock without them", says: func(st *stage) string {
				a := st.client("A")
				alone := !slices.ContainsFunc(a.latest.yes, func(n string) bool { return slices.Contains(st.with(down), n) })
				return say(a.keeps() && a.latest.at.After(st.disturbed) && alone && a.latest.took < nodeTimeout,
					"Since then, client A has extended its lock with the votes of %s. Nobody waits for the dead.", nodesText(a.latest.yes))
			}},
			{does: "hold B", next: "client B asks for the lock", waits: "client B stands in line", says: behind("B", "A")},
			{does: "release A", next: "client A releases the lock", waits: "client B has the lock", says: func(st *stage) string {
				return say(st.client("A").lock == nil && st.client("B").keeps(),
					"Client A has released the lock, and client B has got it from %s. B keeps it alive.", nodesText(st.client("B").yes))
			}},
			{does: "kill 3", next: "node 3 is killed", waits: "a third node is down", says: func(st *stage) string {
				return say(st.up() < need && st.client("B").state() == "holds", "%s are dead. Client B has its lock until its time is over, "+
					"as there is no majority left to extend it.", capital(nodesText(st.with(down))))
			}},
			{waits: "the time of B's lock is over", says: func(st *stage) string {
				return say(st.up() < need && len(st.holders()) == 0, "The time of client B's lock is over. Nobody has the lock now.")
			}},
			{does: "lock C", next: "client C asks for the lock", waits: "client C is refused", says: func(st *stage) string {
				c := st.client("C")
				return say(st.up() < need && len(st.with("")) > 0 && c.state() == "" && c.refusal != nil,
					"Client C was refused. For all that %s can know, the other nodes may have granted the lock to somebody.", nodesText(st.with("")))
			}},
			{
				does: "restart 3,restart 4,restart 5,lock C",
				next: "nodes 3, 4 and 5 are restarted with their keys and client C asks for the lock", waits: "client C has the lock", says: func(st *stage) string {
					return say(st.up() == len(st.nodes) && st.client("C").state() == "holds",
						"The nodes are back with their keys. Client C has found them by itself, and has got the lock from %s.", nodesText(st.client("C").yes))
				}},
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
			{does: "write B", next: "client B writes to the register", waits: "client B has written", says: func(st *stage) string {
				b := st.client("B")
				return say(st.wrote == "B" && b.fence > st.client("A").fence && st.guard.Seen() == b.fence,
					"Client B has written. Its fence is larger than A's, and the register remembers it.")
			}},
			{does: "resume A", next: "client A goes on", waits: "client A goes on", says: func(st *stage) string {
				return say(st.client("A").awake == nil && st.refused == "" && len(st.holders()) == 1 && st.client("B").state() == "holds",
					"Client A goes on in the middle of its work. It had looked at its lock before it fell asleep; now client B has it.")
			}},
			{does: "write A", next: "client A writes to the register", waits: "client A has tried to write", says: func(st *stage) string {
				return say(st.wrote == "B" && st.refused == "A" && st.guard.Seen() > st.client("A").fence,
					"Client A has tried to write. The register has refused it, as it has seen a larger fence. No lock can do that, but a fence can.")
			}},
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
			{does: "hold A", next: "client A asks for the lock", waits: "client A has the lock", says: func(st *stage) string {
				text := keepsIt(st)
				return say(text != "" && st.p.quarantine, "The same again, but the clients have the option WithQuarantine. %s", text)
			}},
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
