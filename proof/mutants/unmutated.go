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
func suites(results []result) []*suite {
	byKey := map[string]*suite{}
	var all []*suite
	for _, res := range results {
		k := res.killers
		if len(k.Names) == 0 {
			continue
		}
		key := strings.Join(append([]string{k.module, k.Package}, k.env...), " ")
		s := byKey[key]
		if s == nil {
			s = &suite{module: k.module, env: k.env, tests: tests{Package: k.Package}}
			byKey[key], all = s, append(all, s)
		}
		for _, name := range k.Names {
			if !slices.Contains(s.Names, name) {
				s.Names = append(s.Names, name)
			}
		}
	}
	return all
}

// unmutated runs the tests that have noticed a mutant on the code as it is, where they must pass: a test that always
// fails notices nothing. It returns those that fail.
func (r *runner) unmutated(ctx context.Context, results []result, jobs int, w io.Writer) (failed []string) {
	began, tests, all := time.Now(), 0, suites(results)
	type done struct {
		suite *suite
		got   verdict
	}
	parallel(all, jobs, func(s *suite) done {
		return done{s, r.test(ctx, filepath.Join(r.root, s.module), s.tests, s.env, nil)}
	}, func(d done) {
		tests += len(d.suite.Names)
		switch {
		case d.got.broken != "":
			failed = append(failed, d.suite.Package+": "+d.got.broken)
		case len(d.got.failed) > 0:
			failed = append(failed, strings.Join(d.got.failed, ", ")+": "+d.got.line)
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
