package redlock

import "slices"

// canonical gives the nodes an order that does not depend on their names, and returns
// their words. Nodes to which A may make as many connections are alike.
func (m *unknownModel) canonical(s *unknownState) (words [unknownNodes]uint64) {
	for i := range s.nodes {
		words[i] = s.nodes[i].word()
		for j := i; j > 0 && m.conns[j-1] == m.conns[j] && words[j-1] > words[j]; j-- {
			words[j-1], words[j] = words[j], words[j-1]
			s.nodes[j-1], s.nodes[j] = s.nodes[j], s.nodes[j-1]
		}
	}
	return words
}

// start is the state in which nothing has happened.
func (m *unknownModel) start() (s unknownState) {
	for i := range s.nodes {
		s.nodes[i].up = true
	}
	return s
}

// explore visits every state, depth first, and returns how many there are, and which
// property does not hold in one of them.
func (m *unknownModel) explore() (states int, broken string) {
	visited := newStateSet()
	s := m.start()
	visited.addHash(s.hash(m.canonical(&s)))
	stack := []unknownState{s}
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		m.next(&s)
		for i := range m.steps {
			if m.steps[i].broken != "" {
				return visited.len, m.steps[i].broken
			}
			to := &m.steps[i].to
			if visited.addHash(to.hash(m.canonical(to))) {
				stack = append(stack, *to)
			}
		}
	}
	return visited.len, ""
}

// shortest looks breadth first for a state in which a property does not hold, and
// returns a shortest way there, a line per step.
func (m *unknownModel) shortest() (trace []string, states int) {
	visited := newStateSet()
	all, from := []unknownState{m.start()}, []int32{-1}
	for at := 0; at < len(all); at++ {
		m.next(&all[at])
		for i := range m.steps {
			st := &m.steps[i]
			if st.broken != "" {
				all, from = append(all, st.to), append(from, int32(at))
				return append(m.way(all, from), st.broken), visited.len
			}
			same := st.to // The trace keeps the names of the nodes.
			if visited.addHash(same.hash(m.canonical(&same))) {
				all, from = append(all, st.to), append(from, int32(at))
			}
		}
	}
	return nil, visited.len
}

// way describes the way to the last of the states.
func (m *unknownModel) way(all []unknownState, from []int32) (trace []string) {
	m.names = true
	for at := len(all) - 1; at > 0; at = int(from[at]) {
		m.next(&all[from[at]])
		k := slices.IndexFunc(m.steps, func(st unknownStep) bool { return st.to == all[at] })
		trace = append(trace, m.steps[k].name)
	}
	m.names = false
	slices.Reverse(trace)
	return trace
}
