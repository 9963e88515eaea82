package main

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed6c881748/redlock/redlock"
)

// A witness looks at what the servers store, at the clients' locks and at the register whenever something is said, and
// says whether that is so.
type witness struct {
	t   *testing.T
	p   *playground
	st  *stage
	who string // the client that the sentence is about; "": none
}

// A fact says whether something is so, of what the groups of a pattern have found.
type fact = func(w *witness, m []string) bool

// A claim is a part of a sentence, and what must be so when it is said.
type claim struct {
	part *regexp.Regexp
	so   fact
}

// says makes a claim. A sentence about nodes and clients has their names where the pattern has groups.
func says(part string, so fact) claim {
	part = strings.NewReplacer(
		"NODES", `(no node|[nN]odes? [\d, and]*\d)`, "CLIENT", `[cC]lient ([A-D])`, "TIME", `(\d+\.\d) s`,
	).Replace(part)
	return claim{regexp.MustCompile(part), so}
}

// bearWitness holds all that is said against what is so.
func bearWitness(t *testing.T, p *playground) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rec.told = func(s sentence) {
		w := &witness{t: t, p: p, st: p.st, who: s.Who}
		known := false
		for _, c := range claims {
			for _, m := range c.part.FindAllStringSubmatch(s.Text, -1) {
				known = true
				assert.True(t, c.so(w, m), "not so at %d ms: %q of %q: %s", s.At, m[0], s.Text, w.facts())
			}
		}
		assert.True(t, known, "nothing in it is checked: %s", s.Text)
	}
}

// shown reports whether a text is so that is shown while a story is told.
func (w *witness) shown(text string) bool {
	known := strings.HasPrefix(text, "Now ") || strings.HasPrefix(text, "Waiting until ")
	of := claims
	if known || strings.HasPrefix(text, "Next, ") {
		of = plans
	}
	for _, c := range of {
		for _, m := range c.part.FindAllStringSubmatch(text, -1) {
			known = true
			if !c.so(w, m) {
				return false
			}
		}
	}
	return known
}

// facts are who holds the lock, what the servers store, and what is wrong with them.
func (w *witness) facts() string {
	var all []string
	for _, n := range w.st.nodes {
		all = append(all, n.name+":"+w.stored(n.name)+n.fault)
	}
	return "holders " + w.holders() + ", keys " + strings.Join(all, " ")
}

func digits(text string) []string { return regexp.MustCompile(`\d`).FindAllString(text, -1) }

// all reports whether it is so of each of these nodes.
func all(nodes string, so func(node string) bool) bool {
	return !slices.ContainsFunc(digits(nodes), func(n string) bool { return !so(n) })
}

func (w *witness) node(name string) *node {
	i, _ := strconv.Atoi(name)
	return w.st.nodes[i-1]
}

// stored is whose key a server stores, as it says itself.
func (w *witness) stored(node string) string {
	keys, err := w.node(node).server.Keys()
	assert.Nil(w.t, err) //nolint:testifylint // It is called on several goroutines, which require must not end.
	_, owner, _ := strings.Cut(keys[resource].Value, " owner=")
	return owner
}

// storing is how many servers store the client's key.
func (w *witness) storing(client string) (n int) {
	for _, node := range w.st.nodes {
		if w.stored(node.name) == client {
			n++
		}
	}
	return n
}

// store reports whether all of these nodes, and at least so many, store the client's key.
func (w *witness) store(nodes, client string, least int) bool {
	return len(digits(nodes)) >= least && all(nodes, func(n string) bool { return w.stored(n) == client })
}

// without reports whether none of these nodes stores the client's key.
func (w *witness) without(nodes, client string) bool {
	return all(nodes, func(n string) bool { return w.stored(n) != client })
}

// slow reports whether messages take their time: then what a node said may be outdated.
func (w *witness) slow() bool { return w.p.slow || len(w.st.with(delayed)) > 0 }

func (w *witness) allAre(nodes, fault string) bool {
	return all(nodes, func(n string) bool { return w.node(n).fault == fault })
}

// reach reports whether each of these nodes can answer.
func (w *witness) reach(nodes string) bool {
	return all(nodes, func(n string) bool { return w.node(n).fault != down && w.node(n).fault != frozen })
}

// forgot reports whether all of these nodes were restarted without their keys.
func (w *witness) forgot(nodes string) bool {
	return all(nodes, func(n string) bool { return w.node(n).emptied })
}

func (w *witness) answering() (n int) {
	for _, node := range w.st.nodes {
		if w.reach(node.name) {
			n++
		}
	}
	return n
}

// has reports whether the client has a lock by its own library.
func (w *witness) has(client string) bool {
	c := w.st.client(client)
	return c.lock != nil && c.lock.Err() == nil
}

func (w *witness) keeps(client string) bool {
	return w.has(client) && w.st.client(client).keeping != nil
}

func (w *witness) waits(client string) bool {
	c := w.st.client(client)
	return c.call != nil && c.lock == nil
}

func (w *witness) holders() (all string) {
	for _, name := range clientNames {
		if w.has(name) {
			all += name
		}
	}
	return all
}

// about reports whether a duration is what the text says, in seconds.
func (w *witness) about(d time.Duration, text string) bool {
	s, err := strconv.ParseFloat(text, 64)
	return assert.NoError(w.t, err) && (d-time.Duration(s*float64(time.Second))).Abs() < 100*time.Millisecond
}

// left reports whether the client's lock lasts for so long.
func (w *witness) left(client, text string) bool {
	return w.has(client) && w.about(time.Until(w.st.client(client).lock.Until()), text)
}

func (w *witness) wrote(client string) bool {
	return w.st.wrote == client && w.st.guard.Seen() == w.st.client(client).fence
}

func (w *witness) fenced(client string) bool {
	return w.st.guard.Seen() > w.st.client(client).fence && w.st.wrote != client
}

// Facts about the client that comes first in a sentence, or about nobody.
var (
	always    fact = func(*witness, []string) bool { return true }
	nobody    fact = func(w *witness, _ []string) bool { return w.holders() == "" }
	holds     fact = func(w *witness, m []string) bool { return w.has(m[1]) }
	holdsNot  fact = func(w *witness, m []string) bool { return !w.has(m[1]) }
	waits     fact = func(w *witness, m []string) bool { return w.waits(m[1]) }
	isIdle    fact = func(w *witness, m []string) bool { return !w.has(m[1]) && !w.waits(m[1]) }
	isAwake   fact = func(w *witness, m []string) bool { return w.st.client(m[1]).awake == nil }
	suspended fact = func(w *witness, m []string) bool { return w.st.client(m[1]).awake != nil }
)

// hasFault returns the fact that a node has this fault.
func hasFault(fault string) fact {
	return func(w *witness, m []string) bool { return w.allAre(m[1], fault) }
}

// plans are what a story is about to do, or waits for, which is not so yet.
var plans = []claim{
	says(`^Next, .*CLIENT asks for the lock`, isIdle),
	says(`^Next, .*CLIENT extends its lock no more`, func(w *witness, m []string) bool { return w.keeps(m[1]) }),
	says(`^Next, .*CLIENT releases the lock`, holds),
	says(`^Next, .*CLIENT is suspended`, isAwake),
	says(`^Next, .*CLIENT goes on`, suspended),
	says(`^Next, .*CLIENT writes to the register`, func(w *witness, m []string) bool {
		return w.st.wrote != m[1] && w.st.refused != m[1]
	}),
	says(`^Next, .*NODES (?:is|are) killed`, hasFault("")),
	says(`^Next, .*NODES (?:is|are) restarted with (?:its|their) keys`, hasFault(down)),
	says(`^Next, .*NODES (?:is|are) restarted without`, func(w *witness, m []string) bool { return w.store(m[1], "A", need) }),
	says(`^Waiting until client ([AB]) has the lock`, func(w *witness, m []string) bool { return !w.st.client(m[1]).keeps() }),
	says(`^Waiting until client B stands in line`, func(w *witness, _ []string) bool { return !w.st.client("B").waits }),
	says(`^Waiting until the time of ([AB])'s lock is over`, holds),
	says(`^Waiting until only one of them`, func(w *witness, _ []string) bool { return len(w.holders()) > 1 }),
}

var numbers = []string{"None", "One", "Two", "Three", "Four", "Five"}

// claims are of all sentences, those of stories at the end. What is a rule rather than a fact is always so.
var claims = []claim{
	says(`starts over|^The clients |^In slow motion|^Messages are fast|NODES kept it for the next in line`, always),
	says(`The next story shows the cure|^That was “|ends here`, always),
	says(`nobody has (?:the lock|it now)|^The time of .*Nobody has the lock now`, nobody),
	says(`CLIENT (?:must wait|calls Lock)`, waits),
	says(`CLIENT (?:gets no lock|gives up)`, isIdle),
	says(`CLIENT(?:'s lock has ended| goes on, and learns that its lock has ended)`, holdsNot),
	says(`CLIENT(?: is suspended: |'s lock has ended: its time is over. . is suspended, and does not know)`, suspended),
	says(`CLIENT goes on`, isAwake),
	says(`CLIENT (?:cannot extend its lock.* It has it until|keeps its lock)`, holds),
	says(`CLIENT (?:has the lock: .* valid for|extends its lock no more. It has|is suspended: .* has|goes on, in time: .* for) TIME`,
		func(w *witness, m []string) bool { return w.left(m[1], m[2]) }),
	says(`CLIENT (keeps its lock|extends its lock no more)`, func(w *witness, m []string) bool {
		return w.keeps(m[1]) == (m[2] == "keeps its lock")
	}),
	says(`CLIENT has the lock: NODES said yes, which (?:is|are) (\d) of 5`, func(w *witness, m []string) bool {
		return w.holders() == m[1] && w.store(m[2], m[1], need) && m[3] == strconv.Itoa(len(digits(m[2])))
	}),
	says(`CLIENT has extended its lock, .* NODES said yes, so it is valid for another TIME`, func(w *witness, m []string) bool {
		return w.store(m[2], m[1], need) && (w.slow() || w.reach(m[2])) && w.left(m[1], m[3])
	}),
	says(`CLIENT has released the lock(, but too few .*)?: NODES deleted its key(?:, and NODES had none)?`, func(w *witness, m []string) bool {
		all := m[3] + m[4]
		return !w.has(m[1]) && (len(digits(all)) < need) == (m[2] != "") && (w.slow() || w.reach(all) && w.without(all, m[1]))
	}),
	says(`NODES said that CLIENT has the lock`, func(w *witness, m []string) bool { return w.slow() || w.store(m[1], m[2], 1) }),
	says(`NODES abstained, in quarantine`, func(w *witness, m []string) bool { return w.forgot(m[1]) }),
	says(`NODES could not be reached`, func(w *witness, m []string) bool {
		return time.Since(w.st.disturbed) < 2*nodeTimeout || all(m[1], func(n string) bool { return !w.reach(n) })
	}),
	says(`NODES did not answer in time`, hasFault(frozen)),
	says(`NODES did not have its key`, func(w *witness, m []string) bool { return w.without(m[1], w.who) }),
	says(`there is no second holder`, func(w *witness, _ []string) bool { return len(w.holders()) < 2 }),
	says(`no majority has extended it`, func(w *witness, _ []string) bool { return w.answering() < need || !w.has(w.who) }),
	says(`CLIENT goes on(?:. Its lock has ended, and| in the middle .* now) CLIENT has it`, func(w *witness, m []string) bool {
		return w.holders() == m[2]
	}),
	says(`CLIENT writes: `, func(w *witness, m []string) bool { return w.has(m[1]) && w.wrote(m[1]) }),
	says(`CLIENT writes without the lock`, func(w *witness, m []string) bool { return !w.has(m[1]) && w.wrote(m[1]) }),
	says(`CLIENT's write is refused: .* of CLIENT's later lock`, func(w *witness, m []string) bool { return w.fenced(m[1]) && w.wrote(m[2]) }),
	says(`(\w+) clients have the lock! NODES said yes to CLIENT, though CLIENT has it for another TIME: (\w+) of five`,
		func(w *witness, m []string) bool {
			return numbers[len(w.holders())] == m[1] && w.has(m[3]) && w.store(m[2], m[3], need) && w.left(m[4], m[5]) &&
				strings.EqualFold(numbers[len(w.st.nodes)-w.storing(m[4])], m[6])
		}),

	says(`^(Node \d) was killed`, hasFault(down)),
	says(`^(Node \d) is frozen`, hasFault(frozen)),
	says(`^(Node \d) is slow`, hasFault(delayed)),
	says(`^(Node \d) (?:goes on|is as fast|was restarted)`, hasFault("")),
	says(`(none|one|two|Three|Four|Five) of five answer\b`, func(w *witness, m []string) bool {
		return strings.EqualFold(numbers[w.answering()], m[1])
	}),
	says(`^Node (\d) was restarted without its keys`, func(w *witness, m []string) bool { return w.stored(m[1]) == "" }),
	says(`It has forgotten that CLIENT has the lock. NODES still knows?`, func(w *witness, m []string) bool {
		return w.has(m[1]) && (strings.EqualFold(m[2], "no node") || w.store(m[2], m[1], 1))
	}),
	says(`which is no majority`, func(w *witness, _ []string) bool {
		return !slices.ContainsFunc(clientNames, func(name string) bool { return w.has(name) && w.storing(name) >= need })
	}),

	says(`CLIENT has the lock, and keeps it alive. NODES store its key`, func(w *witness, m []string) bool {
		return w.holders() == m[1] && w.keeps(m[1]) && len(digits(m[2])) == w.storing(m[1]) && w.store(m[2], m[1], need)
	}),
	says(`NODES are dead`, func(w *witness, m []string) bool {
		return w.allAre(m[1], down) && w.answering() == len(w.st.nodes)-len(digits(m[1]))
	}),
	says(`other three are still a majority`, func(w *witness, _ []string) bool { return w.answering() == need }),
	says(`Since then, CLIENT has extended its lock with the votes of NODES`, func(w *witness, m []string) bool {
		return w.has(m[1]) && w.reach(m[2]) && w.store(m[2], m[1], need) && w.answering() == need
	}),
	says(`CLIENT wants the lock, too, and has to wait, as CLIENT has it`, func(w *witness, m []string) bool {
		return w.waits(m[1]) && w.holders() == m[2]
	}),
	says(`CLIENT has released the lock, and CLIENT has got it from NODES. (\w) keeps it alive`, func(w *witness, m []string) bool {
		return w.holders() == m[2] && w.reach(m[3]) && w.store(m[3], m[2], need) && m[4] == m[2] && w.keeps(m[2])
	}),
	says(`CLIENT has its lock until its time is over, as there is no majority`, func(w *witness, m []string) bool {
		return w.has(m[1]) && w.answering() < need
	}),
	says(`CLIENT was refused. For all that NODES can know`, func(w *witness, m []string) bool {
		return isIdle(w, m) && len(digits(m[2])) == w.answering() && w.reach(m[2]) && w.answering() < need
	}),
	says(`nodes are back with their keys. CLIENT .* from NODES`, func(w *witness, m []string) bool {
		return w.answering() == len(w.st.nodes) && w.holders() == m[1] && w.store(m[2], m[1], need)
	}),
	says(`CLIENT's process is suspended: .* Nobody extends its lock now`, func(w *witness, m []string) bool {
		return w.has(m[1]) && !w.keeps(m[1]) && suspended(w, m)
	}),
	says(`The time of A's lock is over, and CLIENT has got it from NODES`, func(w *witness, m []string) bool {
		return errors.Is(w.st.client("A").lock.Err(), redlock.ErrExpired) && w.holders() == m[1] && w.store(m[2], m[1], need)
	}),
	says(`CLIENT has written. Its fence is larger than A's`, func(w *witness, m []string) bool {
		return w.wrote(m[1]) && w.fenced("A")
	}),
	says(`CLIENT has tried to write. The register has refused it`, func(w *witness, m []string) bool { return w.fenced(m[1]) }),
	says(`^Two clients have the lock: .* NODES had nothing on disk, and said yes to CLIENT, too`, func(w *witness, m []string) bool {
		return len(w.holders()) == 2 && w.store(m[1], m[2], need) && w.forgot(m[1])
	}),
	says(`^For TIME, two clients had the lock`, func(w *witness, m []string) bool {
		return len(w.holders()) < 2 && w.about(w.st.two(), m[1])
	}),
	says(`the option WithQuarantine`, func(w *witness, _ []string) bool { return w.st.quarantine }),
	says(`NODES were restarted without their keys, and abstain. So CLIENT has to wait for CLIENT`, func(w *witness, m []string) bool {
		return w.forgot(m[1]) && w.waits(m[2]) && w.holders() == m[3]
	}),
	says(`CLIENT has got the lock from NODES, as the quarantine of NODES is over. .* There were never two`, func(w *witness, m []string) bool {
		return w.holders() == m[1] && w.store(m[2], m[1], need) && w.forgot(m[3]) && w.store(m[3], m[1], 1) && w.st.two() == 0
	}),
}
