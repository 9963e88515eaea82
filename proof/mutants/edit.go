package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// An edit is old text that becomes new text, in whole lines.
type edit struct {
	path     string // from the root of the repository
	old, new []string
	at       int // the line at which the old text was found
}

// addLine takes a line that begins with - or +. A - behind a + begins the next edit.
func (m *mutant) addLine(path, line string) {
	e := &m.edits[len(m.edits)-1]
	switch {
	case line[0] == '+':
		e.new = append(e.new, line[1:])
	case len(e.new) > 0:
		m.edits = append(m.edits, edit{path: path, old: []string{line[1:]}})
	default:
		e.old = append(e.old, line[1:])
	}
}

// files are those that the mutant changes.
func (m *mutant) files() (paths []string) {
	for _, e := range m.edits {
		paths = append(paths, e.path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// changed returns the text of each file of the tree at root that the mutant changes, as it is afterwards.
func (m *mutant) changed(root string) (map[string]string, error) {
	texts := map[string]string{}
	for _, path := range m.files() {
		is, err := os.ReadFile(filepath.Join(root, path))
		if err == nil {
			texts[path], err = m.edit(path, strings.Split(string(is), "\n"))
		}
		if err == nil && texts[path] == string(is) {
			err = errors.New("the new text is the old one")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", m.Name, path, err)
		}
	}
	return texts, nil
}

// edit makes the edits of one file. Each old text is looked for in the file as it was, so their order does not matter.
func (m *mutant) edit(path string, lines []string) (string, error) {
	var found []edit
	for _, e := range m.edits {
		if e.path != path {
			continue
		}
		at, err := find(lines, e.old, indentationIsFree(path))
		if err != nil {
			return "", err
		}
		found = append(found, e.shifted(at, lines))
	}
	slices.SortFunc(found, func(a, b edit) int { return a.at - b.at })
	var b []string
	next := 0
	for _, e := range found {
		if e.at < next {
			return "", fmt.Errorf("two old texts share a line: %q", lines[e.at])
		}
		b = append(append(b, lines[next:e.at]...), e.new...)
		next = e.at + len(e.old)
	}
	return strings.Join(append(b, lines[next:]...), "\n"), nil
}

func indentationIsFree(path string) bool {
	return strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".lua")
}

// find returns the only line at which old begins. If indentation is free, that of each line may differ.
func find(lines, old []string, free bool) (int, error) {
	found := -1
	for at := 0; at+len(old) <= len(lines); at++ {
		if !slices.EqualFunc(old, lines[at:at+len(old)], func(a, b string) bool {
			return a == b || free && strings.TrimLeft(a, " \t") == strings.TrimLeft(b, " \t")
		}) {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("the old text is there more than once: %q", strings.Join(old, "\n"))
		}
		found = at
	}
	if found < 0 {
		return 0, fmt.Errorf("the old text is not there: %q", strings.Join(old, "\n"))
	}
	return found, nil
}

// shifted gives the new text the indentation of what was found at a line: what the first line of it that is not empty has
// more or less than the mutant says, each new line has, too.
func (e edit) shifted(at int, lines []string) edit {
	first := max(0, slices.IndexFunc(e.old, func(line string) bool { return strings.TrimSpace(line) != "" }))
	said, is := indentation(e.old[first]), indentation(lines[at+first])
	e.at, e.new = at, slices.Clone(e.new)
	for i, line := range e.new {
		own := indentation(line)
		if rest, ok := strings.CutPrefix(line, said); ok && rest != "" {
			e.new[i] = is + rest
		} else if strings.HasPrefix(said, own) && own != line { // It is further out than the first line.
			e.new[i] = is[:max(0, len(is)-len(said)+len(own))] + line[len(own):]
		}
	}
	return e
}

func indentation(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

// write writes changed files below dir.
func write(dir string, texts map[string]string) error {
	for path, text := range texts {
		file := filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o700)); err != nil { // Scripts are among them.
			return err
		}
	}
	return nil
}

// copyTree copies the files that git knows, and those that it would not ignore.
func copyTree(from, to string) error {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = from
	list, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for path := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(from, path))
		if errors.Is(err, fs.ErrNotExist) {
			continue // Deleted, and not committed yet.
		}
		if err = errors.Join(err, write(to, map[string]string{path: string(text)})); err != nil {
			return err
		}
	}
	return nil
}
