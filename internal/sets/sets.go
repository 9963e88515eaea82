// Package sets compares the sets of nodes that clients were given, if they meet on a node. A server is known by the
// run_id of its INFO, whatever addresses lead to it. Each client leaves a note on each node of the servers behind its
// addresses, and reads the notes of others. There is no I/O here, and no clock: all times are ages, by the clock of the
// node that the note lies on.
package sets

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/tokens"
)

const (
	// Life is for how long a note counts.
	Life = 30 * time.Second

	// Slack is how far ages may be wrong: uptime_in_seconds by one second, and by Late each the message by which a
	// server was found, the note that says so, and the answer with that note.
	Slack = time.Second + 3*Late

	// Late is how long a note may be under way. One that takes longer says nothing.
	Late = time.Second
)

// A Server is what a client knows of the server behind one of its addresses.
type Server struct {
	Name      string        `json:"name"`          // of the node, as the client calls it
	Run       string        `json:"run,omitempty"` // its run_id; empty: it was never reached, or hides it
	Started   time.Duration `json:"started"`       // how long ago that run began
	Confirmed time.Duration `json:"confirmed"`     // how long ago the client last found it there
}

// isFresh reports whether the client is connected to the server, or was a moment ago.
func (s *Server) isFresh() bool { return s.Run != "" && s.Confirmed < Life }

// couldBe reports whether two servers may be one. A server has a new id after each restart, so with different ids, one
// life must have ended before the other began.
func (s *Server) couldBe(o *Server) bool {
	return s.Run == "" || o.Run == "" || s.Confirmed+Slack >= o.Started || o.Confirmed+Slack >= s.Started
}

// A Set is what a client's addresses lead to.
type Set struct {
	Label   string   `json:"set,omitempty"` // sets with other labels are not compared
	Who     string   `json:"who"`           // the client that has the set, or one of them
	Servers []Server `json:"servers"`
}

// Key returns the same text for sets that say the same, whoever else has written them.
func (s *Set) Key() string {
	runs := make([]string, len(s.Servers))
	for i, server := range s.Servers {
		runs[i] = server.Run + " " + strconv.FormatBool(server.isFresh())
	}
	slices.Sort(runs)
	return tokens.Digest(s.Label + "\n" + strings.Join(runs, "\n"))
}

// IsIn reports whether another set says all that this one does, even that two of its addresses lead to one server.
func (s *Set) IsIn(o *Set) bool {
	if s.Label != o.Label || len(s.Servers) != len(o.Servers) {
		return false
	}
	left := slices.Clone(o.Servers)
	for i := range s.Servers {
		mine := &s.Servers[i]
		if mine.Run == "" {
			continue
		}
		at := slices.IndexFunc(left, func(t Server) bool { return t.Run == mine.Run && (t.isFresh() || !mine.isFresh()) })
		if at < 0 {
			return false
		}
		left = slices.Delete(left, at, at+1)
	}
	return true
}

// Names returns the names of the servers.
func (s *Set) Names() []string {
	names := make([]string, len(s.Servers))
	for i := range names {
		names[i] = s.Servers[i].Name
	}
	return names
}

// Twice returns the names of addresses that lead to one server now.
func (s *Set) Twice() (names []string) {
	for i, one := range s.Servers {
		for j, other := range s.Servers {
			if i != j && one.Run != "" && one.Run == other.Run && max(one.Confirmed, other.Confirmed) <= 2*Late {
				names = append(names, one.Name)
				break
			}
		}
	}
	return names
}

// Compare returns the servers that only one of two sets has, by the names that its client gives them. It returns none
// if the sets could be the same: as many servers as possible count as shared. meet reports whether every quorum of one
// set has a node in common with every quorum of the other, as far as is known.
func Compare(mine, theirs *Set) (here, there []string, meet bool) {
	with := pair(mine.Servers, theirs.Servers)
	for i, s := range mine.Servers {
		if !slices.Contains(with, i) {
			here = append(here, s.Name)
		}
	}
	for j, i := range with {
		if i < 0 {
			there = append(there, theirs.Servers[j].Name)
		}
	}
	m, t := len(mine.Servers), len(theirs.Servers)
	return here, there, m/2+1+t/2+1 > m+len(there)
}

// pair returns which of mine each of theirs is; -1 for none. Servers with the same id are one, and so are those with
// the same name of which one hides its id. The rest is paired by augmenting paths (Kuhn's algorithm), equal names
// first, so that the others are left over.
func pair(mine, theirs []Server) (with []int) {
	with = slices.Repeat([]int{-1}, len(theirs))
	certain := make([]bool, len(theirs))
	var find func(i int, seen []bool, fit func(a, b *Server) bool) bool
	find = func(i int, seen []bool, fit func(a, b *Server) bool) bool {
		for j := range theirs {
			if seen[j] || certain[j] || !fit(&mine[i], &theirs[j]) {
				continue
			}
			seen[j] = true
			if with[j] < 0 || find(with[j], seen, fit) {
				with[j] = i
				return true
			}
		}
		return false
	}
	for pass, fit := range []func(a, b *Server) bool{
		func(a, b *Server) bool { return a.Run != "" && a.Run == b.Run },
		func(a, b *Server) bool { return a.Name == b.Name && (a.Run == "" || b.Run == "") },
		func(a, b *Server) bool { return a.Name == b.Name && a.couldBe(b) },
		(*Server).couldBe,
	} {
		for i := range mine {
			if !slices.Contains(with, i) {
				find(i, make([]bool, len(theirs)), fit)
			}
		}
		for j, i := range with {
			certain[j] = certain[j] || pass < 2 && i >= 0
		}
	}
	return with
}
