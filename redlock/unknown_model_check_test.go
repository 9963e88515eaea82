package redlock

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

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
