package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A suite is all tests of one package that have noticed mutants with the same environment.
type suite struct {
	module string
	env    []string
	tests
}

func suites(results []result) (all []*suite) {
	known := map[string]*suite{}
	for _, k := range results {
		if k.killers == nil {
			continue
		}
		key := fmt.Sprint(k.killers.module, k.killers.Package, k.killers.env)
		if known[key] == nil {
			known[key] = &suite{k.killers.module, k.killers.env, tests{Package: k.killers.Package}}
			all = append(all, known[key])
		}
		known[key].Names = slices.Compact(slices.Sorted(slices.Values(append(known[key].Names, k.killers.Names...))))
	}
	return all
}

// unmutated runs the tests that have noticed a mutant on the code as it is, where they must pass: a test that always
// fails notices nothing. It returns those that fail.
func (r *runner) unmutated(ctx context.Context, results []result, w io.Writer) (failed []string) {
	began, tests, all := time.Now(), 0, suites(results)
	for _, s := range all {
		tests += len(s.Names)
	}
	parallel(all, func(s *suite) string {
		got := r.test(ctx, filepath.Join(r.root, s.module), s.tests, s.env, nil)
		if len(got.failed) > 0 {
			return strings.Join(got.failed, ", ") + ": " + got.line
		}
		return got.broken
	}, func(wrong string) {
		if wrong != "" {
			failed = append(failed, wrong)
		}
	})
	say(w, "\nwithout a mutant: %d of these tests of %d packages (%.1f s)\n", tests, len(all), time.Since(began).Seconds())
	return failed
}
