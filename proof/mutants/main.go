// Command mutants shows that the tests notice when the code is wrong: it breaks the code as each of the patches in
// patches/ says, one at a time, and runs the tests that must fail then.
//
//	go run ./mutants                          # in proof/: all mutants
//	go run ./mutants -subset                  # those that CI runs
//	go run ./mutants -run 'fences/|quorum'    # those whose names match
//	go run ./mutants -list                    # their names, and what they break
//	go run ./mutants -write ../docs/generated
//
// A mutant that no test notices, that does not apply or does not compile makes it fail; so does a test that fails
// on the code as it is. README.md describes the patches.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	var (
		only   = flags.String("run", "", "only mutants whose name matches this regular expression")
		subset = flags.Bool("subset", false, "only those that CI runs")
		list   = flags.Bool("list", false, "list them, and run nothing")
		report = flags.String("json", "", "write the kill list to this file as JSON")
		write  = flags.String("write", "", "write the tables in this folder from the patches, and run nothing")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return err
	}
	root := filepath.Dir(filepath.Dir(strings.TrimSpace(string(mod)))) // It is run in proof/.
	all, err := readAll(filepath.Join(root, "proof", "mutants", "patches"))
	if err != nil {
		return err
	}
	if *write != "" {
		return writeTables(*write, all)
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	var chosen []*mutant
	for _, m := range all {
		if pattern.MatchString(m.Name) && (m.Subset == "yes" || !*subset) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant has a name that matches %q", *only)
	}
	if *list {
		for _, m := range chosen {
			say(w, "%-50s %s\n", m.Name, m.What)
		}
		return nil
	}
	scratch, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	return judge(ctx, &runner{root, scratch, 2 * time.Minute}, chosen, len(all), w, *report)
}

// judge tries the mutants, which are chosen of so many, prints the kill list as it grows, and returns an error if one is not killed or explained.
func judge(ctx context.Context, r *runner, chosen []*mutant, all int, w io.Writer, report string) error {
	began := time.Now()
	results := make([]result, 0, len(chosen))
	count := map[outcome]int{}
	var bad []string
	parallel(chosen, func(m *mutant) result { return r.try(ctx, m) }, func(res result) {
		if ctx.Err() != nil {
			return
		}
		results = append(results, res)
		count[res.Outcome]++
		if res.Outcome == survived || res.Outcome == broken {
			bad = append(bad, res.Name)
		}
		say(w, "%s", res.text())
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, always := range r.unmutated(ctx, results, w) {
		bad = append(bad, "without a mutant "+always)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	took := time.Since(began).Round(time.Second)
	say(w, "%d mutants: %d killed, %d explained, %d survived, %d broken; %v\n",
		len(chosen), count[killed], count[explained], count[survived], count[broken], took)
	if report != "" {
		text, err := json.MarshalIndent(struct {
			Seconds float64  `json:"seconds"`
			All     int      `json:"all"` // How many patches there are.
			Mutants []result `json:"mutants"`
		}{took.Seconds(), all, results}, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(report, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("not noticed, or failing without a mutant: %s", strings.Join(bad, "; "))
	}
	return nil
}

func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// text is the result's line of the kill list.
func (res *result) text() string {
	by := strings.Join(res.Failed, ", ")
	switch res.Outcome {
	case killed:
		by += ": " + res.Failure
	case survived:
		by = "by " + strings.Join(res.Tests, ", ")
	case explained, broken:
		by = res.Failure
	}
	return fmt.Sprintf("%-9s %s (%.1f s): %s\n          %s\n", res.Outcome, res.Name, res.Seconds, res.What, by)
}

// jobs are how many runs of tests there are at a time.
const jobs = 2

// parallel calls work for each item, so many at a time, and done with each result, one at a time.
func parallel[T, R any](items []T, work func(T) R, done func(R)) {
	free, results := make(chan struct{}, jobs), make(chan R)
	go func() {
		for _, item := range items {
			free <- struct{}{}
			go func() {
				results <- work(item)
				<-free
			}()
		}
	}()
	for range items {
		done(<-results)
	}
}
