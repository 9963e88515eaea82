package redlock

import (
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// explore visits every state, depth first, and returns how many there are, and whether
// the properties hold in all of them. States that differ only in the names of nodes, or
// of acquirers that are alike, are one.
func (m *fenceModel) explore() (states int, holds bool) {
	visited := newStateSet()
	stack := []modelState{{}}
	visited.add(&stack[0])
	var steps []modelStep
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		steps = m.next(&s, steps[:0])
		for i := range steps {
			if steps[i].broken {
				return visited.len, false
			}
			to := &steps[i].to
			m.canonical(to)
			if visited.add(to) {
				stack = append(stack, *to)
			}
		}
	}
	return visited.len, true
}

// shortest looks breadth first for a state in which a property does not hold, and
// returns a shortest way there, a line per step; nil if there is none. Names are kept.
func (m *fenceModel) shortest() (trace []string, states int) {
	visited := newStateSet()
	all := []modelStep{{}}
	from := []int32{-1}
	visited.add(&all[0].to)
	var steps []modelStep
	for at := 0; at < len(all); at++ {
		s := all[at].to
		steps = m.next(&s, steps[:0])
		for i := range steps {
			if !visited.add(&steps[i].to) && !steps[i].broken {
				continue
			}
			all, from = append(all, steps[i]), append(from, int32(at))
			if steps[i].broken {
				return m.way(all, from), visited.len
			}
		}
	}
	return nil, visited.len
}

// way describes the way to the last of the steps.
func (m *fenceModel) way(all []modelStep, from []int32) (trace []string) {
	for at := int32(len(all) - 1); at > 0; at = from[at] {
		st := &all[at]
		line := st.String()
		for len(line) < 24 {
			line += " "
		}
		trace = append(trace, line+m.show(&st.to))
	}
	slices.Reverse(trace)
	return trace
}

// canonical gives nodes and like acquirers the order of what is known of them. Which
// acquirer of two that are not told apart comes first does not matter: it costs a
// state to count two orders.
func (m *fenceModel) canonical(s *modelState) {
	var order [modelAcquirers]int
	var marks [modelAcquirers]uint64
	moved := false
	for k := range m.acquirers {
		order[k], marks[k] = k, m.mark(s, k)
		for j := k; j > 0 && m.alike(order[j-1], order[j]) && marks[j-1] > marks[j]; j-- {
			order[j-1], order[j] = order[j], order[j-1]
			marks[j-1], marks[j] = marks[j], marks[j-1]
			moved = true
		}
	}
	if moved {
		m.rename(s, order[:len(m.acquirers)])
	}
	slices.Sort(s.nodes[:m.nodes])
}

func (m *fenceModel) alike(j, k int) bool {
	a, b := &m.acquirers[j], &m.acquirers[k]
	return a.token != b.token && a.proposal == b.proposal && slices.Equal(a.wants, b.wants)
}

// mark is a number that does not depend on the names.
func (m *fenceModel) mark(s *modelState, k int) uint64 {
	sum := s.clients[k].word()
	for _, w := range s.nodes[:m.nodes] {
		x := w >> (acquirerAt + k*acquirerBits) & (1<<acquirerBits - 1)
		for r := range modelResources {
			resource := w >> (r * resourceBits) & (1<<resourceBits - 1)
			x = x<<5 | resource>>2<<1
			if resource&3 == uint64(k+1) {
				x |= 1
			}
		}
		x *= 0x9e3779b97f4a7c15
		sum += (x ^ x>>32) * 0xd6e8feb86659fd93
	}
	return sum
}

// rename has the acquirer order[k] become number k.
func (m *fenceModel) rename(s *modelState, order []int) {
	var tokens [modelAcquirers + 1]uint64
	old := *s
	for k, o := range order {
		tokens[o+1] = uint64(k + 1)
		s.clients[k] = old.clients[o]
	}
	for i, w := range old.nodes[:m.nodes] {
		to := uint64(0)
		for r := range modelResources {
			resource := w >> (r * resourceBits) & (1<<resourceBits - 1)
			to |= (resource&^3 | tokens[resource&3]) << (r * resourceBits)
		}
		for k, o := range order {
			to |= w >> (acquirerAt + o*acquirerBits) & (1<<acquirerBits - 1) << (acquirerAt + k*acquirerBits)
		}
		s.nodes[i] = to
	}
}

// A stateSet has states by 128 bits of hash, in an open table. That two of a billion
// states have the same hash is less likely than 1 in 10^20.
type stateSet struct {
	slots [][2]uint64
	len   int
}

func newStateSet() *stateSet { return &stateSet{slots: make([][2]uint64, 1<<12)} }

// add reports whether the state is new.
func (v *stateSet) add(s *modelState) bool { return v.addHash(hashState(s)) }

func (v *stateSet) addHash(h [2]uint64) bool {
	if v.len*4 >= len(v.slots)*3 {
		old := v.slots
		v.slots = make([][2]uint64, 2*len(old))
		for _, h := range old {
			if h[1] != 0 {
				v.slots[v.find(h)] = h
			}
		}
	}
	at := v.find(h)
	if v.slots[at][1] != 0 {
		return false
	}
	v.slots[at] = h
	v.len++
	return true
}

// find returns the place of h, or where it is to be.
func (v *stateSet) find(h [2]uint64) int {
	mask := len(v.slots) - 1
	at := int(h[0]>>1) & mask
	for v.slots[at][1] != 0 && v.slots[at] != h {
		at = (at + 1) & mask
	}
	return at
}

func hashState(s *modelState) [2]uint64 {
	h := newStateHash(uint64(s.losses))
	for _, c := range s.clients {
		h.mix(c.word())
	}
	for _, w := range s.nodes {
		h.mix(w)
	}
	return h.sum()
}

// A stateHash is 128 bits over words.
type stateHash [2]uint64

func newStateHash(w uint64) stateHash { return stateHash{w, ^w} }

func (h *stateHash) mix(w uint64) {
	hi, lo := bits.Mul64(h[0]^w^0xa0761d6478bd642f, 0xd6e8feb86659fd93)
	h[0] = (hi ^ lo) + w<<32
	hi, lo = bits.Mul64(h[1]^w^0x8ebc6af09c88c6e3, 0xe7037ed1a0b428db)
	h[1] = (hi ^ lo) + w>>32
}

func (h *stateHash) sum() [2]uint64 { return [2]uint64{h[0], h[1] | 1} }

func (c modelClient) word() uint64 {
	return uint64(c.fence) | uint64(c.floor)<<8 | uint64(c.raised)<<16
}

// A fenceSearch is a model that is searched through, under the right rules. Among
// proposals 1 is the same as 0 where counters begin at 0, and only the differences
// between others count.
type fenceSearch struct {
	name  string
	rules modelRules
}

// always is more often than it can be.
const always = 9

var (
	onlyX = []int{0}
	onlyY = []int{1}
	both  = []int{0, 1}
)

// wanting are acquirers by what they want.
func wanting(wants ...[]int) []modelAcquirer {
	all := acquirers(make([]int64, len(wants))...)
	for k := range all {
		all[k].wants = wants[k]
	}
	return all
}

// twoAcquirers: small enough for the race detector.
var twoAcquirers = []fenceSearch{
	{"none proposes", modelRules{nodes: 3, acquirers: acquirers(0, 0), duplicates: 2, raises: always}},
	{"one proposes", modelRules{nodes: 3, acquirers: acquirers(0, 2), duplicates: 2, raises: 2}},
	{"one proposes much", modelRules{nodes: 3, acquirers: acquirers(0, 3), duplicates: 2, raises: 2}},
	{"the same proposal", modelRules{nodes: 3, acquirers: acquirers(2, 2), duplicates: 2, raises: 2}},
	{"two proposals", modelRules{nodes: 3, acquirers: acquirers(2, 3), duplicates: 2, raises: 2}},
	{"expiry is a step", modelRules{nodes: 3, acquirers: acquirers(0, 0), duplicates: 1, raises: 2, expiry: true}},
	{"four nodes", modelRules{nodes: 4, acquirers: acquirers(0, 0), duplicates: 1, raises: 2}},
	{"five nodes", modelRules{nodes: 5, acquirers: acquirers(0, 2), raises: always}},
	{"x and xy", modelRules{nodes: 3, acquirers: wanting(onlyX, both), duplicates: 1, raises: 2}},
	{"xy twice", modelRules{nodes: 3, acquirers: wanting(both, both), duplicates: 1, raises: 2}},
}

// usual searches take 20 s and have up to 5 million states. With three acquirers there
// is at most one duplicate: with two there are 20 million states and more.
var usual = []fenceSearch{
	{"all duplicates", modelRules{nodes: 3, acquirers: acquirers(0, 0), duplicates: always, raises: 2}},
	{"all duplicates, one proposes", modelRules{nodes: 3, acquirers: acquirers(0, 2), duplicates: always, raises: 2}},
	{"all duplicates, one proposes much", modelRules{nodes: 3, acquirers: acquirers(0, 3), duplicates: always, raises: 1}},
	{"four nodes, duplicates", modelRules{nodes: 4, acquirers: acquirers(0, 2), duplicates: 2, raises: 2}},
	{"x and xy, duplicates", modelRules{nodes: 3, acquirers: wanting(onlyX, both), duplicates: 3, raises: 2}},
	{"x, y and xy", modelRules{nodes: 3, acquirers: wanting(onlyX, onlyY, both), raises: always}},
	{"x, xy and xy", modelRules{nodes: 3, acquirers: wanting(onlyX, both, both), raises: always}},
	{"three", modelRules{nodes: 3, acquirers: acquirers(0, 0, 0), raises: always}},
	{"three, one proposes", modelRules{nodes: 3, acquirers: acquirers(0, 0, 2), raises: always}},
	{"three, two propose", modelRules{nodes: 3, acquirers: acquirers(0, 2, 2), raises: always}},
	{"three, all propose", modelRules{nodes: 3, acquirers: acquirers(2, 2, 3), raises: always}},
	{"three proposals", modelRules{nodes: 3, acquirers: acquirers(0, 2, 3), raises: always}},
	{"three and a duplicate", modelRules{nodes: 3, acquirers: acquirers(0, 0, 0), duplicates: 1, raises: 2}},
}

// full searches, with FENCE_MODEL=full, have up to 24 million states, and take three
// minutes and 2 GB.
var full = []fenceSearch{
	{"all duplicates and raises", modelRules{nodes: 3, acquirers: acquirers(0, 3), duplicates: always, raises: always}},
	{"all duplicates, expiry is a step", modelRules{nodes: 3, acquirers: acquirers(0, 0), duplicates: always, raises: 2, expiry: true}},
	{"four nodes, all duplicates", modelRules{nodes: 4, acquirers: acquirers(0, 0), duplicates: always, raises: 1}},
	{"five nodes, duplicates", modelRules{nodes: 5, acquirers: acquirers(0, 0), duplicates: 3, raises: 2}},
	{"x and xy, all duplicates", modelRules{nodes: 3, acquirers: wanting(onlyX, both), duplicates: always, raises: 2}},
	{"x, y, xy and a duplicate", modelRules{nodes: 3, acquirers: wanting(onlyX, onlyY, both), duplicates: 1, raises: 2}},
	{"three on four nodes", modelRules{nodes: 4, acquirers: acquirers(0, 0, 0), raises: always}},
	{"three and a duplicate, all raises", modelRules{nodes: 3, acquirers: acquirers(0, 0, 0), duplicates: 1, raises: always}},
	{"three and a duplicate, one proposes", modelRules{nodes: 3, acquirers: acquirers(0, 0, 2), duplicates: 1, raises: 2}},
	{"three and two duplicates", modelRules{nodes: 3, acquirers: acquirers(0, 0, 0), duplicates: 2, raises: 1}},
}

func searchFences(t *testing.T, searches []fenceSearch) {
	t.Helper()
	for _, search := range searches {
		t.Run(search.name, func(t *testing.T) {
			search.rules.repairs = true
			start := time.Now()
			states, holds := newFenceModel(search.rules).explore()
			t.Logf("%d states in %.1f s", states, time.Since(start).Seconds())
			if !holds {
				trace, _ := newFenceModel(search.rules).shortest()
				for _, line := range trace {
					t.Log(line)
				}
			}
			require.True(t, holds)
		})
	}
}

func TestFenceModelOfTwo(t *testing.T) {
	if testcluster.RaceEnabled {
		t.Skip("one goroutine has no races")
	}
	t.Parallel()
	searches := twoAcquirers
	if testing.Short() {
		searches = searches[5:] // Those before take most of the time.
	}
	searchFences(t, searches)
}

func TestFenceModelUsual(t *testing.T) {
	if testcluster.RaceEnabled || testing.Short() {
		t.Skip("takes too long")
	}
	t.Parallel()
	searchFences(t, usual)
}

func TestFenceModelFull(t *testing.T) {
	if os.Getenv("FENCE_MODEL") != "full" {
		t.Skip("for FENCE_MODEL=full")
	}
	searchFences(t, full)
}

// A fenceTwin is a node next to a modelNode that is to do the same.
type fenceTwin struct {
	t      *testing.T
	rand   *rand.Rand
	node   *testcluster.Node
	conn   redis.Conn
	model  modelNode
	claims []*claim
	wants  [][]int // by claim

	granted, refused, failed int
}

const twinProposal = 2 // where a lock request has its proposal

// newFenceTwin has two attempts for each way to want some of so many resources.
func newFenceTwin(t *testing.T, n *testcluster.Node, resources int) *fenceTwin {
	t.Helper()
	conn, err := n.Conn(t.Context())
	require.NoError(t, err)
	tw := &fenceTwin{t: t, rand: rand.New(rand.NewPCG(1, uint64(resources))), node: n, conn: conn}
	for set := 1; set < 1<<resources; set++ {
		var wants []int
		var names []string
		var keys []any
		for r := range resources {
			if set>>r&1 != 0 {
				wants, names = append(wants, r), append(names, twinName(r))
				keys = append(keys, twinName(r))
			}
		}
		for range 2 {
			c := newClaim(names, keys, "", time.Hour, 1)
			c.addCounters()
			c.askFence(time.UnixMicro(0), time.Hour)
			tw.claims, tw.wants = append(tw.claims, c), append(tw.wants, wants)
		}
	}
	return tw
}

func twinName(r int) string { return string(rune('x' + r)) }

func twinCounter(r int) string { return reservedMark + fences.Mark + twinName(r) }

func (tw *fenceTwin) eval(cmd node.Command) (any, error) {
	return evalCommand(tw.conn, cmd)
}

// run does random things with both and compares them after each.
func (tw *fenceTwin) run(steps int) {
	tw.t.Helper()
	for range steps {
		k := tw.rand.IntN(len(tw.claims))
		switch tw.rand.IntN(8) {
		case 0, 1, 2:
			tw.lock(k)
		case 3, 4, 5:
			tw.keep(k)
		case 6:
			r := tw.rand.IntN(modelResources)
			require.NoError(tw.t, tw.node.Del(twinName(r)))
			tw.model.token[r] = 0
		case 7:
			if r := tw.rand.IntN(modelResources); tw.rand.IntN(4) == 0 {
				require.NoError(tw.t, tw.node.Del(twinCounter(r)))
				tw.model.counter[r] = 0
			}
		}
		tw.same()
	}
	require.NoError(tw.t, tw.conn.Close())
	tw.t.Log(tw.granted, "grants,", tw.refused, "refusals,", tw.failed, "errors")
	require.Positive(tw.t, tw.granted)
	require.Positive(tw.t, tw.refused)
	require.Positive(tw.t, tw.failed)
}

// number is one next to the largest counter.
func (tw *fenceTwin) number(k int) int64 {
	_, _, top, _ := tw.model.look(0, tw.wants[k])
	return max(1, top+tw.rand.Int64N(4)-1)
}

// lock sends the lock request of attempt k, by one of its two scripts. A proposal that
// is far ahead of the server's clock is none. Where a counter is missing, the server's
// clock is the proposal: none is near it.
func (tw *fenceTwin) lock(k int) {
	tw.t.Helper()
	c, proposal := tw.claims[k], tw.number(k)
	c.args[twinProposal] = proposal
	_, others, top, low := tw.model.look(uint8(k+1), tw.wants[k])
	if tw.rand.IntN(4) == 0 {
		c.args[twinProposal], proposal = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), 0
	}
	cmd := lockCommand(c)
	if tw.rand.IntN(2) == 0 {
		cmd = queueCommand(c, "c", 0, time.Hour, false)
	}
	before := time.Now()
	reply, err := tw.eval(cmd)
	if low == 0 && err == nil {
		if fence := cmd.Script.Decode(reply).Fence; fence > 0 {
			require.GreaterOrEqual(tw.t, fence, before.Truncate(time.Second).UnixMicro())
			require.LessOrEqual(tw.t, fence, max(top+1, proposal, time.Now().UnixMicro()))
			proposal = fence
		}
	}
	want := tw.model.lock(uint8(k+1), tw.wants[k], proposal)
	switch {
	case want == 0 && others == 0:
		tw.failed++
		require.ErrorContains(tw.t, err, "NOFENCE")
		return
	case want == 0:
		tw.refused++
	default:
		tw.granted++
	}
	require.NoError(tw.t, err)
	out := cmd.Script.Decode(reply)
	require.Equal(tw.t, want, out.Fence)
	require.Equal(tw.t, want > 0, out.Stance == node.Yes)
}

// keep sends one of the other requests of attempt k.
func (tw *fenceTwin) keep(k int) {
	tw.t.Helper()
	c, token, wants := tw.claims[k], uint8(k+1), tw.wants[k]
	fence := tw.number(k)
	c.fence = fence
	var cmd node.Command
	var want int64
	switch tw.rand.IntN(3) {
	case 0:
		cmd, want = raiseCommand(c, fence), tw.model.raise(token, wants, fence)
	case 1:
		cmd, want = repairCommand(c, serverMillis(time.Hour)), tw.model.repair(token, wants, fence)
	case 2:
		cmd, want = extendCommand(c, serverMillis(time.Hour), false), tw.model.extend(token, wants, fence)
	}
	reply, err := tw.eval(cmd)
	require.NoError(tw.t, err)
	require.Equal(tw.t, want, reply, cmd.Script.Name)
	if cmd.Script == raiseScript {
		require.Equal(tw.t, want, cmd.Script.Decode(reply).Fence)
	}
}

// same compares what they store.
func (tw *fenceTwin) same() {
	tw.t.Helper()
	var stored modelNode
	for r := range modelResources {
		token, held, err := tw.node.Get(twinName(r))
		require.NoError(tw.t, err)
		for k, c := range tw.claims {
			if held && c.token() == token {
				stored.token[r] = uint8(k + 1)
			}
		}
		require.Equal(tw.t, held, stored.token[r] != 0)
		counter, there, err := tw.node.Get(twinCounter(r))
		require.NoError(tw.t, err)
		if there {
			stored.counter[r], err = strconv.ParseInt(counter, 10, 64)
			require.NoError(tw.t, err)
		}
	}
	require.Equal(tw.t, tw.model, stored)
}

func TestFenceModelNodeIsTheScripts(t *testing.T) {
	steps := rounds(5000, 500)
	if testcluster.RaceEnabled {
		steps = min(steps, 500)
	}
	for resources := 1; resources <= modelResources; resources++ {
		inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
			newFenceTwin(t, c.Nodes[0], resources).run(steps)
		})
	}
}

func TestFenceModelNodeIsTheScriptsOnAServer(t *testing.T) {
	if testing.Short() {
		t.Skip("the same as on a node in memory, on a server")
	}
	t.Parallel()
	c := testcluster.RunServers(t, 1)
	for resources := 1; resources <= modelResources; resources++ {
		require.NoError(t, c.Nodes[0].Flush())
		newFenceTwin(t, c.Nodes[0], resources).run(3000)
	}
}
