package fitness

import (
	"fmt"
	"strings"

	"github.com/seed6c881748/redlock/internal/brief"
)

// What shows only when nodes are compared. Clocks have a file of their own.

// sameServer finds another node that is the same server process.
func sameServer(nodes []facts, i int) Finding {
	found := theSameServer(nodes, i)
	found.Node, found.Check = nodes[i].node, "same-server"
	return found
}

func theSameServer(nodes []facts, i int) Finding {
	f := &nodes[i]
	id := f.info["run_id"]
	if id == "" {
		return f.unread("run_id")
	}
	var same, other, unsure []string // databases of this server
	for j := range nodes {
		g := &nodes[j]
		switch {
		case j == i || g.info["run_id"] != id:
		case f.database == "" || g.database == "":
			unsure = append(unsure, g.node)
		case f.database == g.database:
			same = append(same, g.node)
		default:
			other = append(other, g.node)
		}
	}
	text := "it is "
	switch {
	case len(same) > 0:
		text += "the same server as " + strings.Join(same, " and ")
	case len(other) > 0:
		text += "another database of the same server as " + strings.Join(other, " and ")
	case len(unsure) > 0:
		text += "the same server as " + strings.Join(unsure, " and ") + ", or another database of it"
	default:
		return fine("no other node is the same server")
	}
	return amiss(Unfit, text+", and votes more than once", "Give each server once, and one that fails independently instead")
}

func (s *Setup) nodeCount() Finding {
	const advice = "Use three or five nodes that fail independently"
	n, text := s.Nodes, ""
	switch {
	case n == 1:
		text = "one node is no quorum to speak of: nothing works without it"
	case n%2 == 0:
		text = fmt.Sprintf("%d nodes tolerate no more failures than %d", n, n-1)
	}
	found := fine("%s, of which %d may fail", brief.Count(n, "node"), n-s.Quorum)
	if text != "" {
		found = amiss(Warning, text, advice)
	}
	found.Check = "node-count"
	return found
}
