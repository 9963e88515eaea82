package main

import (
	"context"
	"fmt"
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

// suites returns the tests that the mutants need, each once.
func suites(chosen []*mutant) []*suite {
	byKey := map[string]*suite{}
	var all []*suite
	for _, m := range chosen {
		for _, t := range m.Tests {
			key := strings.Join(append([]string{m.Module, t.Package}, m.Env...), " ")
			s := byKey[key]
			if s == nil {
				s = &suite{module: m.Module, env: m.Env, tests: tests{Package: t.Package}}
				byKey[key], all = s, append(all, s)
			}
			for _, name := range t.Names {
				if !slices.Contains(s.Names, name) {
					s.Names = append(s.Names, name)
				}
			}
		}
	}
	return all
}

// unmutated runs the tests that the mutants need on the code as it is, where they must pass: a test that always fails
// notices nothing.
func (r *runner) unmutated(ctx context.Context, chosen []*mutant, jobs int, w io.Writer) (failed error) {
	began, tests, all := time.Now(), 0, suites(chosen)
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
			failed = fmt.Errorf("without a mutant: %s %s: %s", d.suite.module, d.suite.Package, d.got.broken)
		case len(d.got.failed) > 0:
			failed = fmt.Errorf("without a mutant: %s fails: %s", strings.Join(d.got.failed, ", "), d.got.line)
		}
	})
	say(w, "unmutated (%.1f s): %d tests of %d packages\n", time.Since(began).Seconds(), tests, len(all))
	return failed
}

// shown is how docs/testing.md names the tests: those of redlock/ and of the simulation by their names alone.
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
