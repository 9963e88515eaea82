package world

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// The search visits every state that the world can get into, breadth first: the first state that is wrong is one of
// those with the shortest way. A state is not kept: it is played again from the start.

// A visit is how the search has come to a state.
type visit struct {
	from int32
	move move
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

func play(l limits, moves []move) *world {
	w := newWorld(l)
	for _, m := range moves {
		everything[m.what].do(w, int(m.arg))
	}
	return w
}

// search returns the way to a state that is wrong, in words, and how many states there are.
func search(l limits) (story []string, states int) {
	visits, seen, h := []visit{{}}, map[uint64]bool{}, hasher{seed: maphash.MakeSeed(), at: map[place]uint16{}}
	seen[h.of(newWorld(l))] = true
	var moves []move
	for at := int32(0); int(at) < len(visits); at++ {
		before := way(visits, at)
		moves = play(l, before).moves(moves[:0])
		for _, m := range moves {
			w := play(l, append(before, m))
			sum := h.of(w)
			if seen[sum] {
				continue
			}
			seen[sum] = true
			visits = append(visits, visit{at, m})
			if why := w.finish(); why != "" {
				return tell(l, append(before, m), why), len(visits)
			}
		}
	}
	return nil, len(visits)
}

// wander makes so many random walks of at most so many moves.
func wander(l limits, depth int, seed uint64, walks int) (story []string) {
	r := rand.New(rand.NewPCG(seed, 0))
	var may, moves []move
	for range walks {
		w := newWorld(l)
		moves = moves[:0]
		for range depth {
			if may = w.moves(may[:0]); len(may) == 0 || w.broken != "" {
				break
			}
			m := may[r.IntN(len(may))]
			moves = append(moves, m)
			everything[m.what].do(w, int(m.arg))
		}
		if why := w.finish(); why != "" {
			return tell(l, shorten(l, moves), why)
		}
	}
	return nil
}

// shorten leaves out what is not needed for a wrong end.
func shorten(l limits, moves []move) []move {
	for i := 0; i < len(moves); {
		less := append(append([]move{}, moves[:i]...), moves[i+1:]...)
		if isWrong(l, less) {
			moves, i = less, 0
		} else {
			i++
		}
	}
	return moves
}

// isWrong reports whether the moves may happen one after the other, and end in what is wrong.
func isWrong(l limits, moves []move) bool {
	w := newWorld(l)
	for _, m := range moves {
		e := everything[m.what]
		if int(m.arg) >= e.of(w) || !e.may(w, int(m.arg)) {
			return false
		}
		e.do(w, int(m.arg))
	}
	return w.finish() != ""
}

// tell has the moves in words.
func tell(l limits, moves []move, why string) (story []string) {
	w := newWorld(l)
	for i, m := range moves {
		e := everything[m.what]
		story = append(story, fmt.Sprintf("%d. %s", i+1, strings.Replace(e.name, "%s", fmt.Sprint(m.arg+1), 1)))
		e.do(w, int(m.arg))
	}
	return append(story, "Then, with nothing else going wrong: "+why+".")
}

// A hasher makes a number of all that a world has and refers to, whether exported or not. Two worlds with the same number
// have the same future.
type hasher struct {
	seed maphash.Seed
	buf  []byte
	at   map[place]uint16
}

// A place is where something is, and its type: a struct is where its first field is.
type place struct {
	at unsafe.Pointer
	of reflect.Type
}

// uncounted are fields that have no influence on what happens: statistics, and what is the same in all worlds.
var uncounted = map[string]bool{
	"Node.Config": true, "Node.rtt": true, "Node.takes": true, "Node.stats": true, "Node.facts": true, "Node.unknown": true,
	"Node.settled": true, "vanished.epoch": true, "world.limits": true, "world.before": true, "world.vanished": true, "call.w": true, "dueReleases.dropped": true, "Conn.why": true, "Conn.said": true, "Node.down": true,
}

func (h *hasher) of(w *world) uint64 {
	h.buf = h.buf[:0]
	clear(h.at)
	h.add(reflect.ValueOf(w))
	return maphash.Bytes(h.seed, h.buf)
}

func (h *hasher) number(n uint64) {
	for ; n >= 0x80; n >>= 7 {
		h.buf = append(h.buf, byte(n)|0x80)
	}
	h.buf = append(h.buf, byte(n))
}

var scriptType = reflect.TypeFor[*node.Script]()

func (h *hasher) add(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		p := v.UnsafePointer()
		if p == nil {
			h.buf = append(h.buf, 0)
			return
		}
		if v.Type() == scriptType {
			h.buf = append(h.buf, (*node.Script)(p).Name...)
			return
		}
		here := place{p, v.Type()}
		if i, ok := h.at[here]; ok {
			h.number(uint64(i))
			return
		}
		h.at[here] = uint16(len(h.at) + 1)
		h.number(uint64(len(h.at)))
		h.add(v.Elem())
	case reflect.Struct:
		for _, i := range fields(v.Type()) {
			h.add(v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		h.number(uint64(v.Len()))
		if v.Len() == len(tooLong) {
			return
		}
		for i := range v.Len() {
			h.add(v.Index(i))
		}
	case reflect.Interface:
		if v.IsNil() {
			h.buf = append(h.buf, 0)
			return
		}
		h.buf = append(h.buf, 1)
		h.add(v.Elem())
	case reflect.Bool:
		if v.Bool() {
			h.buf = append(h.buf, 1)
		} else {
			h.buf = append(h.buf, 0)
		}
	case reflect.String:
		h.buf = append(h.buf, v.String()...)
	case reflect.Float64, reflect.Func:
	default:
		if v.CanInt() {
			h.number(uint64(v.Int()))
		} else {
			h.number(v.Uint())
		}
	}
}

var counted = map[reflect.Type][]int{}

// fields are those of a struct that count.
func fields(t reflect.Type) []int {
	all, ok := counted[t]
	if !ok {
		for i := range t.NumField() {
			if f := t.Field(i); !uncounted[t.Name()+"."+f.Name] && f.Type != reflect.TypeFor[*time.Location]() {
				all = append(all, i)
			}
		}
		counted[t] = all
	}
	return all
}

// A named search has a name.
type named struct {
	name string
	limits
}

// usual searches go to the end, and take some seconds together.
var usual = []named{
	{"what comes late", limits{tokens: 1, breaks: 2, ticks: 1, hours: 1, other: true}},
	{"a proxy", limits{tokens: 1, breaks: 1, giveUps: 1, ticks: 1, hours: 1, nonsense: 1}},
	{"nonsense", limits{tokens: 1, breaks: 1, fails: 1, nonsense: 1, withdraws: true}},
	{"refusals", limits{tokens: 1, breaks: 1, refusals: 2, giveUps: 1, ticks: 2}},
	{"extensions and repairs", limits{tokens: 1, breaks: 1, ticks: 1, extensions: 1, repairs: 1, flushes: 1, withdraws: true, other: true}},
	{"a min hold", limits{tokens: 1, breaks: 1, ticks: 1, extensions: 1, leaves: true, hours: 1}},
	{"a min hold that waits", limits{tokens: 1, refusals: 1, leaves: true, pauses: 1}},
	{"a min hold of what was never asked for", limits{tokens: 1, fails: 1, extensions: 1, leaves: true, pauses: 2}},
	{"another process releases", limits{tokens: 1, breaks: 2, refusals: 1, ticks: 2, hours: 1, foreign: true}},
	{"released twice", limits{tokens: 1, breaks: 1, refusals: 1, ticks: 1, repeats: 1}},
	{"the end", limits{tokens: 1, breaks: 1, refusals: 1, ticks: 1, closes: true, withdraws: true}},
	{"the end of a failure", limits{tokens: 1, breaks: 1, fails: 1, closes: true, withdraws: true}},
	{"connections made anew", limits{tokens: 1, breaks: 1, refusals: 1, renewals: 1, extensions: 1}},
	{"asked again", limits{tokens: 1, breaks: 1, giveUps: 1, refusals: 1, askedAgain: 1, other: true, withdraws: true}},
	{"a process that stops", limits{tokens: 1, looks: 4, stops: 1}},
	{"a process that stops on two connections", limits{tokens: 1, looks: 2, stops: 2, renewals: 1}},
	{"one after the other", limits{tokens: 2, breaks: 1}},
	{"scripts forgotten", limits{tokens: 1, breaks: 1, forgets: 2, extensions: 1, withdraws: true}},
	{"requests that come twice", limits{tokens: 1, breaks: 1, doubles: 1, refusals: 1, extensions: 1}},
	{"silence", limits{tokens: 1, breaks: 1, silences: 1, ticks: 1, withdraws: true}},
	{"pauses", limits{tokens: 2, pauses: 2}},
	{"repairs that are late", limits{tokens: 1, breaks: 1, extensions: 1, repairs: 1, flushes: 1, pauses: 1}},
	{"an hour", limits{tokens: 1, breaks: 1, ticks: 2, minutes: 1, hours: 1}},
	{"too many unanswered", limits{tokens: 2, unanswered: 1, withdraws: true}},
	{"a standstill", limits{tokens: 1, breaks: 1, wakes: 1, ticks: 1}},
	{"requests without the script", limits{tokens: 1, breaks: 1, giveUps: 1, refusals: 1, direct: true, other: true, withdraws: true}},
	{"a server that does not know them", limits{tokens: 2, direct: true, old: true}},
	{"a value that is too long for them", limits{tokens: 1, askedAgain: 2, breaks: 1, direct: true, long: true, other: true}},
	{"releases without the script", limits{tokens: 1, breaks: 1, refusals: 1, giveUps: 1, deletes: true, waiters: 1, other: true}},
	{"releases without the script of two", limits{tokens: 2, breaks: 1, deletes: true, waiters: 1}},
	{"the end of releases without the script", limits{tokens: 1, refusals: 1, nonsense: 1, closes: true, repeats: 1, deletes: true, waiters: 1}},
	{"connections made anew between them", limits{tokens: 1, renewals: 1, forgets: 1, deletes: true, waiters: 1}},
	{"quarantine", limits{tokens: 1, breaks: 1, quarantine: 1, extensions: 1, repairs: 1, flushes: 1, withdraws: true}},
	{"quarantine of requests without the script", limits{tokens: 1, quarantine: 1, direct: true}},
	{"the watchdog", limits{tokens: 1, looks: 5}},
	{"the end of what comes late", limits{tokens: 1, breaks: 1, ticks: 1, closes: true}},
	{"lives", limits{tokens: 1, extensions: 2, flushes: 1, hours: 1}},
	{"questions aside", limits{tokens: 1, looks: 4, asides: 1}},
	{"others find another server", limits{tokens: 1, looks: 3, anews: 1}},
	{"the machine sleeps", limits{tokens: 1, sleeps: 1, stops: 1, extensions: 1, flushes: 1}},
	{"enough others", limits{tokens: 2, silences: 1, enough: true}},
	{"enough others, after a failure", limits{tokens: 2, fails: 1, enough: true}},
}

// full searches, with WORLD=full, take about half an hour.
var full = []named{
	{"what comes late", limits{tokens: 1, breaks: 3, fails: 1, ticks: 2, hours: 1, other: true}},
	{"a proxy", limits{tokens: 1, breaks: 1, fails: 1, giveUps: 2, ticks: 2, hours: 1, nonsense: 1, other: true}},
	{"refusals", limits{tokens: 1, breaks: 2, refusals: 2, giveUps: 1, ticks: 2, hours: 1}},
	{"extensions and repairs", limits{tokens: 1, breaks: 2, ticks: 2, extensions: 2, repairs: 1, flushes: 1, withdraws: true, hours: 1}},
	{"a min hold", limits{tokens: 1, breaks: 2, fails: 1, ticks: 2, extensions: 2, leaves: true, hours: 1}},
	{"another process releases", limits{tokens: 1, breaks: 3, fails: 1, refusals: 1, ticks: 2, hours: 1, foreign: true}},
	{"the end", limits{tokens: 1, breaks: 2, fails: 1, refusals: 1, ticks: 2, closes: true, withdraws: true}},
	{"connections made anew", limits{tokens: 1, breaks: 1, refusals: 1, renewals: 2, extensions: 1, ticks: 1, forgets: 1}},
	{"requests that come twice", limits{tokens: 1, breaks: 2, doubles: 2, refusals: 1, extensions: 1, repairs: 1, flushes: 1, other: true}},
	{"an hour", limits{tokens: 1, breaks: 1, ticks: 3, minutes: 1, hours: 1, refusals: 1}},
	{"releases without the script", limits{tokens: 1, breaks: 2, refusals: 1, giveUps: 1, ticks: 1, deletes: true, waiters: 1, other: true}},
	{"requests without the script", limits{tokens: 1, breaks: 2, giveUps: 1, refusals: 2, direct: true, other: true, withdraws: true}},
	{"the watchdog", limits{tokens: 1, looks: 6, pauses: 1}},
	{"others find another server", limits{tokens: 1, looks: 4, anews: 1, renewals: 1}},
	{"two tokens", limits{tokens: 2, breaks: 2, fails: 1, ticks: 1}},
	{"three tokens", limits{tokens: 3, breaks: 1}},
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // A state is many small things.
	m.Run()
}

func TestWorldUsual(t *testing.T) {
	if testcluster.RaceEnabled {
		t.Skip("one goroutine has no races")
	}
	t.Parallel()
	searchAll(t, usual)
}

func TestWorldFull(t *testing.T) {
	if os.Getenv("WORLD") != "full" {
		t.Skip("for WORLD=full")
	}
	searchAll(t, full)
}

func searchAll(t *testing.T, searches []named) {
	t.Helper()
	for _, s := range searches {
		t.Run(s.name, func(t *testing.T) {
			began := time.Now()
			story, states := search(s.limits)
			if len(story) > 0 {
				t.Fatalf("after %d states:\n%s", states, strings.Join(story, "\n"))
			}
			t.Logf("%d states in %.1f s", states, time.Since(began).Seconds())
		})
	}
}

// everyone has several tokens, and all that may happen, often.
var everyone = limits{
	tokens: 3, askedAgain: 1, breaks: 3, fails: 2, refusals: 3, giveUps: 2, ticks: 8, extensions: 2, repairs: 1, nonsense: 1, doubles: 1, repeats: 2, silences: 1, flushes: 1, forgets: 1,
	renewals: 2, pauses: 3, wakes: 1, minutes: 2, hours: 1, withdraws: true, other: true,
}

func TestWorldAtRandom(t *testing.T) {
	if testcluster.RaceEnabled {
		t.Skip("one goroutine has no races")
	}
	t.Parallel()
	walks, seed := 10_000, uint64(1) // The same ones with each change.
	if n, err := strconv.Atoi(os.Getenv("WORLD_WALKS")); err == nil {
		walks, seed = n, rand.Uint64()
	}
	for i, change := range []func(l *limits){
		func(*limits) {},
		func(l *limits) { l.leaves = true },
		func(l *limits) { l.foreign = true },
		func(l *limits) { l.closes, l.tokens = true, 2 },
		func(l *limits) {
			*l = limits{tokens: 2, looks: 30, pauses: 4, asides: 3, anews: 2, renewals: 2, breaks: 1, refusals: 1, extensions: 2, stops: 2, patient: true}
		},
		func(l *limits) {
			*l = limits{tokens: 2, looks: 30, pauses: 4, sleeps: 2, stops: 1, breaks: 1, flushes: 1, extensions: 2, repairs: 1, ticks: 4, hours: 1}
		},
		func(l *limits) { *l = limits{tokens: 1, looks: 30, anews: 2, renewals: 2, breaks: 1, ageless: true} },
		func(l *limits) {
			l.looks, l.pauses, l.stops, l.asides, l.anews, l.closes, l.patient, l.silences, l.wakes = 40, 6, 2, 2, 2, true, true, 0, 0
		},
		func(l *limits) { l.direct, l.old, l.long = true, false, true },
		func(l *limits) { l.quarantine, l.asides, l.sleeps = 2, 2, 1 },
		func(l *limits) { l.deletes, l.waiters = true, 3 },
		func(l *limits) { l.deletes, l.waiters, l.closes, l.tokens = true, 2, true, 2 },
		func(l *limits) { l.deletes, l.waiters, l.foreign, l.direct = true, 2, true, true },
	} {
		l := everyone
		change(&l)
		began := time.Now()
		if story := wander(l, 60, seed, walks); len(story) > 0 {
			t.Fatalf("seed %d, %d:\n%s", seed, i, strings.Join(story, "\n"))
		}
		t.Logf("%d walks in %v", walks, time.Since(began).Round(time.Millisecond))
	}
}
