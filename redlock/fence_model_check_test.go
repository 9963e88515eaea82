package redlock

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

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
