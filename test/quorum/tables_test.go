package quorum

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

type (
	byNode   = [maxNodes]int64
	holders  = [maxNodes]uint8
	byClient = [maxClients]uint8
)

// votes are those of one client: what they come to, what is told, and who waits.
var votes = []named{
	{"one node", limits{nodes: 1, clients: 1, tries: byClient{2}, max: budget{ticks: 2, giveUps: 1, breaks: 1, lates: 1, faults: 1}}},
	{"two nodes", limits{nodes: 2, clients: 1, max: budget{ticks: 2, giveUps: 1, faults: 1}}},
	{"a timer that is early", limits{nodes: 2, clients: 1, swift: true, held: holders{1}, max: budget{ticks: 1, premature: 2}}},
	{"after a sleep", limits{nodes: 1, clients: 1, tries: byClient{2}, swift: true, ttl: 3 * ms, patience: ms, max: budget{ticks: 3, sleeps: 1}}},
	{"two nodes that are lost", limits{nodes: 2, clients: 1, max: budget{ticks: 1, breaks: 2, lates: 1}}},
	{"three nodes", limits{nodes: 3, clients: 1, swift: true, max: budget{ticks: 2, giveUps: 1, faults: 2}}},
	{"three nodes that are lost", limits{nodes: 3, clients: 1, swift: true, max: budget{giveUps: 1, breaks: 2, lates: 1}}},
	{"four nodes", limits{nodes: 4, clients: 1, swift: true, held: holders{1, 1}, max: budget{faults: 2}}},
	{"five nodes", limits{nodes: 5, clients: 1, swift: true, held: holders{1, 2, 1}, max: budget{faults: 2}}},
	{"one of three is held", limits{nodes: 3, clients: 1, swift: true, held: holders{1}, max: budget{ticks: 1, giveUps: 1, faults: 1}}},
	{"two of three are held", limits{nodes: 3, clients: 1, held: holders{1, 1}, max: budget{ticks: 1, giveUps: 1}}},
	{"two of three are held by two", limits{nodes: 3, clients: 1, swift: true, held: holders{1, 2}, max: budget{ticks: 1, giveUps: 1, faults: 1}}},
	{"two of four are held", limits{nodes: 4, clients: 1, swift: true, held: holders{1, 1}, mute: 4, max: budget{giveUps: 1}}},
	{"one of two is held", limits{nodes: 2, clients: 1, held: holders{1}, max: budget{ticks: 1, giveUps: 1}}},
	{"nobody is named", limits{nodes: 2, clients: 1, held: holders{1}, unnamed: 1, max: budget{ticks: 1, giveUps: 1}}},
	{"turned away", limits{nodes: 3, clients: 1, swift: true, held: holders{0, 1}, down: 1, max: budget{ticks: 2, giveUps: 1, faults: 1}}},
	{"all are turned away", limits{nodes: 3, clients: 1, down: 7, comesTo: "no quorum"}},
	{"one by one", limits{nodes: 3, clients: 1, swift: true, interleaved: true, max: budget{ticks: 1, giveUps: 1}}},
	{"one by one, fences", limits{nodes: 3, clients: 1, fenced: true, counters: byNode{1, 5, 3}, swift: true, interleaved: true, max: budget{ticks: 1}}},
	{"two resources of two holders", limits{nodes: 3, clients: 1, swift: true, wants: byClient{3}, held: holders{1}, heldSecond: holders{0, 2}, max: budget{ticks: 1, giveUps: 1}}},
	{"two resources of one holder", limits{nodes: 3, clients: 1, swift: true, wants: byClient{3}, held: holders{1}, heldSecond: holders{2, 1}, max: budget{ticks: 1}}},
	{"others' turn", limits{nodes: 2, clients: 1, max: budget{ticks: 1, reserves: 2}}},
	{"others' turn on three", limits{nodes: 3, clients: 1, swift: true, held: holders{1}, max: budget{ticks: 1, reserves: 1}}},
	{"taken late", limits{nodes: 1, clients: 1, ttl: 4 * ms, atLeast: ms, max: budget{ticks: 6, delays: 1, lags: 1, sleeps: 1, giveUps: 1}}},
	{"read late", limits{nodes: 1, clients: 1, ttl: 4 * ms, patience: 6 * ms, max: budget{ticks: 6, reads: 1, stops: 1}}},
	{"read late, three nodes", limits{nodes: 3, clients: 1, swift: true, ttl: 4 * ms, patience: 6 * ms, max: budget{ticks: 5, reads: 1, stops: 1}}},
	{"asked late", limits{nodes: 2, clients: 1, ttl: 6 * ms, patience: 3 * ms, swift: true, max: budget{ticks: 6, lags: 1}}},
	{"the lock ends before the patience", limits{nodes: 3, clients: 1, ttl: 3 * ms, patience: 4 * ms, swift: true, max: budget{ticks: 4, giveUps: 1}}},
	{"slow nodes", limits{nodes: 3, clients: 1, swift: true, held: holders{1}, takes: [maxNodes]time.Duration{0, 0, 5 * ms}, patience: 6 * ms, ttl: 60 * ms, unit: 2 * ms, max: budget{ticks: 4, faults: 1}}},
	{"nodes that are not quite slow", limits{nodes: 3, clients: 1, swift: true, held: holders{1, 1}, takes: [maxNodes]time.Duration{0, ms, 6 * ms}, patience: 20 * ms, ttl: 60 * ms, unit: 2 * ms, max: budget{ticks: 4}}},
	{"five nodes, two of them slow", limits{nodes: 5, clients: 1, swift: true, held: holders{1, 2, 0}, takes: [maxNodes]time.Duration{0, 0, 0, 5 * ms, 5 * ms}, patience: 4 * ms, ttl: 60 * ms, unit: 2 * ms, max: budget{ticks: 1}}},
}

// outcomes are what must come of one client's attempt where all answers come in time.
var outcomes = []named{
	{"a minority is silent", limits{nodes: 3, clients: 1, trip: ms, swift: true, mute: 1, comesTo: "granted", max: budget{ticks: 2, giveUps: 0}}},
	{"a minority fails", limits{nodes: 3, clients: 1, trip: ms, comesTo: "granted", max: budget{ticks: 1, faults: 1}}},
	{"at the last moment", limits{nodes: 3, clients: 1, trip: 3 * ms, patience: 4 * ms, ttl: 9 * ms, swift: true, mute: 1, comesTo: "granted", max: budget{ticks: 4}}},
	{"two of five", limits{nodes: 5, clients: 1, trip: ms, swift: true, mute: 1, comesTo: "granted", max: budget{ticks: 1, faults: 1}}},
	{"one of four", limits{nodes: 4, clients: 1, trip: ms, swift: true, mute: 1, comesTo: "granted", max: budget{ticks: 1}}},
	{"half of four", limits{nodes: 4, clients: 1, trip: ms, swift: true, mute: 3, comesTo: "no quorum", max: budget{ticks: 1}}},
	{"an outage", limits{nodes: 3, clients: 1, trip: ms, swift: true, mute: 3, held: holders{0, 0, 1}, comesTo: "no quorum", max: budget{ticks: 1}}},
	{"an outage of three", limits{nodes: 5, clients: 1, trip: ms, swift: true, mute: 7, held: holders{0, 0, 0, 1, 1}, comesTo: "no quorum", max: budget{ticks: 1}}},
	{"somebody has it", limits{nodes: 3, clients: 1, trip: ms, swift: true, held: holders{1, 1}, mute: 4, comesTo: "taken", max: budget{ticks: 1}}},
	{"somebody has it on three of five", limits{nodes: 5, clients: 1, trip: ms, swift: true, held: holders{1, 1, 1}, mute: 16, comesTo: "taken", max: budget{ticks: 1}}},
	{"a standstill", limits{nodes: 3, clients: 1, trip: 10 * ms, swift: true, unit: 30 * ms, patience: 20 * ms, ttl: 1000 * ms, mute: 1, comesTo: "granted", max: budget{ticks: 3, stops: 1}}},
	{"a leftover and a slow node", limits{nodes: 3, clients: 1, least: ms, trip: ms, takes: [maxNodes]time.Duration{0, 0, 150 * ms}, slow: true, swift: true, held: holders{1}, patience: 250 * ms, ttl: 1000 * ms, comesTo: "granted"}},
	{"a raise that takes long", limits{nodes: 3, clients: 1, least: 6 * ms, trip: 6 * ms, swift: true, patience: 10 * ms, ttl: 100 * ms, fenced: true, counters: byNode{5, 9, 7}, comesTo: "granted"}},
	{"a raise", limits{nodes: 3, clients: 1, trip: ms, patience: 20 * ms, ttl: 100 * ms, fenced: true, counters: byNode{5, 9, 7}, comesTo: "granted", max: budget{ticks: 1}}},
	{"a raise that is refused", limits{nodes: 3, clients: 1, trip: ms, patience: 20 * ms, ttl: 100 * ms, fenced: true, counters: byNode{5, 9, 7}, leaves: 1, comesTo: "granted", max: budget{ticks: 1}}},
	{"a raise by the largest that is refused", limits{nodes: 3, clients: 1, trip: ms, patience: 20 * ms, ttl: 100 * ms, fenced: true, counters: byNode{5, 7, 9}, leaves: 4, comesTo: "granted", max: budget{ticks: 1}}},
	{"raises that are refused", limits{nodes: 5, clients: 1, trip: ms, swift: true, fenced: true, counters: byNode{5, 9, 7, 1, 3}, leaves: 3, patience: 20 * ms, ttl: 100 * ms, comesTo: "granted"}},
	{"raises with silence", limits{nodes: 3, clients: 1, trip: ms, patience: 20 * ms, ttl: 100 * ms, swift: true, fenced: true, counters: byNode{5, 9, 7}, mute: 2, comesTo: "granted", max: budget{ticks: 2}}},
	{"a raise of two", limits{nodes: 2, clients: 1, trip: ms, patience: 20 * ms, ttl: 100 * ms, fenced: true, counters: byNode{5, 9}, comesTo: "granted", max: budget{ticks: 1}}},
}

// prompt has all answers come after a round trip, in whatever order, so that one of the clients wins.
func prompt(nodes, clients int, change func(l *limits)) limits {
	l := limits{
		nodes: nodes, clients: clients, together: true, swift: true, least: ms, trip: ms, claims: 8, patience: 100 * ms,
		ttl: 1000 * ms, wins: 1,
	}
	if change != nil {
		change(&l)
	}
	return l
}

// splits are of several clients that begin together: exactly one wins.
var splits = []named{
	{"two on two", prompt(2, 2, func(l *limits) { l.lucks = 3 })},
	{"two on two, far away", prompt(2, 2, func(l *limits) { l.least, l.trip, l.patience = 15*ms, 15*ms, 250*ms })},
	{"two on two, the other way round", prompt(2, 2, func(l *limits) { l.digests = "bacdfehgjilknmpo" })},
	{"two on one", prompt(1, 2, nil)},
	{"two on three, one is down", prompt(3, 2, func(l *limits) { l.lucks, l.down = 3, 1 })},
	{"two on three, one hangs", prompt(3, 2, func(l *limits) { l.mute, l.takes[0] = 1, 8*ms })},
	{"two on three, one is slow", prompt(3, 2, func(l *limits) { l.takes[0] = 8 * ms })},
	{"two on four", prompt(4, 2, nil)},
	{"two on three, jitter", prompt(3, 2, func(l *limits) { l.trip, l.unit, l.max = 3*ms/2, ms/2, budget{ticks: 2} })},
	{"two on two, jitter", prompt(2, 2, func(l *limits) { l.trip, l.unit, l.max = 3*ms/2, ms/2, budget{ticks: 3} })},
	{"three on three", prompt(3, 3, nil)},
	{"fences", prompt(2, 2, func(l *limits) { l.fenced, l.counters = true, byNode{1, 4} })},
	{"two resources", prompt(2, 2, func(l *limits) { l.wants = byClient{3, 3} })},
}

// exclusion is of locks that end by clocks.
var exclusion = []named{
	{"one node", limits{nodes: 1, clients: 2, ttl: 3 * ms, patience: ms, swift: true, max: budget{ticks: 5, delays: 2, unlocks: 1}}},
	{"two nodes", limits{nodes: 2, clients: 2, claims: 2, ttl: 3 * ms, patience: ms, swift: true, max: budget{ticks: 4}}},
	{"three nodes", limits{nodes: 3, clients: 2, claims: 2, ttl: 2 * ms, patience: ms, together: true, swift: true, max: budget{ticks: 2}}},
	{"a machine sleeps", limits{nodes: 1, clients: 2, ttl: 2 * ms, patience: ms, swift: true, max: budget{ticks: 4, sleeps: 1, delays: 1}}},
	{"late answers", limits{nodes: 1, clients: 2, ttl: 3 * ms, patience: 4 * ms, max: budget{ticks: 5, delays: 1}}},
	{"late answers of two", limits{nodes: 2, clients: 2, claims: 2, ttl: 3 * ms, patience: ms, together: true, max: budget{ticks: 2}}},
	{"a contest", limits{nodes: 2, clients: 2, claims: 3, together: true, ttl: 3 * ms, patience: 2 * ms, swift: true, max: budget{ticks: 2}}},
	{"a contest of three", limits{nodes: 3, clients: 2, claims: 3, down: 1, together: true, ttl: 4 * ms, patience: 3 * ms, swift: true, max: budget{ticks: 2}}},
	{"restarts", limits{nodes: 1, clients: 2, ttl: 2 * ms, patience: ms, swift: true, max: budget{ticks: 6, restarts: 1}}},
	{"again", limits{nodes: 1, clients: 2, claims: 3, tries: byClient{2, 1}, ttl: 3 * ms, patience: ms, swift: true, max: budget{ticks: 4, giveUps: 1}}},
	{"broken connections", limits{nodes: 1, clients: 2, ttl: 3 * ms, patience: ms, max: budget{ticks: 2, breaks: 1, lates: 1}}},
	{"what comes twice", limits{nodes: 1, clients: 2, ttl: 4 * ms, patience: ms, swift: true, max: budget{ticks: 2, twice: 1, unlocks: 1}}},
	{"a set that grows from one to two", limits{nodes: 2, clients: 2, given: byClient{1, 2}, ttl: 3 * ms, patience: ms, swift: true, max: budget{ticks: 4, delays: 1, unlocks: 1}}},
	{"a set that grows from two to three", limits{nodes: 3, clients: 2, claims: 2, given: byClient{2, 3}, ttl: 2 * ms, patience: ms, together: true, swift: true, max: budget{ticks: 2}}},
	{"a set that grows from three to four", limits{nodes: 4, clients: 2, claims: 2, given: byClient{3, 4}, swift: true, untimed: true}},
	{"extensions", limits{nodes: 1, clients: 2, ttl: 3 * ms, patience: ms, swift: true, max: budget{ticks: 4, extends: 1}}},
	{"extensions of two", limits{nodes: 2, clients: 2, claims: 2, ttl: 2 * ms, patience: ms, together: true, swift: true, max: budget{ticks: 3, extends: 1}}},
}

// holds are extensions and releases.
var holds = []named{
	{"one node", limits{nodes: 1, clients: 1, ttl: 4 * ms, swift: true, max: budget{ticks: 5, extends: 2, unlocks: 1, flushes: 1, giveUps: 1}}},
	{"two nodes", limits{nodes: 2, clients: 1, trip: ms, ttl: 4 * ms, swift: true, max: budget{ticks: 5, extends: 1, unlocks: 1, flushes: 1}}},
	{"three nodes, lost keys", limits{nodes: 3, clients: 1, least: ms, trip: ms, ttl: 8 * ms, swift: true, max: budget{ticks: 3, extends: 1, unlocks: 1, flushes: 2}}},
	{"three nodes, faults", limits{nodes: 3, clients: 1, least: ms, trip: ms, ttl: 8 * ms, swift: true, max: budget{extends: 1, unlocks: 1, flushes: 1, faults: 1}}},
	{"three nodes, a silent one", limits{nodes: 3, clients: 1, mute: 1, ttl: 8 * ms, swift: true, max: budget{ticks: 1, extends: 1, unlocks: 1, flushes: 1}}},
	{"three nodes, a lost key and a slow node", limits{nodes: 3, clients: 1, least: ms, trip: ms, takes: [maxNodes]time.Duration{0, 0, 5 * ms}, slow: true, ttl: 60 * ms, patience: 20 * ms, swift: true, max: budget{extends: 1, unlocks: 1, flushes: 1}}},
	{"four nodes", limits{nodes: 4, clients: 1, least: ms, trip: ms, ttl: 8 * ms, swift: true, max: budget{extends: 1, unlocks: 1, flushes: 2}}},
	{"four nodes, faults", limits{nodes: 4, clients: 1, least: ms, trip: ms, ttl: 8 * ms, swift: true, max: budget{extends: 1, unlocks: 1, faults: 2}}},
	{"five nodes", limits{nodes: 5, clients: 1, least: ms, trip: ms, ttl: 8 * ms, swift: true, max: budget{extends: 1, flushes: 2}}},
	{"late", limits{nodes: 1, clients: 1, ttl: 4 * ms, patience: 5 * ms, max: budget{ticks: 7, extends: 1}}},
	{"a machine sleeps", limits{nodes: 1, clients: 1, ttl: 4 * ms, patience: 5 * ms, swift: true, max: budget{ticks: 7, extends: 1, sleeps: 1}}},
	{"broken connections", limits{nodes: 1, clients: 1, ttl: 4 * ms, max: budget{ticks: 2, extends: 1, unlocks: 1, breaks: 2, lates: 1}}},
	{"repairs", limits{nodes: 2, clients: 1, ttl: 4 * ms, swift: true, max: budget{ticks: 1, extends: 1, unlocks: 1, flushes: 1, repairs: 1}}},
	{"released by another process", limits{nodes: 3, clients: 2, foreign: true, swift: true, least: ms, trip: ms, max: budget{flushes: 1, faults: 1}}},
	{"released by another process, one node is silent", limits{nodes: 3, clients: 2, foreign: true, swift: true, mute: 4, max: budget{flushes: 1}}},
	{"released by another process, two nodes", limits{nodes: 2, clients: 2, foreign: true, swift: true, max: budget{ticks: 1, giveUps: 1}}},
	{"released by another process, four nodes", limits{nodes: 4, clients: 2, foreign: true, swift: true, least: ms, trip: ms, max: budget{flushes: 1}}},
}

// fenced has locks with fences, whose keys may go at any time.
func fenced(nodes, clients int, change func(l *limits)) limits {
	l := limits{nodes: nodes, clients: clients, claims: uint8(clients), fenced: true, anyExpiry: true, ttl: 100 * ms, patience: ms}
	if change != nil {
		change(&l)
	}
	return l
}

var fences = []named{
	{"one node", fenced(1, 2, func(l *limits) { l.max = budget{ticks: 1, twice: 1, giveUps: 1} })},
	{"two nodes", fenced(2, 2, func(l *limits) { l.swift = true })},
	{"two nodes, late answers", fenced(2, 2, func(l *limits) { l.together = true })},
	{"three nodes", fenced(3, 2, func(l *limits) { l.swift, l.untimed = true, true })},
	{"one of three is far ahead", fenced(3, 2, func(l *limits) { l.swift, l.untimed, l.counters = true, true, byNode{4, 1, 1} })},
	{"three nodes that differ", fenced(3, 1, func(l *limits) { l.counters, l.tries = byNode{1, 3, 5}, byClient{2} })},
	{"proposals", fenced(2, 2, func(l *limits) { l.swift, l.proposals = true, [maxClients]int64{0, 3} })},
	{"what comes twice", fenced(2, 2, func(l *limits) { l.swift, l.untimed, l.max = true, true, budget{twice: 2} })},
	{"lies", fenced(3, 1, func(l *limits) { l.swift, l.counters, l.max = true, byNode{1, 3, 5}, budget{lies: 1, ticks: 1} })},
	{"many lies", fenced(2, 1, func(l *limits) { l.swift, l.counters, l.patience, l.max = true, byNode{1, 3}, 20*ms, budget{lies: 4} })},
	{"a set that grows", fenced(3, 2, func(l *limits) { l.swift, l.untimed, l.given = true, true, byClient{2, 3} })},
	{"x and xy", fenced(2, 2, func(l *limits) { l.swift, l.wants = true, byClient{1, 3} })},
	{"x, y and xy", fenced(1, 3, func(l *limits) { l.swift, l.wants = true, byClient{1, 2, 3} })},
	{"three on one", fenced(1, 3, func(l *limits) { l.swift = true })},
	{"repairs", fenced(2, 2, func(l *limits) { l.swift, l.max = true, budget{repairs: 1} })},
	{"give up", fenced(2, 1, func(l *limits) { l.counters, l.max = byNode{1, 3}, budget{giveUps: 1, ticks: 2} })},
	{"give up on three", fenced(3, 1, func(l *limits) {
		l.swift, l.counters, l.max = true, byNode{1, 3, 5}, budget{giveUps: 1, ticks: 1, faults: 1}
	})},
	{"ends while raised", fenced(2, 1, func(l *limits) {
		l.counters, l.anyExpiry, l.ttl, l.patience, l.max = byNode{1, 3}, false, 4*ms, 3*ms, budget{ticks: 5}
	})},
	{"flushed while raised", fenced(3, 1, func(l *limits) {
		l.swift, l.anyExpiry, l.counters, l.max = true, false, byNode{1, 3, 5}, budget{flushes: 2, ticks: 1}
	})},
}

// numbers has locks that have more numbers than their fence.
func numbers(nodes, clients int, change func(l *limits)) limits {
	return fenced(nodes, clients, func(l *limits) {
		l.blocks, l.swift, l.counters = true, true, byNode{1, 1, 1}
		change(l)
	})
}

var blocks = []named{
	{"one node", numbers(1, 2, func(l *limits) {
		l.swift, l.untimed, l.proposals, l.max = false, true, [maxClients]int64{5, 9}, budget{twice: 1, unlocks: 1}
	})},
	{"three on one", numbers(1, 3, func(l *limits) { l.proposals = [maxClients]int64{5, 0, 9} })},
	{"two nodes", numbers(2, 2, func(l *limits) { l.proposals = [maxClients]int64{5, 9} })},
	{"two nodes, what comes twice", numbers(2, 2, func(l *limits) {
		l.untimed, l.proposals, l.max = true, [maxClients]int64{5, 9}, budget{twice: 2}
	})},
	{"a node that is new", numbers(2, 2, func(l *limits) { l.counters, l.proposals = byNode{3, 0}, [maxClients]int64{6, 8} })},
	{"a clock is behind", numbers(2, 2, func(l *limits) {
		l.untimed, l.behind, l.proposals, l.max = true, 1, [maxClients]int64{9, 5}, budget{twice: 1}
	})},
	{"a clock is behind, late answers", numbers(3, 1, func(l *limits) {
		l.swift, l.behind, l.proposals, l.tries = false, 1, [maxClients]int64{9}, byClient{2}
	})},
	{"others between a grant and its raise", numbers(3, 2, func(l *limits) {
		l.untimed, l.ordered, l.refuse, l.behind = true, true, byClient{4, 2}, 1
		l.proposals, l.max = [maxClients]int64{9, 5}, budget{twice: 1}
	})},
	{"lies", numbers(3, 1, func(l *limits) { l.counters, l.max = byNode{1, 3, 5}, budget{lies: 1} })},
	{"three nodes", numbers(3, 2, func(l *limits) { l.untimed, l.behind, l.proposals = true, 1, [maxClients]int64{9, 5} })},
	{"x and xy", numbers(2, 2, func(l *limits) { l.wants, l.proposals = byClient{1, 3}, [maxClients]int64{5, 9} })},
	{"x, y and xy", numbers(1, 3, func(l *limits) { l.wants, l.proposals = byClient{1, 2, 3}, [maxClients]int64{5, 0, 9} })},
	{"repairs", numbers(2, 2, func(l *limits) { l.untimed, l.proposals, l.max = true, [maxClients]int64{5, 9}, budget{repairs: 1} })},
}

const (
	twoHolders = "two clients have the lock at the same time"
	noOrder    = "a lock that was asked for after another was got has no larger fence"
)

// broken are worlds in which what the rules rely on does not hold: the search finds what comes of that.
var broken = []struct {
	named
	finds string
}{
	{named{"a set that grows by two", limits{
		nodes: 3, clients: 2, given: byClient{1, 3}, swift: true, untimed: true,
	}}, twoHolders},
	{named{"lost keys", limits{
		nodes: 3, clients: 2, claims: 2, swift: true, untimed: true, max: budget{flushes: 1},
	}}, twoHolders},
	{named{"a lock in quarantine", limits{
		nodes: 1, clients: 2, forgetful: true, swift: true, max: budget{restarts: 1},
	}}, twoHolders},
	{named{"lost counters", fenced(1, 2, func(l *limits) {
		l.swift, l.untimed, l.forgetful, l.max = true, true, true, budget{restarts: 1}
	})}, noOrder},
	{named{"attempts share a token", fenced(3, 2, func(l *limits) { l.swift, l.untimed, l.oneToken = true, true, true })}, noOrder},
	{named{"half of the nodes are a quorum", fenced(4, 2, func(l *limits) { l.swift, l.untimed, l.half = true, true, true })}, noOrder},
	{named{"half of the nodes are enough", limits{nodes: 2, clients: 2, half: true, swift: true}}, twoHolders},
	{named{"clocks beyond the drift", limits{
		nodes: 1, clients: 2, swift: true, ttl: 3 * ms, patience: ms, early: ms, max: budget{ticks: 4},
	}}, twoHolders},
}

// large searches take minutes together.
var large = []named{
	{"three on three with luck", prompt(3, 3, func(l *limits) { l.lucks = 3 })},
	{"three on three, one fails", prompt(3, 3, func(l *limits) { l.lucks, l.down = 3, 1 })},
	{"three on three, told apart", prompt(3, 3, func(l *limits) { l.ordered = true })},
	{"two on five", prompt(5, 2, nil)},
	{"votes of three, told apart", limits{nodes: 3, clients: 1, swift: true, ordered: true, held: holders{1}, max: budget{ticks: 2, giveUps: 1, faults: 2}}},
	{"votes of three, late answers", limits{nodes: 3, clients: 1, max: budget{ticks: 2, giveUps: 1, faults: 1, breaks: 1}}},
	{"two nodes, late answers", limits{nodes: 2, clients: 2, claims: 3, together: true}},
	{"three nodes in time", limits{nodes: 3, clients: 2, claims: 2, ttl: 3 * ms, patience: ms, swift: true, max: budget{ticks: 3}}},
	{"three nodes, told apart", limits{nodes: 3, clients: 2, claims: 2, ttl: 2 * ms, patience: ms, together: true, swift: true, ordered: true, max: budget{ticks: 2}}},
	{"a machine sleeps", limits{nodes: 1, clients: 2, ttl: 3 * ms, patience: ms, swift: true, max: budget{ticks: 5, sleeps: 1, delays: 1}}},
	{"fences of three in time", fenced(3, 2, func(l *limits) { l.swift, l.together = true, true })},
	{"fences of three, told apart", fenced(3, 2, func(l *limits) { l.swift, l.untimed, l.ordered = true, true, true })},
	{"fences of three that come twice", fenced(3, 2, func(l *limits) { l.swift, l.untimed, l.max = true, true, budget{twice: 1} })},
	{"fences of three with proposals", fenced(3, 2, func(l *limits) { l.swift, l.untimed, l.proposals = true, true, [maxClients]int64{0, 3} })},
	{"fences of four", fenced(4, 2, func(l *limits) { l.swift, l.untimed = true, true })},
	{"fences of three clients", fenced(2, 3, func(l *limits) { l.swift, l.untimed = true, true })},
	{"fences of three clients on three", fenced(3, 3, func(l *limits) { l.swift, l.untimed = true, true })},
	{"numbers of three that come twice", numbers(3, 2, func(l *limits) {
		l.untimed, l.behind, l.proposals, l.max = true, 1, [maxClients]int64{9, 5}, budget{twice: 1}
	})},
	{"x and xy on three", fenced(3, 2, func(l *limits) { l.swift, l.untimed, l.wants = true, true, byClient{1, 3} })},
	{"x, y and xy on two", fenced(2, 3, func(l *limits) { l.swift, l.untimed, l.wants = true, true, byClient{1, 2, 3} })},
}

func TestQuorumOutcomes(t *testing.T)  { searchAll(t, outcomes, false) }
func TestQuorumSplits(t *testing.T)    { searchAll(t, splits, false) }
func TestQuorumVotes(t *testing.T)     { searchAll(t, votes, false) }
func TestQuorumHolds(t *testing.T)     { searchAll(t, holds, false) }
func TestQuorumFences(t *testing.T)    { searchAll(t, fences, false) }
func TestQuorumBlocks(t *testing.T)    { searchAll(t, blocks, false) }
func TestQuorumExclusion(t *testing.T) { searchAll(t, exclusion, false) }

func TestQuorumFindsWhatIsWrong(t *testing.T) {
	for _, l := range broken {
		t.Run(l.name, func(t *testing.T) {
			story, _ := newSearch(l.limits).run()
			require.NotEmpty(t, story)
			require.Equal(t, "Then: "+l.finds+".", story[len(story)-1])
			t.Log("\n" + strings.Join(story, "\n"))
		})
	}
}

// crowded has everything happen, in worlds that are too large to be searched.
var crowded = budget{
	ticks: 12, giveUps: 1, breaks: 3, lates: 1, twice: 1, flushes: 0, stops: 1, sleeps: 1, faults: 2, extends: 2, unlocks: 2, repairs: 1, lags: 2, reads: 2, delays: 2,
}

func TestQuorumAtRandom(t *testing.T) {
	if testcluster.RaceEnabled {
		t.Skip("one goroutine has no races")
	}
	walks, seed := 1000, uint64(1) // The same ones with each change.
	if n, err := strconv.Atoi(os.Getenv("QUORUM_WALKS")); err == nil {
		walks, seed = n, rand.Uint64()
	}
	for i, l := range []limits{
		{nodes: 5, clients: 3, tries: byClient{2, 2, 2}, max: crowded},
		{nodes: 3, clients: 3, tries: byClient{2, 2, 2}, max: crowded},
		{nodes: 4, clients: 2, tries: byClient{3, 3}, max: crowded},
		{nodes: 3, clients: 3, tries: byClient{2, 2, 2}, unit: 20 * ms, ttl: 300 * ms, patience: 40 * ms, drift: 20 * ms, max: crowded},
		{nodes: 5, clients: 3, tries: byClient{2, 2, 2}, fenced: true, max: crowded},
		{nodes: 3, clients: 3, tries: byClient{2, 2, 2}, fenced: true, blocks: true, anyExpiry: true, wants: byClient{1, 3, 2}, counters: byNode{1, 1, 2}, proposals: [maxClients]int64{9, 0, 5}, behind: 2, max: crowded},
		{nodes: 5, clients: 2, tries: byClient{3, 3}, fenced: true, blocks: true, counters: byNode{1, 5, 3, 7, 9}, interleaved: true, max: crowded},
	} {
		began := time.Now()
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		s := newSearch(l)
		for range walks {
			if story := s.wander(r, 200); len(story) > 0 {
				t.Fatalf("seed %d, %d:\n%s", seed, i, strings.Join(story, "\n"))
			}
		}
		t.Logf("%d walks in %v", walks, time.Since(began).Round(time.Millisecond))
	}
}

func TestQuorumLarge(t *testing.T) {
	if testing.Short() || os.Getenv("QUORUM") != "full" {
		t.Skip("for QUORUM=full")
	}
	searchAll(t, large, true)
}
