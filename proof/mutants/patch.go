package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	Subset   bool     // it is among those that CI runs
	Env      []string // for the tests
	Survives string   // why no test notices it
	Found    string   // what found the defect whose fix it reverts
	Defect   string   // what happened because of it, if that touched a promise
	Kind     string   // of the defect
	Promise  string   // that the defect broke
	Timeout  string   // of the tests, if the mutant makes them hang
	Copied   bool     // the tests read the changed files themselves, so they run in a copy

	files []fileDiff
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
	var err error
	m.files, err = parseDiff(diff)
	return m, err
}

func (m *mutant) set(key, value string) error {
	switch key {
	case "Mutant":
		m.What = value
	case "Section":
		m.Section = value
	case "Group":
		m.Group = value
	case "Test":
		words := strings.Fields(value)
		if len(words) < 2 || !strings.HasPrefix(words[0], "./") && words[0] != "." {
			return fmt.Errorf("no package and tests: %q", value)
		}
		m.Tests = append(m.Tests, tests{words[0], words[1:]})
	case "Module":
		m.Module = value
	case "Subset":
		m.Subset = value == "yes"
	case "Timeout":
		m.Timeout = value
	case "Copied":
		m.Copied = value == "yes"
	case "Env":
		m.Env = append(m.Env, value)
	case "Survives":
		m.Survives = value
	case "Found":
		m.Found = value
	case "Defect":
		m.Defect = value
	case "Kind":
		m.Kind = value
	case "Promise":
		m.Promise = value
	default:
		return fmt.Errorf("unknown header %q", key)
	}
	return nil
}

// A fileDiff is what a diff says of one file.
type fileDiff struct {
	path  string // from the root of the repository
	hunks []hunk
}

// A hunk replaces the lines old, which begin at about line at, by the lines of now.
type hunk struct {
	at       int
	old, now []string
}

var hunkHeader = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@`)

// parseDiff reads a unified diff. The counts of its hunks do not matter: a hunk ends where the next one begins.
func parseDiff(diff string) (files []fileDiff, err error) {
	inHunk := false
	for _, line := range strings.Split(strings.TrimSuffix(diff, "\n"), "\n") {
		if path, ok := strings.CutPrefix(line, "+++ b/"); ok {
			files, inHunk = append(files, fileDiff{path: path}), false
			continue
		}
		if match := hunkHeader.FindStringSubmatch(line); match != nil && len(files) > 0 {
			at, _ := strconv.Atoi(match[1])
			f := &files[len(files)-1]
			f.hunks, inHunk = append(f.hunks, hunk{at: at}), true
			continue
		}
		if strings.HasPrefix(line, "--- a/") || strings.HasPrefix(line, "diff --git") || strings.HasPrefix(line, "index ") {
			inHunk = false
			continue
		}
		if !inHunk {
			return nil, fmt.Errorf("outside of a hunk: %q", line)
		}
		h := &files[len(files)-1].hunks[len(files[len(files)-1].hunks)-1]
		switch {
		case line == "":
			h.old, h.now = append(h.old, ""), append(h.now, "")
		case line[0] == ' ':
			h.old, h.now = append(h.old, line[1:]), append(h.now, line[1:])
		case line[0] == '-':
			h.old = append(h.old, line[1:])
		case line[0] == '+':
			h.now = append(h.now, line[1:])
		case line[0] != '\\': // No newline at the end of the file.
			return nil, fmt.Errorf("no line of a diff: %q", line)
		}
	}
	for _, f := range files {
		if len(f.hunks) == 0 {
			return nil, fmt.Errorf("%s has no hunk", f.path)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no diff")
	}
	return files, nil
}

// apply returns the text with the changes made.
func (f *fileDiff) apply(text string) (string, error) {
	lines, moved, from := strings.Split(text, "\n"), 0, 0
	for _, h := range f.hunks {
		if len(h.old) == 0 {
			return "", fmt.Errorf("%s: a hunk at line %d without any line that was there", f.path, h.at)
		}
		at, err := find(lines, h.old, h.at-1+moved, from)
		if err != nil {
			return "", fmt.Errorf("%s: the hunk at line %d %w", f.path, h.at, err)
		}
		lines = slices.Replace(lines, at, at+len(h.old), h.now...)
		moved, from = at-(h.at-1)+len(h.now)-len(h.old), at+len(h.now)
	}
	return strings.Join(lines, "\n"), nil
}

// find returns where old is in lines, from the given one on: at the line that the diff says, or else where it is
// the only one.
func find(lines, old []string, guess, from int) (int, error) {
	is := func(at int) bool {
		return at >= from && at+len(old) <= len(lines) && slices.Equal(lines[at:at+len(old)], old)
	}
	if is(guess) {
		return guess, nil
	}
	found := -1
	for at := from; at+len(old) <= len(lines); at++ {
		if !is(at) {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("fits at lines %d and %d", found+1, at+1)
		}
		found = at
	}
	if found < 0 {
		return 0, fmt.Errorf("fits nowhere: %q", old[0])
	}
	return found, nil
}

// changed returns the texts of the files that the mutant changes, by their paths from the root.
func (m *mutant) changed(root string) (map[string]string, error) {
	texts := map[string]string{}
	for _, f := range m.files {
		text, seen := texts[f.path]
		if !seen {
			b, err := os.ReadFile(filepath.Join(root, f.path))
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		text, err := f.apply(text)
		if err != nil {
			return nil, err
		}
		texts[f.path] = text
	}
	return texts, nil
}
