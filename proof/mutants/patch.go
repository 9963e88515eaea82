package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A mutant is one deliberate fault in the code: a file in patches/.
type mutant struct {
	Name     string   // area/slug, the file's
	What     string   // what is wrong with the code, as docs/generated/mutants.md says it
	Section  string   // of docs/generated/mutants.md
	Group    string   // of the section's table, or ""
	Tests    []tests  // that must notice it: one of them is enough
	Module   string   // where the tests are, "." for the root
	Subset   string   // "yes": it is among those that CI runs
	Env      []string // for the tests
	Survives string   // why no test notices it
	Found    string   // what found the defect whose fix it reverts
	Defect   string   // what happened because of it, if that touched a promise
	Kind     string   // of the defect
	Promise  string   // that the defect broke
	Timeout  string   // of the tests, if the mutant makes them hang
	Copied   string   // "yes": the tests read the changed files themselves, so they run in a copy

	files []string // that it changes, from the root of the repository
	diff  string
}

// tests are some tests of one package, as go test takes it.
type tests struct {
	Package string
	Names   []string
}

// readAll reads all patches below folder, in the order of their names.
func readAll(folder string) ([]*mutant, error) {
	var all []*mutant
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if ok, _ := filepath.Match(filepath.Join(folder, "*", "*.patch"), path); !ok {
			return fmt.Errorf("%s: a patch is area/slug.patch", path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		m, err := parse(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		m.Name = filepath.Base(filepath.Dir(path)) + "/" + strings.TrimSuffix(filepath.Base(path), ".patch")
		all = append(all, m)
		return nil
	})
	return all, err
}

// parse reads a patch: lines of "Key: value", an empty line, and a unified diff.
func parse(text string) (*mutant, error) {
	header, diff, ok := strings.Cut(text, "\n\n")
	if !ok {
		return nil, fmt.Errorf("no empty line between the header and the diff")
	}
	m := &mutant{Module: "."}
	for line := range strings.Lines(header) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			return nil, fmt.Errorf("no header: %q", line)
		}
		if err := m.set(key, value); err != nil {
			return nil, err
		}
	}
	if m.What == "" || m.Section == "" || (len(m.Tests) == 0) == (m.Survives == "") {
		return nil, fmt.Errorf("a mutant has Mutant, Section, and either Test or Survives")
	}
	m.diff = changedFile.ReplaceAllString(diff, "diff --git a/$1 b/$1\n$0") // Or git takes them for lines of the hunk before.
	for _, match := range changedFile.FindAllStringSubmatch(diff, -1) {
		m.files = append(m.files, match[1])
	}
	if !strings.Contains(diff, "\n@@ ") {
		return nil, fmt.Errorf("no diff")
	}
	return m, nil
}

func (m *mutant) set(key, value string) error {
	texts := map[string]*string{
		"Mutant": &m.What, "Section": &m.Section, "Group": &m.Group, "Module": &m.Module, "Timeout": &m.Timeout,
		"Survives": &m.Survives, "Found": &m.Found, "Defect": &m.Defect, "Kind": &m.Kind, "Promise": &m.Promise, "Subset": &m.Subset, "Copied": &m.Copied,
	}
	switch {
	case texts[key] != nil:
		*texts[key] = value
	case key == "Test":
		words := strings.Fields(value)
		if len(words) < 2 || !strings.HasPrefix(words[0], "./") && words[0] != "." {
			return fmt.Errorf("no package and tests: %q", value)
		}
		m.Tests = append(m.Tests, tests{words[0], words[1:]})
	case key == "Env":
		m.Env = append(m.Env, value)
	default:
		return fmt.Errorf("unknown header %q", key)
	}
	return nil
}

var changedFile = regexp.MustCompile(`(?m)^--- a/(.*)\n\+\+\+ b/.*$`)

// apply makes the change in a copy of what it is about. The counts of a diff's hunks do not matter, and its lines may have
// moved.
func (m *mutant) apply(dir string) error {
	cmd := exec.Command("git", "apply", "--recount", "--unidiff-zero")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(m.diff)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // It is no repository, wherever it is.
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the patch does not apply: %s", out)
	}
	return nil
}
