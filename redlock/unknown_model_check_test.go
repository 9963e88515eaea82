package redlock

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An unknownSearch is a model that is searched through.
type unknownSearch struct {
	name  string
	rules unknownRules
}

// With duplicates: whatever the order, whatever the tombstone does. In order: what a
// node is left with.
var (
	anyOrder = unknownRules{ttl: 2, life: 1, ticks: 2, conns: [3]uint8{2, 1, 1}, extensions: 1, duplicates: true}
	inOrder  = unknownRules{ttl: 2, life: noEnd, conns: [3]uint8{3, 1, 1}, extensions: 2, leftovers: true}
)

func (r unknownRules) with(change func(*unknownRules)) unknownRules {
	change(&r)
	return r
}

// usual searches take some seconds.
var usualUnknowns = []unknownSearch{
	{"exclusion", anyOrder.with(func(r *unknownRules) { r.ttl, r.ticks = 1, 1 })},
	{"exclusion, another process releases", anyOrder.with(func(r *unknownRules) { r.ttl, r.ticks, r.extensions, r.other = 1, 1, 0, true })},
	{"keys of a held lock", anyOrder.with(func(r *unknownRules) { r.alone = true })},
	{"exclusion without a tombstone, and releases at any time", anyOrder.with(func(r *unknownRules) {
		r.ttl, r.ticks, r.noTombstone, r.releaseFirst = 1, 1, true, true
	})},
	{"leftovers", inOrder},
	{"leftovers, two nodes", inOrder.with(func(r *unknownRules) { r.conns, r.extensions = [3]uint8{2, 2, 1}, 1 })},
}

// full searches, with UNKNOWN_MODEL=full, have tens of millions of states, and take
// some minutes and GB.
var fullUnknowns = []unknownSearch{
	{"exclusion", anyOrder},
	{"exclusion, another process releases", anyOrder.with(func(r *unknownRules) { r.other = true })},
	{"exclusion without a tombstone, and releases at any time", anyOrder.with(func(r *unknownRules) { r.noTombstone, r.releaseFirst = true, true })},
	{"keys of a held lock, three connections", anyOrder.with(func(r *unknownRules) { r.alone, r.conns = true, [3]uint8{3, 1, 1} })},
	{"keys of a held lock, two extensions", anyOrder.with(func(r *unknownRules) { r.alone, r.extensions, r.ticks = true, 2, 3 })},
	{"leftovers, all nodes", inOrder.with(func(r *unknownRules) { r.conns = [3]uint8{3, 2, 2} })},
}

func searchUnknowns(t *testing.T, searches []unknownSearch) {
	t.Helper()
	for _, search := range searches {
		t.Run(search.name, func(t *testing.T) {
			start := time.Now()
			m := unknownModel{unknownRules: search.rules}
			states, broken := m.explore()
			t.Logf("%d states in %.1f s", states, time.Since(start).Seconds())
			if broken != "" {
				trace, _ := m.shortest()
				for _, line := range trace {
					t.Log(line)
				}
			}
			require.Empty(t, broken)
		})
	}
}

func TestUnknownModelUsual(t *testing.T) {
	if raceEnabled || testing.Short() {
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
		// The first version: a clean-up beside other requests.
		{"a clean-up deletes what may be held, at any time", anyOrder.with(func(r *unknownRules) {
			r.alone, r.duplicates, r.cleanUp, r.repairMissing = true, false, deleteAnyTime, true
		})},
		// The second: before all else.
		{"a clean-up deletes what may be held, and comes twice", anyOrder.with(func(r *unknownRules) {
			r.alone, r.cleanUp, r.repairMissing = true, deleteFirst, true
		})},
		{"a clean-up deletes what may be held, and comes when the tombstone has expired", anyOrder.with(func(r *unknownRules) {
			r.alone, r.duplicates, r.cleanUp, r.repairMissing = true, false, deleteFirst, true
			r.conns, r.extensions, r.ticks = [3]uint8{3, 1, 1}, 2, 3
		})},
		// What was needed in it, and was not enough.
		{"that, and does not look for a newer one", anyOrder.with(func(r *unknownRules) {
			r.alone, r.duplicates, r.cleanUp, r.repairMissing, r.noGeneration = true, false, deleteFirst, true, true
			r.conns, r.extensions, r.life = [3]uint8{3, 1, 1}, 2, noEnd
		})},
		{"that, and repairs on old news", anyOrder.with(func(r *unknownRules) {
			r.alone, r.duplicates, r.cleanUp = true, false, deleteFirst
			r.extensions, r.life, r.ticks = 2, noEnd, 3
		})},
		{"the first process goes on after another's release", anyOrder.with(func(r *unknownRules) { r.other, r.goOn, r.ttl, r.ticks = true, true, 1, 0 })},
		{"there is no tombstone", inOrder.with(func(r *unknownRules) { r.noTombstone = true })},
		{"the lock script does not look at it", inOrder.with(func(r *unknownRules) { r.lockWithoutStone = true })},
		{"a tombstone does not look for a newer one", inOrder.with(func(r *unknownRules) { r.noGeneration = true })},
		{"there is one only where a release is owed", inOrder.with(func(r *unknownRules) { r.onlyIfOwed = true })},
		{"it expires too early", inOrder.with(func(r *unknownRules) { r.life, r.ticks = 1, 1 })},
		{"the outcome of a repair is not settled", inOrder.with(func(r *unknownRules) { r.repairUnsettled = true })},
		{"a release goes ahead of the tombstone", inOrder.with(func(r *unknownRules) { r.releaseFirst = true })},
		{"a release that was not answered is not owed", inOrder.with(func(r *unknownRules) { r.releaseLost = true })},
		{"nor is one while connecting", inOrder.with(func(r *unknownRules) { r.releaseDropped = true })},
	} {
		t.Run(wrong.name, func(t *testing.T) {
			if testing.Short() && wrong.rules.conns[0] > 2 {
				t.Skip("three connections take most of the time")
			}
			m := unknownModel{unknownRules: wrong.rules}
			start := time.Now()
			trace, states := m.shortest()
			found := time.Since(start)
			require.NotEmpty(t, trace, "nothing wrong in %d states", states)
			for _, line := range trace {
				t.Log(line)
			}
			t.Logf("%d steps; %d states in %.1f s", len(trace)-1, states, found.Seconds())
		})
	}
}
