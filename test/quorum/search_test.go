package quorum

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// The search visits every state that a world can get into, breadth first: the first one that is wrong is one of those
// with the shortest way.

// A search is what all worlds of one search have in common.
type search struct {
	limits  *limits
	configs [maxNodes + 1]*lease.Config // by number of nodes
	holders [maxTokens]node.Holder
	names   [maxTokens]string
	marks   [maxNodes]uint64

	w      *world // where a step is made, and by whom
	c      *client
	at     time.Time // of the answer that is heard, or now
	luck   uint8
	rolled bool // there was something random
}

func newSearch(l limits) *search {
	s := &search{limits: l.withDefaults()}
	s.marks = s.limits.marks()
	for t := range maxTokens {
		s.names[t] = fmt.Sprint(t)
		if t > 0 {
			s.holders[t].Digest = s.limits.digests[t-1 : t]
		}
	}
	config := lease.Config{
		Clock: func(time.Time) (time.Time, time.Duration) { return s.w.at(s.c), s.c.slept },
		Takes: func(i int) time.Duration { return s.limits.takes[i] },
		Random: func(d time.Duration) time.Duration {
			s.rolled = true
			return [...]time.Duration{d / 2, 0, d - 1}[s.luck]
		},
		Digest: func(token string) string {
			for t, name := range s.names {
				if name == token {
					return s.holders[t].Digest
				}
			}
			return ""
		},
		Reserved: errReserved, Pending: errPending, TooLate: errTooLate,
	}
	for n := range s.configs {
		c := config
		if c.Need = lease.Need(n); l.half {
			c.Need = l.need(n)
		}
		s.configs[n] = &c
	}
	return s
}

// on says where the rules are called.
func (s *search) on(w *world, c *client) { s.w, s.c, s.at = w, c, w.at(c) }

// step returns the world after a move.
func (s *search) step(w *world, m move) *world {
	s.rolled = false
	next := w.copyOf()
	next.does(m)
	next.check()
	return next
}

// tooMany is more states than a search is to have that keeps a way to each.
const tooMany = 300_000

// A visit is how the search has come to a state.
type visit struct {
	from int32
	move move
}

type visited struct {
	*world
	at int32
}

// run returns the way to a state that is wrong, in words, and how many states there are.
func (s *search) run() (story []string, states int) {
	visits := []visit{{}}
	first := newWorld(s)
	seen := newSums()
	seen.add(first.sum())
	now, then := []visited{{first, 0}}, []visited(nil)
	var moves []move
	for len(now) > 0 {
		if len(visits) > tooMany {
			return []string{"Too many states."}, len(visits)
		}
		for _, v := range now {
			moves = v.moves(moves[:0])
			if len(moves) == 0 {
				if v.checkAtEnd(); v.broken != "" {
					return s.tell(way(visits, v.at), v.broken), len(visits)
				}
			}
			for _, m := range moves {
				for m.luck = 0; m.luck <= s.luckiest(); m.luck++ {
					w := s.step(v.world, m)
					if w.broken != "" {
						return s.tell(append(way(visits, v.at), m), w.broken), len(visits)
					}
					if seen.add(w.sum()) {
						visits = append(visits, visit{v.at, m})
						then = append(then, visited{w, int32(len(visits) - 1)})
					}
					if !s.rolled {
						break
					}
				}
			}
		}
		clear(now)
		now, then = then, now[:0]
	}
	return nil, len(visits)
}

// luckiest is the last of what may be random.
func (s *search) luckiest() uint8 { return uint8(max(s.limits.lucks-1, 0)) }

// dive is run, depth first: it takes little memory, and what it tells may be a long way round.
func (s *search) dive() (story []string, states int) {
	seen := newSums()
	var way []move
	var visit func(v *world) (wrong string)
	visit = func(v *world) (wrong string) {
		moves := v.moves(nil)
		if len(moves) == 0 {
			v.checkAtEnd()
			return v.broken
		}
		for _, m := range moves {
			for m.luck = 0; m.luck <= s.luckiest(); m.luck++ {
				w := s.step(v, m)
				lucky := s.rolled
				way = append(way, m)
				if wrong = w.broken; wrong == "" && seen.add(w.sum()) {
					wrong = visit(w)
				}
				if wrong != "" {
					return wrong
				}
				if way = way[:len(way)-1]; !lucky {
					break
				}
			}
		}
		return ""
	}
	if wrong := visit(newWorld(s)); wrong != "" {
		return s.tell(way, wrong), seen.len
	}
	return nil, seen.len
}

// way is that to a visit.
func way(visits []visit, at int32) []move {
	var moves []move
	for ; at > 0; at = visits[at].from {
		moves = append(moves, visits[at].move)
	}
	slices.Reverse(moves)
	return moves
}

// tell has moves, and what the nodes store after each.
func (s *search) tell(moves []move, why string) (story []string) {
	w := newWorld(s)
	for i, m := range moves {
		w = s.step(w, m)
		story = append(story, fmt.Sprintf("%d. %+v, at %v: %v", i+1, m, w.now, w.nodes[:w.limits.nodes]))
	}
	return append(story, "Then: "+why+".")
}

// wander makes a random walk, and returns the story if it ends in what is wrong.
func (s *search) wander(r *rand.Rand, depth int) (story []string) {
	w := newWorld(s)
	var all, moves []move
	for range depth {
		all = w.moves(all[:0])
		if len(all) == 0 {
			w.checkAtEnd()
			break
		}
		m := all[r.IntN(len(all))]
		m.luck = uint8(r.IntN(3))
		moves = append(moves, m)
		if w = s.step(w, m); w.broken != "" {
			break
		}
	}
	if w.broken != "" {
		return s.tell(moves, w.broken)
	}
	return nil
}

// sums are those of states that were visited, in an open table.
type sums struct {
	slots []uint64
	len   int
}

func newSums() *sums { return &sums{slots: make([]uint64, 1<<12)} }

// add reports whether it is new.
func (v *sums) add(x uint64) bool {
	x |= 1
	if v.len*4 >= len(v.slots)*3 {
		old := v.slots
		v.slots = make([]uint64, 2*len(old))
		for _, x := range old {
			if x != 0 {
				v.slots[v.find(x)] = x
			}
		}
	}
	at := v.find(x)
	if v.slots[at] != 0 {
		return false
	}
	v.slots[at] = x
	v.len++
	return true
}

// find returns the place of x, or where it is to be.
func (v *sums) find(x uint64) int {
	mask := len(v.slots) - 1
	at := int(x>>20) & mask
	for v.slots[at] != 0 && v.slots[at] != x {
		at = (at + 1) & mask
	}
	return at
}

// A named search has a name.
type named struct {
	name string
	limits
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // A state is many small things.
	m.Run()
}

func searchAll(t *testing.T, searches []named, large bool) {
	t.Helper()
	if testcluster.RaceEnabled {
		t.Skip("one goroutine has no races")
	}
	for _, l := range searches {
		t.Run(l.name, func(t *testing.T) {
			began := time.Now()
			s := newSearch(l.limits)
			look := s.run
			if large {
				look = s.dive
			}
			story, states := look()
			if len(story) > 0 {
				t.Fatalf("after %d states:\n%s", states, strings.Join(story, "\n"))
			}
			t.Logf("%d states in %.1f s", states, time.Since(began).Seconds())
		})
	}
}
