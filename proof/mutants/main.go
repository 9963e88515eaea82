// Command mutants shows that the tests notice when the code is wrong: it breaks the code as each of the mutants in
// areas/ says, one at a time, and runs the tests that must fail then.
//
//	go run ./mutants                          # in proof/: all mutants
//	go run ./mutants -subset                  # those that CI runs
//	go run ./mutants -run 'fences/|quorum'    # those whose names match
//	go run ./mutants -list                    # their names, and what they break
//	go run ./mutants -defects >../docs/generated/defects.md
//
// A mutant that no test notices or that does not compile makes it fail; so does a test that fails on the code as it is.
// One whose old text is not found once is an error before anything is run. README.md describes the areas.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
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
		only    = flags.String("run", "", "only mutants whose name matches this regular expression")
		subset  = flags.Bool("subset", false, "only those that CI runs")
		list    = flags.Bool("list", false, "list them, and run nothing")
		defects = flags.Bool("defects", false, "print docs/generated/defects.md, and run nothing")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return err
	}
	r := &runner{root: filepath.Dir(filepath.Dir(strings.TrimSpace(string(mod)))), timeout: 10 * time.Minute} // It is run in proof/.
	all, err := readAll(filepath.Join(r.root, "proof", "mutants", "areas"))
	if err != nil {
		return err
	}
	if *defects {
		page, wrong := defectsPage(all)
		say(w, "%s", page)
		return wrong
	}
	chosen, err := r.choose(all, *only, *subset)
	if err != nil {
		return err
	}
	if *list {
		for _, m := range chosen {
			say(w, "%-50s %s\n", m.Name, m.What)
		}
		return nil
	}
	if r.scratch, err = os.MkdirTemp("", "mutants"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.scratch) }()
	return r.judge(ctx, chosen, w)
}

// choose returns the mutants that are asked for. The old texts of all of them must be there.
func (r *runner) choose(all []*mutant, only string, subset bool) (chosen []*mutant, err error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		_, wrong := m.changed(r.root)
		err = errors.Join(err, wrong)
		if pattern.MatchString(m.Name) && (m.about["subset"] == "yes" || !subset) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		err = errors.Join(err, fmt.Errorf("no mutant has a name that matches %q", only))
	}
	return chosen, err
}

// judge tries the mutants, prints the kill list as it grows, and returns an error if one is neither
// killed nor explained.
func (r *runner) judge(ctx context.Context, chosen []*mutant, w io.Writer) error {
	began := time.Now()
	count := map[outcome]int{}
	var bad []string
	parallel(chosen, func(m *mutant) result { return r.try(ctx, m) }, func(res result) {
		count[res.Outcome]++
		if res.Outcome == survived || res.Outcome == broken {
			bad = append(bad, res.Name)
		}
		if ctx.Err() == nil {
			say(w, "%s", res.text())
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	took := time.Since(began).Round(time.Second)
	say(w, "%d mutants: %d killed, %d explained, %d survived, %d broken; %v\n",
		len(chosen), count[killed], count[explained], count[survived], count[broken], took)
	if len(bad) > 0 {
		return fmt.Errorf("not noticed: %s", strings.Join(bad, "; "))
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

// parallel calls work for two items at a time, if there are two cores, and done with each result, one at a time.
func parallel[T, R any](items []T, work func(T) R, done func(R)) {
	var mu sync.Mutex
	var both errgroup.Group
	both.SetLimit(min(2, runtime.GOMAXPROCS(0)))
	for _, item := range items {
		both.Go(func() error {
			result := work(item)
			mu.Lock()
			defer mu.Unlock()
			done(result)
			return nil
		})
	}
	_ = both.Wait()
}
