package main

import (
	"context"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A suite is all tests of one package that mutants need, with the same environment.
type suite struct {
	module string
	env    []string
	tests
}

// suites returns the tests that have noticed a mutant, each once.
func suites(results []result) (all []*suite) {
	for _, res := range results {
		k := res.killers
		if k == nil {
			continue
		}
		n := slices.IndexFunc(all, func(s *suite) bool {
			return s.module == k.module && s.Package == k.Package && slices.Equal(s.env, k.env)
		})
		if n < 0 {
			n, all = len(all), append(all, &suite{module: k.module, env: k.env, tests: tests{Package: k.Package}})
		}
		all[n].Names = slices.Compact(slices.Sorted(slices.Values(append(all[n].Names, k.Names...))))
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

// shown is how docs/generated/mutants.md names the tests: those of redlock/ and of the simulation by their names alone.
func (t tests) shown(module string) []string {
	folder := path.Base(path.Join(strings.TrimPrefix(module, "."), t.Package))
	names := slices.Clone(t.Names)
	if full := path.Join(module, t.Package); full != "redlock" && full != "test/simulation" {
		for i := range names {
			names[i] = folder + "." + names[i]
		}
	}
	return names
}
