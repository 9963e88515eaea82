package redlock

import "slices"

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
