package redlock

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// canonical gives the nodes an order that does not depend on their names, and returns
// their words. Nodes to which A may make as many connections are alike.
func (m *unknownModel) canonical(s *unknownState) (words [unknownNodes]uint64) {
	for i := range s.nodes {
		words[i] = s.nodes[i].word()
		for j := i; j > 0 && m.conns[j-1] == m.conns[j] && words[j-1] > words[j]; j-- {
			words[j-1], words[j] = words[j], words[j-1]
		}
	}
	return words
}

// An unknownVisit is how the search has come to a state: by which step, from which other.
type unknownVisit struct{ from, step int32 }

// search visits every state, breadth first, until one in which a property does not hold. It
// returns a shortest way there, a line per step, and how many states it has visited.
func (m *unknownModel) search() (trace []string, states int) {
	var s unknownState
	visited, visits := newStateSet(), []unknownVisit{{}}
	visited.addHash(s.hash(m.canonical(&s)))
	for latest := []unknownState{s}; len(latest) > 0; {
		first := len(visits) - len(latest)
		var found []unknownState
		for i := range latest {
			m.next(&latest[i])
			for k := range m.steps {
				st, visit := &m.steps[k], unknownVisit{int32(first + i), int32(k)}
				if st.broken != "" {
					return append(m.way(append(visits, visit)), st.broken), visited.len
				}
				if visited.addHash(st.to.hash(m.canonical(&st.to))) {
					visits, found = append(visits, visit), append(found, st.to)
				}
			}
		}
		latest = found
	}
	return nil, visited.len
}

// way describes the steps to the last visit.
func (m *unknownModel) way(visits []unknownVisit) (trace []string) {
	var steps []int32
	for at := int32(len(visits) - 1); at > 0; at = visits[at].from {
		steps = append(steps, visits[at].step)
	}
	var s unknownState
	m.names = true
	for _, k := range slices.Backward(steps) {
		m.next(&s)
		trace = append(trace, m.steps[k].name)
		s = m.steps[k].to
	}
	return trace
}

// An unknownSearch is a model that is searched through.
type unknownSearch struct {
	name  string
	rules unknownRules
}

// With duplicates: whatever comes, whenever. In order: what a node is left with.
var (
	anyOrder = unknownRules{ttl: 2, ticks: 2, conns: [3]uint8{2, 1, 1}, extensions: 1, duplicates: true}
	inOrder  = unknownRules{ttl: 2, conns: [3]uint8{2, 1, 1}, extensions: 2, alone: true, leftovers: true}
)

func (r unknownRules) with(change func(*unknownRules)) unknownRules {
	change(&r)
	return r
}

// usual searches take some seconds.
var usualUnknowns = []unknownSearch{
	{"exclusion", anyOrder.with(func(r *unknownRules) { r.other = true })},
	{"keys of a held lock", anyOrder.with(func(r *unknownRules) { r.alone, r.extensions, r.ticks = true, 2, 3 })},
	{"keys of a held lock, in order", anyOrder.with(func(r *unknownRules) { r.alone, r.duplicates, r.conns = true, false, [3]uint8{3, 1, 1} })},
	{"leftovers, another process releases", inOrder.with(func(r *unknownRules) { r.other, r.conns = true, [3]uint8{3, 1, 1} })},
	{"leftovers, two nodes", inOrder.with(func(r *unknownRules) { r.conns, r.extensions = [3]uint8{2, 2, 1}, 1 })},
	{"leftovers, keys expire", inOrder.with(func(r *unknownRules) { r.ticks = 2 })},
}

// full searches, with UNKNOWN_MODEL=full, have up to six million states each, and take
// some minutes.
var fullUnknowns = []unknownSearch{
	{"exclusion", anyOrder.with(func(r *unknownRules) { r.other, r.extensions, r.ticks = true, 2, 3 })},
	{"exclusion, two nodes", anyOrder.with(func(r *unknownRules) { r.other, r.conns = true, [3]uint8{3, 2, 1} })},
	{"exclusion, in order", anyOrder.with(func(r *unknownRules) { r.ttl, r.ticks, r.duplicates = 1, 1, false })},
	{"keys of a held lock, all nodes", anyOrder.with(func(r *unknownRules) { r.alone, r.extensions, r.ticks, r.conns = true, 2, 3, [3]uint8{2, 2, 2} })},
	{"keys of a held lock, in order", anyOrder.with(func(r *unknownRules) {
		r.alone, r.duplicates, r.extensions, r.ticks, r.conns = true, false, 2, 3, [3]uint8{3, 1, 1}
	})},
	{"leftovers, all nodes", inOrder.with(func(r *unknownRules) { r.conns = [3]uint8{3, 2, 2} })},
	{"leftovers, keys expire", inOrder.with(func(r *unknownRules) { r.ticks, r.conns = 2, [3]uint8{3, 1, 1} })},
	{"leftovers beside B", inOrder.with(func(r *unknownRules) { r.alone, r.other, r.extensions, r.conns = false, true, 1, [3]uint8{3, 1, 1} })},
	{"leftovers, another process releases on all nodes", inOrder.with(func(r *unknownRules) { r.other, r.extensions, r.conns = true, 0, [3]uint8{3, 2, 2} })},
}

func searchUnknowns(t *testing.T, searches []unknownSearch) {
	t.Helper()
	for _, search := range searches {
		t.Run(search.name, func(t *testing.T) {
			start := time.Now()
			m := unknownModel{unknownRules: search.rules}
			trace, states := m.search()
			t.Logf("%d states in %.1f s", states, time.Since(start).Seconds())
			require.Empty(t, trace)
		})
	}
}

func TestUnknownModelUsual(t *testing.T) {
	if testcluster.RaceEnabled || testing.Short() {
		t.Skip("takes too long")
	}
	t.Parallel()
	searchUnknowns(t, usualUnknowns)
}

func TestUnknownModelFull(t *testing.T) {
	if os.Getenv("UNKNOWN_MODEL") != "full" {
		t.Skip("for UNKNOWN_MODEL=full")
	}
	searchUnknowns(t, fullUnknowns)
}

// Rules that are wrong, each in one thing, and for each of them a shortest way to what
// must not be.
func TestUnknownModelFindsWhatIsWrong(t *testing.T) {
	if testcluster.RaceEnabled {
		t.Skip("one goroutine has no races")
	}
	t.Parallel()
	for _, wrong := range []unknownSearch{
		{"a clean-up deletes what may be held, at any time", anyOrder.with(func(r *unknownRules) {
			r.alone, r.duplicates, r.beside = true, false, true
		})},
		{"the same before all else, and comes twice", anyOrder.with(func(r *unknownRules) { r.alone, r.cleanUp = true, true })},
		{"the same before all else, and comes late", anyOrder.with(func(r *unknownRules) {
			r.alone, r.duplicates, r.cleanUp, r.conns = true, false, true, [3]uint8{3, 1, 1}
		})},
		{"a held token's release is repeated", anyOrder.with(func(r *unknownRules) { r.alone, r.duplicates, r.repeatHeld = true, false, true })},
		{"the first process goes on after another's release", anyOrder.with(func(r *unknownRules) {
			r.other, r.goOn, r.ttl, r.ticks, r.extensions, r.duplicates, r.conns = true, true, 1, 0, 0, false, [3]uint8{2, 2, 2}
		})},
		{"repetitions stop after the first answer", inOrder.with(func(r *unknownRules) { r.stop = true })},
		{"the last repetition is whose answer comes late enough", inOrder.with(func(r *unknownRules) { r.anyAnswer = true })},
		{"a lost repetition counts", inOrder.with(func(r *unknownRules) { r.lostCounts, r.conns = true, [3]uint8{3, 1, 1} })},
		{"one that is refused does", inOrder.with(func(r *unknownRules) { r.refusedCounts = true })},
		{"only what was not found is released again", inOrder.with(func(r *unknownRules) { r.onlyNotFound = true })},
		{"the outcome of a repair is taken for known", inOrder.with(func(r *unknownRules) { r.repairKnown, r.ticks = true, 2 })},
		{"a later yes clears the mark", inOrder.with(func(r *unknownRules) { r.yesClears = true })},
		{"a later no does", inOrder.with(func(r *unknownRules) { r.noClears = true })},
		{"an answered release does", inOrder.with(func(r *unknownRules) { r.releaseClears = true })},
		{"another process does not repeat its release", inOrder.with(func(r *unknownRules) { r.other, r.otherOnce = true, true })},
		{"a release that was not answered is not owed", inOrder.with(func(r *unknownRules) { r.releaseLost = true })},
		{"nor is one while connecting", inOrder.with(func(r *unknownRules) { r.releaseDropped = true })},
	} {
		t.Run(wrong.name, func(t *testing.T) {
			if testing.Short() && wrong.rules.conns[0] > 2 {
				t.Skip("three connections take most of the time")
			}
			m := unknownModel{unknownRules: wrong.rules}
			trace, states := m.search()
			require.NotEmpty(t, trace, "nothing wrong in %d states", states)
			t.Logf("%d steps, %d states:\n%s", len(trace)-1, states, strings.Join(trace, "\n"))
		})
	}
}

// An unknownTwin is a node next to a serverModel that is to do the same. A tick is a
// second.
type unknownTwin struct {
	t      *testing.T
	rand   *rand.Rand
	node   *testcluster.Node
	conn   redis.Conn
	model  serverModel
	claims [3]*claim // by token
}

// ticks is a time that is over after so many of them.
func ticks(n uint8) time.Duration { return time.Duration(n)*time.Second - 10*time.Millisecond }

func (tw *unknownTwin) eval(cmd node.Command) node.Stance {
	tw.t.Helper()
	reply, err := evalCommand(tw.conn, cmd)
	require.NoError(tw.t, err)
	return cmd.Script.Decode(reply).Stance
}

// direct sends a lock request as the server's own command.
func (tw *unknownTwin) direct(c *claim) node.Stance {
	tw.t.Helper()
	value, err := tw.conn.Do("SET", c.keys[0], c.args[0], "NX", "GET", "PX", c.args[1])
	require.NoError(tw.t, err)
	left, err := redis.Int64(tw.conn.Do("PTTL", c.keys[0]))
	require.NoError(tw.t, err)
	return lockCommand(c).Script.Direct(c.args[0], value, left).Stance
}

// look asks for both tokens, and says whether this one is there.
func (tw *unknownTwin) look(token uint8) bool {
	tw.t.Helper()
	cmd := node.Command{Script: node.Look}
	for _, c := range tw.claims[1:] {
		cmd.Keys, cmd.Args = append(cmd.Keys, c.keys[0]), append(cmd.Args, c.Value())
	}
	places, err := redis.Ints(evalCommand(tw.conn, cmd))
	require.NoError(tw.t, err)
	return slices.Contains(places, int(token))
}

// step does a random thing with both.
func (tw *unknownTwin) step() {
	tw.t.Helper()
	token, ttl := uint8(1+tw.rand.IntN(2)), uint8(1+tw.rand.IntN(2))
	c := tw.claims[token]
	c.args[1] = serverMillis(ticks(ttl))
	var want, got node.Stance
	switch tw.rand.IntN(8) {
	case 0:
		time.Sleep(time.Second)
		tw.model.tick()
	case 1:
		want, got = tw.model.lock(token, ttl), tw.eval(lockCommand(c))
	case 2:
		want, got = tw.model.lock(token, ttl), tw.direct(c)
	case 3:
		want, got = tw.model.extend(token, ttl), tw.eval(extendCommand(c, serverMillis(ticks(ttl)), false))
	case 4:
		want, got = tw.model.repair(token, ttl), tw.eval(repairCommand(c, serverMillis(ticks(ttl))))
	case 5:
		want, got = tw.model.release(token), tw.eval(undoCommand(c))
	case 6:
		late, _ := c.Release(time.Now(), true)
		want, got = tw.model.release(token), tw.eval(late)
	case 7:
		require.Equal(tw.t, tw.model.token == token, tw.look(token))
	}
	require.Equal(tw.t, want, got)
	require.Equal(tw.t, tw.model, tw.stored())
}

func (tw *unknownTwin) stored() (n serverModel) {
	tw.t.Helper()
	all, err := tw.node.Keys()
	require.NoError(tw.t, err)
	for _, state := range all {
		n.left = uint8((state.TTL + time.Second - 1) / time.Second)
		for i, c := range tw.claims {
			if c != nil && c.token() == state.Value {
				n.token = uint8(i)
			}
		}
	}
	return n
}

func TestUnknownModelNodeIsTheScripts(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		conn, err := c.Nodes[0].Conn(t.Context())
		require.NoError(t, err)
		tw := &unknownTwin{t: t, rand: rand.New(rand.NewPCG(1, 2)), node: c.Nodes[0], conn: conn}
		for token := range tw.claims[1:] {
			tw.claims[token+1] = newClaim([]string{"a"}, []any{"a"}, "", time.Second, 1)
		}
		for range rounds(3000, 500) {
			tw.step()
		}
		require.NoError(t, conn.Close())
	})
}
