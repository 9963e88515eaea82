package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A node is one of the five servers. Its state is guarded by the playground's mutex.
type node struct {
	st     *stage
	name   string // "1" to "5"
	server *testcluster.Node

	fault    string    // down, frozen, delayed, or ""
	holder   string    // whose key it has
	expires  time.Time // when that key does
	abstains time.Time // until when it is in quarantine, as far as is known
}

// The faults of a node.
const (
	down    = "down"
	frozen  = "frozen"
	delayed = "delayed"
)

// A deed is what can be done to a node.
type deed struct {
	fault string                        // what the node has then
	do    func(*testcluster.Node) error // nil: only its messages become slower or faster
	kind  string                        // of the sentence
	says  string                        // behind the node's name
	left  bool                          // it says how many nodes answer, too
}

// deeds are all of them but empty.
var deeds = map[string]deed{
	"kill": {fault: down, do: (*testcluster.Node).Stop, kind: fault, says: " was killed.", left: true},
	"restart": {do: restart, kind: info, says: " was restarted. It has kept its keys, " +
		"as a server does that writes each of them to its disk."},
	"freeze": {
		fault: frozen, do: (*testcluster.Node).Hang, kind: fault, left: true,
		says: " is frozen: it is connected, and answers nobody.",
	},
	"thaw": {do: (*testcluster.Node).Resume, kind: info, says: " goes on, and works off what it was sent meanwhile."},
	"delay": {fault: delayed, kind: fault, says: " is slow: an answer takes more than a second. " +
		"Nobody waits for it who has a majority without it."},
	"hurry": {kind: info, says: " is as fast as before."},
}

// restart brings a node back with its keys, as a server with appendfsync always does.
func restart(n *testcluster.Node) error { return n.Restart(true) }

// suffer has something be done to the node. The caller has p.mu, as that of empty has.
func (n *node) suffer(d deed) error {
	if n.fault == d.fault {
		return nil
	}
	if d.do != nil {
		if err := d.do(n.server); err != nil {
			return err
		}
	}
	restarted := n.fault == down
	n.become(d.fault)
	says := d.says
	if d.left {
		says += " " + n.st.left()
	}
	if restarted && n.st.quarantine {
		says += " Clients cannot know that, so it is in quarantine."
	}
	n.say(d.kind, "%s", says)
	return nil
}

// say says something of the node: the text goes on behind its name.
func (n *node) say(kind, format string, args ...any) {
	n.st.p.say(kind, "", "Node "+n.name+format, args...)
}

// become sets the node's fault.
func (n *node) become(fault string) {
	n.fault = fault
	var delay time.Duration // of a message to or from the node
	if fault == delayed {
		delay = 600 * time.Millisecond
	}
	n.server.Proxy().SetDelay(delay, delay)
}

// empty restarts the node without its keys, as a server without persistence does.
func (n *node) empty() error {
	st := n.st
	st.readKeys()
	whose := n.holder
	if err := n.server.Restart(false); err != nil {
		return err
	}
	n.become("")
	st.readKeys()
	had := "It had none of a lock that is held."
	if slices.ContainsFunc(st.holders(), func(c *client) bool { return c.name == whose }) {
		left := st.nodesOf(whose)
		had = fmt.Sprintf("It has forgotten that client %s has the lock. %s still %s", whose, capital(nodesText(left)), verb(left, "knows", "know"))
		if len(left) < need {
			had += ", which is no majority"
		}
		had += "."
	}
	if st.quarantine {
		had += " It is in quarantine now, and grants nothing until all that it may have forgotten has ended."
	}
	n.say(fault, " was restarted without its keys. %s", had)
	return nil
}

// left says how many nodes answer, and what that means. A node in quarantine answers, but grants nothing.
func (st *stage) left() string {
	up, abstain := st.up(), st.abstainers()
	answer := count(up) + " of five answer"
	if len(abstain) > 0 {
		answer += fmt.Sprintf(", of which %s %s in quarantine", nodesText(abstain), verb(abstain, "is", "are"))
	}
	switch grant := up - len(abstain); {
	case grant > need:
		return answer + ". Three are enough."
	case grant == need:
		return answer + ", which is just enough: no other node may fail."
	case up >= need:
		return answer + ", and three have to grant a lock: nobody can get it."
	default:
		return answer + ", and three are needed: nobody can get or extend the lock."
	}
}

// those are the nodes for which it is so.
func (st *stage) those(so func(n *node) bool) (names []string) {
	for _, n := range st.nodes {
		if so(n) {
			names = append(names, n.name)
		}
	}
	return names
}

// nodesOf are the nodes that have a client's key.
func (st *stage) nodesOf(client string) []string {
	return st.those(func(n *node) bool { return client != "" && n.holder == client })
}

// abstainers are the nodes that answer, but are in quarantine.
func (st *stage) abstainers() []string {
	return st.those(func(n *node) bool { return n.answers() && !n.abstains.IsZero() })
}

// up is how many nodes answer.
func (st *stage) up() int { return len(st.those((*node).answers)) }

func (n *node) answers() bool { return n.fault == "" || n.fault == delayed }
