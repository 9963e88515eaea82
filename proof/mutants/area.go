package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A mutant is one deliberate fault in the code.
type mutant struct {
	Name, What string // area/slug; what is wrong with the code
	Tests      []tests
	Env        []string
	about      map[string]string // by key, what else it says: module, subset, timeout, ...
	edits      []edit
}

// tests are some tests of one package, as go test takes it.
type tests struct {
	Package string
	Names   []string
}

// readAll reads all areas in folder, in the order of their names.
func readAll(folder string) (all []*mutant, _ error) {
	entries, readErr := os.ReadDir(folder)
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		name, ok := strings.CutSuffix(entry.Name(), ".mutants")
		if !ok {
			return nil, fmt.Errorf("%s: an area is name.mutants", path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		mutants, err := parse(name, string(text))
		if err != nil {
			return nil, fmt.Errorf("%s:%w", path, err)
		}
		all = append(all, mutants...)
	}
	return all, readErr
}

// parse reads an area: a line "# what it is for", then its mutants.
func parse(area, text string) (all []*mutant, err error) {
	var m *mutant
	path, names := "", map[string]bool{} // path is that of the file whose text follows.
	for n, line := range strings.Split(text, "\n") {
		head, isHead := strings.CutPrefix(line, "## ")
		switch {
		case n == 0 && !strings.HasPrefix(line, "# "):
			err = fmt.Errorf("the first line is '# what the area is for'")
		case n == 0, line == "":
			path = "" // An empty line of a file's text begins with its - or +.
		case isHead:
			slug, what, ok := strings.Cut(head, ": ")
			if !ok || names[slug] || strings.ContainsAny(slug, " /") {
				err = fmt.Errorf("a mutant is '## slug: what is wrong', with a slug of its own")
			}
			names[slug], path = true, ""
			m = &mutant{Name: area + "/" + slug, What: what, about: map[string]string{}}
			all = append(all, m)
		case m == nil:
			err = fmt.Errorf("this is in no mutant: %q", line)
		case path != "" && strings.ContainsAny(line[:1], "-+"):
			m.addLine(path, line)
		default:
			path, err = m.set(line)
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n+1, err)
		}
	}
	for _, m := range all {
		if err := m.complete(); err != nil {
			return nil, fmt.Errorf(" %s: %w", m.Name, err)
		}
	}
	return all, nil
}

// keys are those of README.md's table, and what their values look like.
var keys = map[string]string{
	"test": `\.(/\S+)?( (Test|Fuzz|Example)\w*)+`, "module": `\S+`, "env": `\w+=.*`, "timeout": `(\d+[hms])+`, "in": `\S+`,
	"subset": "yes", "copied": "yes",
	"survives": `\S.*`, "found": `\S.*`, "defect": `\S.*`, "kind": `\S.*`, "promise": `\S.*`,
}

// set takes a line "key value". The key "in" begins an edit of a file, whose path it returns.
func (m *mutant) set(line string) (path string, err error) {
	key, value, _ := strings.Cut(line, " ")
	switch form, known := keys[key]; {
	case !known:
		err = fmt.Errorf("unknown key %q", key)
	case !regexp.MustCompile("^(" + form + ")$").MatchString(value):
		err = fmt.Errorf("the value of %s looks like %s: %q", key, form, value)
	case key == "in":
		path = value
		m.edits = append(m.edits, edit{path: path})
	case key == "env":
		m.Env = append(m.Env, value)
	case key == "test":
		words := strings.Fields(value)
		m.Tests = append(m.Tests, tests{words[0], words[1:]})
	case m.about[key] != "":
		err = fmt.Errorf("a second %s", key)
	default:
		m.about[key] = value
	}
	return path, err
}

func (m *mutant) complete() error {
	switch {
	case (len(m.Tests) == 0) == (m.about["survives"] == ""):
		return fmt.Errorf("a mutant has either test or survives")
	case len(m.edits) == 0:
		return fmt.Errorf("it changes nothing")
	}
	for _, e := range m.edits {
		if len(e.old) == 0 {
			return fmt.Errorf("in %s, no old text says where", e.path)
		}
	}
	return nil
}
