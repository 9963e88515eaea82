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

// A claim is a part of a sentence, and what must be so when it is said.
type claim struct {
	part *regexp.Regexp
	so   func(w *witness, m []string) bool
}

const (
	someNodes = `(no node|[nN]odes? [\d, and]*\d)`
	aTime     = `(\d+\.\d) s`
)

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

// plans are what a story is about to do, or waits for, which is not so yet.
var plans = []claim{
	says(`^Next, .*CLIENT asks for the lock`, func(w *witness, m []string) bool { return !w.has(m[1]) && !w.waits(m[1]) }),
	says(`^Next, .*CLIENT extends its lock no more`, func(w *witness, m []string) bool { return w.has(m[1]) && w.st.client(m[1]).keeping != nil }),
	says(`^Next, .*CLIENT releases the lock`, func(w *witness, m []string) bool { return w.has(m[1]) }),
	says(`^Next, .*CLIENT is suspended`, func(w *witness, m []string) bool { return w.st.client(m[1]).awake == nil }),
	says(`^Next, .*CLIENT goes on`, func(w *witness, m []string) bool { return w.st.client(m[1]).awake != nil }),
	says(`^Next, .*CLIENT writes to the register`, func(w *witness, m []string) bool { return w.st.wrote != m[1] && w.st.refused != m[1] }),
	says(`^Next, .*NODES (?:is|are) killed`, func(w *witness, m []string) bool { return w.allAre(m[1], "") }),
	says(`^Next, .*NODES (?:is|are) restarted with (?:its|their) keys`, func(w *witness, m []string) bool { return w.allAre(m[1], down) }),
	says(`^Next, .*NODES (?:is|are) restarted without`, func(w *witness, m []string) bool { return w.store(m[1], "A", need) }),
	says(`^Waiting until client ([AB]) has the lock`, func(w *witness, m []string) bool { return !w.st.client(m[1]).keeps() }),
	says(`^Waiting until client B stands in line`, func(w *witness, _ []string) bool { return !w.st.client("B").waits }),
	says(`^Waiting until the time of ([AB])'s lock is over`, func(w *witness, m []string) bool { return w.has(m[1]) }),
	says(`^Waiting until only one of them`, func(w *witness, _ []string) bool { return len(w.holders()) > 1 }),
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

// stored is whose key a server stores, as it says itself.
func (w *witness) stored(node string) string {
	i, _ := strconv.Atoi(node)
	keys, err := w.st.nodes[i-1].server.Keys()
	assert.Nil(w.t, err) //nolint:testifylint // It is called on several goroutines, which require must not end.
	_, owner, _ := strings.Cut(keys[resource].Value, " owner=")
	return owner
}

// store reports whether all of these nodes, and at least so many, store the client's key.
func (w *witness) store(nodes, client string, least int) bool {
	all := digits(nodes)
	return len(all) >= least && !slices.ContainsFunc(all, func(n string) bool { return w.stored(n) != client })
}

// without reports whether none of these nodes stores the client's key.
func (w *witness) without(nodes, client string) bool {
	return !slices.ContainsFunc(digits(nodes), func(n string) bool { return w.stored(n) == client })
}

// slow reports whether messages take their time: then a node may have said something before it was killed or frozen.
func (w *witness) slow() bool {
	return w.p.slow || slices.ContainsFunc(w.st.nodes, func(n *node) bool { return n.fault == delayed })
}

// fault of a node, as the buttons have made it.
func (w *witness) fault(node string) string {
	for _, n := range w.st.nodes {
		if n.name == node {
			return n.fault
		}
	}
	return "unknown"
}

func (w *witness) allAre(nodes, fault string) bool {
	return !slices.ContainsFunc(digits(nodes), func(n string) bool { return w.fault(n) != fault })
}

// reach reports whether each of these nodes can answer.
func (w *witness) reach(nodes string) bool {
	return !slices.ContainsFunc(digits(nodes), func(n string) bool { return w.fault(n) == down || w.fault(n) == frozen })
}

// has reports whether the client has a lock by its own library.
func (w *witness) has(client string) bool {
	c := w.st.client(client)
	return c.lock != nil && c.lock.Err() == nil
}

func (w *witness) holders() (all string) {
	for _, name := range clientNames {
		if w.has(name) {
			all += name
		}
	}
	return all
}

// left reports whether the client's lock lasts for so long.
func (w *witness) left(client, text string) bool {
	s, err := strconv.ParseFloat(text, 64)
	return assert.NoError(w.t, err) && w.has(client) &&
		(time.Until(w.st.client(client).lock.Until())-time.Duration(s*float64(time.Second))).Abs() < 100*time.Millisecond
}

func (w *witness) answering() (n int) {
	for _, node := range w.st.nodes {
		if w.reach(node.name) {
			n++
		}
	}
	return n
}

func (w *witness) waits(client string) bool {
	c := w.st.client(client)
	return c.call != nil && c.lock == nil
}

// says makes a claim. A sentence about nodes and clients has their names where the pattern has groups.
func says(part string, so func(w *witness, m []string) bool) claim {
	part = strings.NewReplacer("NODES", someNodes, "CLIENT", `[cC]lient ([A-D])`, "TIME", aTime).Replace(part)
	return claim{regexp.MustCompile(part), so}
}

func always(*witness, []string) bool { return true }

var numbers = []string{"No", "One", "Two", "Three", "Four", "Five"}

// claims are of all sentences, those of stories at the end. What is a rule rather than a fact is always so.
var claims = []claim{
	says(`nobody has the lock`, func(w *witness, _ []string) bool { return w.holders() == "" }),
	says(`starts over|^The clients |^In slow motion|^Messages are fast`, always),
	says(`CLIENT has the lock: NODES said yes, which (?:is|are) (\d) of 5`, func(w *witness, m []string) bool {
		return w.holders() == m[1] && w.store(m[2], m[1], need) && m[3] == strconv.Itoa(len(digits(m[2])))
	}),
	says(`CLIENT has the lock: .* valid for TIME`, func(w *witness, m []string) bool { return w.left(m[1], m[2]) }),
	says(`CLIENT has extended its lock, .* NODES said yes, so it is valid for another TIME`, func(w *witness, m []string) bool {
		return w.store(m[2], m[1], need) && (w.slow() || w.reach(m[2])) && w.left(m[1], m[3])
	}),
	says(`CLIENT keeps its lock`, func(w *witness, m []string) bool { return w.has(m[1]) && w.st.client(m[1]).keeping != nil }),
	says(`CLIENT extends its lock no more. It has TIME left`, func(w *witness, m []string) bool {
		return w.st.client(m[1]).keeping == nil && w.left(m[1], m[2])
	}),
	says(`CLIENT has released the lock: NODES (?:has|have) deleted its key(?:, and NODES had none)?`, func(w *witness, m []string) bool {
		all := m[2] + m[3]
		return !w.has(m[1]) && len(digits(all)) >= need && (w.slow() || w.reach(all)) && w.without(all, m[1])
	}),
	says(`CLIENT has released the lock, but too few .*: NODES (?:has|have) deleted its key(?:, and NODES had none)?`, func(w *witness, m []string) bool {
		all := m[2] + m[3]
		return !w.has(m[1]) && len(digits(all)) < need && (w.slow() || w.reach(all)) && w.without(all, m[1])
	}),
	says(`CLIENT must wait`, func(w *witness, m []string) bool { return w.waits(m[1]) }),
	says(`CLIENT waits in line`, func(w *witness, m []string) bool { return w.waits(m[1]) }),
	says(`NODES said that CLIENT has the lock`, func(w *witness, m []string) bool {
		return w.slow() || w.store(m[1], m[2], 1) // What they said may be outdated before it arrives.
	}),
	says(`NODES kept it for the next in line`, always),
	says(`NODES abstained, in quarantine`, func(w *witness, m []string) bool { return w.forgot(m[1]) }),
	says(`NODES could not be reached`, func(w *witness, m []string) bool {
		return time.Since(w.st.disturbed) < 2*nodeTimeout || !slices.ContainsFunc(digits(m[1]), func(n string) bool { return w.reach(n) })
	}),
	says(`NODES did not answer in time`, func(w *witness, m []string) bool { return w.allAre(m[1], frozen) }),
	says(`NODES did not have its key`, func(w *witness, m []string) bool { return w.without(m[1], w.who) }),
	says(`there is no second holder`, func(w *witness, _ []string) bool { return len(w.holders()) < 2 }),
	says(`CLIENT gets no lock`, func(w *witness, m []string) bool { return !w.has(m[1]) && !w.waits(m[1]) }),
	says(`CLIENT gives up`, func(w *witness, m []string) bool { return !w.has(m[1]) && !w.waits(m[1]) }),
	says(`CLIENT cannot extend its lock.* It has it until`, func(w *witness, m []string) bool { return w.has(m[1]) }),
	says(`CLIENT's lock has ended`, func(w *witness, m []string) bool { return !w.has(m[1]) }),
	says(`no majority has extended it`, func(w *witness, _ []string) bool { return w.answering() < need }),
	says(`([A-D]) is suspended, and does not know`, func(w *witness, m []string) bool { return w.st.client(m[1]).awake != nil }),
	says(`CLIENT is suspended: `, func(w *witness, m []string) bool { return w.st.client(m[1]).awake != nil }),
	says(`CLIENT is suspended: .* which has TIME left`, func(w *witness, m []string) bool { return w.left(m[1], m[2]) }),
	says(`CLIENT goes on`, func(w *witness, m []string) bool { return w.st.client(m[1]).awake == nil }),
	says(`CLIENT goes on, in time: .* for TIME`, func(w *witness, m []string) bool { return w.left(m[1], m[2]) }),
	says(`CLIENT goes on. Its lock has ended, and CLIENT has it now`, func(w *witness, m []string) bool { return w.holders() == m[2] }),
	says(`CLIENT goes on, and learns that its lock has ended`, func(w *witness, m []string) bool { return !w.has(m[1]) }),
	says(`CLIENT writes: `, func(w *witness, m []string) bool { return w.has(m[1]) && w.wrote(m[1]) }),
	says(`CLIENT writes without the lock`, func(w *witness, m []string) bool { return !w.has(m[1]) && w.wrote(m[1]) }),
	says(`CLIENT's write is refused: .* of CLIENT's later lock`, func(w *witness, m []string) bool { return w.fenced(m[1]) && w.wrote(m[2]) }),
	says(`CLIENT calls Lock`, func(w *witness, m []string) bool { return w.waits(m[1]) }),
	says(`(\w+) clients have the lock! NODES said yes to CLIENT, though CLIENT has it for another TIME: (\w+) of five`, func(w *witness, m []string) bool {
		without := 0
		for _, n := range w.st.nodes {
			if w.stored(n.name) != m[4] {
				without++
			}
		}
		return numbers[len(w.holders())] == m[1] && w.has(m[3]) && w.store(m[2], m[3], need) && w.left(m[4], m[5]) &&
			strings.EqualFold(numbers[without], m[6])
	}),

	says(`^Node (\d) was killed`, func(w *witness, m []string) bool { return w.fault(m[1]) == down }),
	says(`^Node (\d) is frozen`, func(w *witness, m []string) bool { return w.fault(m[1]) == frozen }),
	says(`^Node (\d) is slow`, func(w *witness, m []string) bool { return w.fault(m[1]) == delayed }),
	says(`^Node (\d) (?:goes on|is as fast|was restarted)`, func(w *witness, m []string) bool { return w.fault(m[1]) == "" }),
	says(`(No|one|two|Three|Four|Five)(?: node)? (?:of five )?answers?\b`, func(w *witness, m []string) bool {
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
		return w.holders() == m[1] && w.st.client(m[1]).keeping != nil && len(digits(m[2])) == w.storing(m[1]) && w.store(m[2], m[1], need)
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
		return w.holders() == m[2] && w.reach(m[3]) && w.store(m[3], m[2], need) && m[4] == m[2] && w.st.client(m[2]).keeping != nil
	}),
	says(`CLIENT has its lock until its time is over, as there is no majority`, func(w *witness, m []string) bool {
		return w.has(m[1]) && w.answering() < need
	}),
	says(`^The time of .*Nobody has the lock now|nobody has it now`, func(w *witness, _ []string) bool { return w.holders() == "" }),
	says(`CLIENT was refused. For all that NODES can know`, func(w *witness, m []string) bool {
		return !w.has(m[1]) && !w.waits(m[1]) && len(digits(m[2])) == w.answering() && w.reach(m[2]) && w.answering() < need
	}),
	says(`nodes are back with their keys. CLIENT .* from NODES`, func(w *witness, m []string) bool {
		return w.answering() == len(w.st.nodes) && w.holders() == m[1] && w.store(m[2], m[1], need)
	}),
	says(`CLIENT's process is suspended: .* Nobody extends its lock now`, func(w *witness, m []string) bool {
		c := w.st.client(m[1])
		return w.has(m[1]) && c.awake != nil && c.keeping == nil
	}),
	says(`The time of A's lock is over, and CLIENT has got it from NODES`, func(w *witness, m []string) bool {
		return errors.Is(w.st.client("A").lock.Err(), redlock.ErrExpired) && w.holders() == m[1] && w.store(m[2], m[1], need)
	}),
	says(`CLIENT has written. Its fence is larger than A's`, func(w *witness, m []string) bool {
		c := w.st.client(m[1])
		return w.wrote(m[1]) && c.fence == w.st.guard.Seen() && c.fence > w.st.client("A").fence
	}),
	says(`CLIENT goes on in the middle .* now CLIENT has it`, func(w *witness, m []string) bool {
		return w.st.client(m[1]).awake == nil && w.holders() == m[2]
	}),
	says(`CLIENT has tried to write. The register has refused it`, func(w *witness, m []string) bool { return w.fenced(m[1]) }),
	says(`^Two clients have the lock: .* NODES had nothing on disk, and said yes to CLIENT, too`, func(w *witness, m []string) bool {
		return len(w.holders()) == 2 && w.store(m[1], m[2], need) && w.forgot(m[1])
	}),
	says(`^For TIME, two clients had the lock`, func(w *witness, m []string) bool { return len(w.holders()) < 2 && w.twoFor(m[1]) }),
	says(`The next story shows the cure`, always),
	says(`the option WithQuarantine`, func(w *witness, _ []string) bool { return w.p.quarantine }),
	says(`NODES were restarted without their keys, and abstain. So CLIENT has to wait for CLIENT`, func(w *witness, m []string) bool {
		return w.forgot(m[1]) && w.waits(m[2]) && w.holders() == m[3]
	}),
	says(`CLIENT has got the lock from NODES, as the quarantine of NODES is over. Nobody had it for TIME. There were never two`, func(w *witness, m []string) bool {
		return w.holders() == m[1] && w.store(m[2], m[1], need) && w.forgot(m[3]) && w.store(m[3], m[1], 1) && w.twoFor("0.0")
	}),
	says(`^That was “|ends here`, always),
}

func (w *witness) wrote(client string) bool {
	return w.st.wrote == client && w.st.guard.Seen() == w.st.client(client).fence
}

func (w *witness) fenced(client string) bool {
	return w.st.guard.Seen() > w.st.client(client).fence && w.st.wrote != client
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

// forgot reports whether all of these nodes were restarted without their keys.
func (w *witness) forgot(nodes string) bool {
	return !slices.ContainsFunc(digits(nodes), func(n string) bool {
		return !slices.ContainsFunc(w.st.nodes, func(node *node) bool { return node.name == n && node.emptied })
	})
}

// twoFor reports whether two clients had the lock for so long, by what was drawn.
func (w *witness) twoFor(text string) bool {
	var long time.Duration
	for _, s := range w.p.rec.spans {
		if s.What == "two holders" {
			long += time.Duration(s.To-s.From) * time.Millisecond
		}
	}
	s, err := strconv.ParseFloat(text, 64)
	return assert.NoError(w.t, err) && (long-time.Duration(s*float64(time.Second))).Abs() < 100*time.Millisecond
}
