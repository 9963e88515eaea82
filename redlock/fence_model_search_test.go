package redlock

import (
	"math/bits"
	"slices"
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
