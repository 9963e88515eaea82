package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// sizes says how much of each is run.
type sizes struct {
	seeds        int
	chaos, peers time.Duration
}

// steps are all of them, the quickest to understand first.
func steps(size sizes, seed uint64, folder string) []step {
	in := func(name string) string { return filepath.Join(folder, name) }
	return []step{
		{
			Name: "chaos", Title: "Real servers, real faults",
			What: "Processes that use the library lock the same resources on real servers, while servers and processes are killed and " +
				"frozen, connections break, bytes come late and clocks jump. An observer that shares nothing with the library logs who was " +
				"inside, and a judge looks for two holders at a time, and for eight other things that must not be.",
			Args: []string{"run", "./chaos", "-time", size.chaos.String(), "-seed", fmt.Sprint(seed), "-out", in("chaos")},
			Page: "chaos/timeline.html", read: func(string) (string, error) { return readChaos(in("chaos/verdict.json")) },
		},
		{
			Name: "simulation", Title: "A simulation in fake time",
			What: "The whole client over nodes in memory that fail at random, in fake time: months of bad nights in minutes. Each seed is another " +
				"schedule, and all ten promises are checked in each.",
			Dir: "..", Env: []string{fmt.Sprint("SIM_SEEDS=", size.seeds), fmt.Sprint("SIM_FIRST=", seed%1e9), "SIM_REPORT=" + in("simulation.txt")},
			Args: []string{"test", "-count=1", "-timeout=60m", "./test/simulation"},
			read: func(string) (string, error) { return readSimulation(in("simulation.txt")) },
		},
		{
			Name: "models", Title: "Two models, searched exhaustively",
			What: "Every order in which messages can be sent, lost, delayed, repeated and answered, for small settings: can two clients get one " +
				"fence, can a key stay behind? The decisions in the models are the library's own functions.",
			Dir: "..", Args: []string{"test", "-count=1", "-v", "-timeout=60m", "-run", "Model", "./redlock"}, read: readModels,
		},
		{
			Name: "mutants", Title: "Deliberate mistakes that tests must notice",
			What: "The library is broken on purpose, in one place at a time, and the tests must fail: a test that cannot fail shows nothing. " +
				"This is the part of them that is quick; make mutants runs all.",
			Args: []string{"run", "./mutants", "-subset", "-json", in("mutants.json")},
			read: func(string) (string, error) { return readMutants(in("mutants.json")) },
		},
		{
			Name: "peers", Title: "Other libraries on the same course",
			What: "What others do under the same faults, each judged only by what it promises. Their figures do not count for the result.",
			Args: []string{"run", "./peers", "-time", size.peers.String(), "-seed", fmt.Sprint(seed), "-out", in("peers")},
			Page: "peers/peers.html", read: func(string) (string, error) { return readPeers(in("peers/peers.json")) },
		},
	}
}

var pace = regexp.MustCompile(`(\d+) seeds in .*: +([\d.]+) virtual hours`)

// readSimulation sums up the lines that the profiles leave.
func readSimulation(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var profiles, seeds int
	var hours float64
	for _, m := range pace.FindAllStringSubmatch(string(text), -1) {
		n, _ := strconv.Atoi(m[1])
		h, _ := strconv.ParseFloat(m[2], 64)
		profiles, seeds, hours = profiles+1, seeds+n, hours+h
	}
	if seeds == 0 {
		return "", fmt.Errorf("%s tells of no seed", file)
	}
	return fmt.Sprintf("%d seeds in %d profiles, %.0f hours of fake time: no promise was broken.", seeds, profiles, hours), nil
}

var states = regexp.MustCompile(`(\d+) states in`)

// readModels sums up what the searches say.
func readModels(output string) (string, error) {
	var sum, searches int
	for _, m := range states.FindAllStringSubmatch(output, -1) {
		n, _ := strconv.Atoi(m[1])
		sum, searches = sum+n, searches+1
	}
	if sum == 0 {
		return "", errors.New("the output tells of no search")
	}
	broken := strings.Count(output, "--- PASS: TestFenceModelFindsWhatIsWrong/") + strings.Count(output, "--- PASS: TestUnknownModelFindsWhatIsWrong/")
	return fmt.Sprintf("%d searches, %.1f million states: nothing wrong. In each of %d models that were broken on purpose, it was found.",
		searches, float64(sum)/1e6, broken), nil
}

// readMutants counts the kill list.
func readMutants(file string) (string, error) {
	var list struct{ Mutants []struct{ Outcome string } }
	if err := readJSON(file, &list); err != nil {
		return "", err
	}
	count := map[string]int{}
	for _, m := range list.Mutants {
		count[m.Outcome]++
	}
	if len(list.Mutants) == 0 {
		return "", fmt.Errorf("%s is empty", file)
	}
	says := fmt.Sprintf("%d mistakes: %d were noticed", len(list.Mutants), count["killed"])
	if n := count["explained"]; n > 0 {
		says += fmt.Sprintf(", %d change nothing that counts", n)
	}
	if wrong := len(list.Mutants) - count["killed"] - count["explained"]; wrong > 0 {
		return "", fmt.Errorf("%s, %d were not", says, wrong)
	}
	return says + ".", nil
}

func readJSON(file string, to any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err = json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// readChaos sums up what the judge says.
func readChaos(file string) (string, error) { return "", errors.New("to be read: " + file) }

// readPeers sums up the table.
func readPeers(file string) (string, error) { return "", errors.New("to be read: " + file) }
