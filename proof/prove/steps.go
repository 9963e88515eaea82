package main

import (
	"fmt"
	"path/filepath"
	"time"
)

// shares are what each step has of the whole time, in hundredths.
var shares = map[string]int{"chaos": 24, "simulation": 28, "models": 12, "mutants": 23, "peers": 13}

// share is the time of a step, compiling included.
func share(whole time.Duration, name string) time.Duration {
	return whole * time.Duration(shares[name]) / 100
}

// shared are the times at which steps are ended that begin with the whole: what one leaves of its share, the next ones have.
func shared(whole time.Duration, all []step, began time.Time) []time.Time {
	ends := make([]time.Time, len(all))
	for i, s := range all {
		began = began.Add(share(whole, s.Name))
		ends[i] = began
	}
	return ends
}

// A step is as large as its share allows on two idle cores, with room for a machine that is slower.
func chaosTime(whole time.Duration) time.Duration {
	return max(share(whole, "chaos")*3/4, 10*time.Second).Round(time.Second)
}

// seeds are those of each profile of the simulation, of which one seed takes 5 s in all; the other tests have the rest.
func seeds(whole time.Duration) int { return max(int(share(whole, "simulation")/(9*time.Second)), 1) }

// peersTime is that of each of 40 runs, which take a little longer to begin and to end.
func peersTime(whole time.Duration) time.Duration {
	return max(share(whole, "peers")*3/4/40, time.Second).Round(100 * time.Millisecond)
}

// steps are all of them, the quickest to understand first.
func steps(whole time.Duration, seed uint64, folder string) []step {
	in := func(name string) string { return filepath.Join(folder, name) }
	return []step{
		{
			Name: "chaos", Title: "Real servers, real faults",
			What: "Processes that use the library lock the same resources on real servers, while servers and processes are killed and " +
				"frozen, connections break, bytes come late and clocks jump. An observer that shares nothing with the library logs who was " +
				"inside, and a judge looks for two holders at a time, and for whatever else must not be. " +
				"The file timeline.html shows the run as a picture.",
			Args:  []string{"run", "./chaos", "-time", chaosTime(whole).String(), "-seed", fmt.Sprint(seed), "-out", in("chaos")},
			Files: []string{"chaos/timeline.html", "chaos/verdict.json", "chaos/schedule.txt", "chaos/history.jsonl"},
			File:  in("chaos/verdict.json"), read: readChaos,
		},
		{
			Name: "simulation", Title: "A simulation in fake time",
			What: "The whole client over nodes in memory that fail at random, in fake time: hours of faults in minutes. Each seed is another " +
				"schedule. A profile is what clients do and which faults they meet. Each checks promises of its own: docs/testing.md says which.",
			Dir: "..", Env: []string{fmt.Sprint("SIM_SEEDS=", seeds(whole)), fmt.Sprint("SIM_FIRST=", seed%1e9), "SIM_REPORT=" + in("simulation.txt")},
			Args:  []string{"test", "-count=1", "-timeout=60m", "./test/simulation"},
			Files: []string{"simulation.txt"}, File: in("simulation.txt"), read: readSimulation,
		},
		{
			Name: "models", Title: "The rules, searched exhaustively",
			What: "The library's own rules, of a node and of attempts, over every order in which messages can be sent, lost, delayed, repeated and " +
				"answered, for small settings: can two clients have a lock or a fence, can a key stay behind, can somebody wait for ever?",
			Dir: "..", Args: []string{"test", "-count=1", "-v", "-timeout=60m", "-run", "World|Quorum", "./test/world", "./test/quorum"}, read: readModels,
		},
		{
			Name: "mutants", Title: "Deliberate mistakes that tests must notice",
			What: "The library is broken on purpose, in one place at a time, and the tests must fail: a test that cannot fail shows nothing. " +
				"These are the quick ones; make mutants runs all.",
			Args:  []string{"run", "./mutants", "-subset", "-json", in("mutants.json")},
			Files: []string{"mutants.json"}, File: in("mutants.json"), read: readMutants,
		},
		{
			Name: "peers", Title: "Other libraries on the same course",
			What: "What others do under the same faults, each judged only by what it promises. This is a comparison: " +
				"its figures do not count for the result, but those of redlock must show no overlap and no lost update.", Aside: true,
			Args:  []string{"run", "./peers", "-time", peersTime(whole).String(), "-seed", fmt.Sprint(seed), "-out", in("peers")},
			Files: []string{"peers/peers.md", "peers/peers.json"}, File: in("peers/peers.json"), read: readPeers,
		},
	}
}
