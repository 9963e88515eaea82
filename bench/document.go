package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	// documentName is the document that the sections are written into.
	documentName = "benchmarks.md"

	// plotFolder is where the plots are, beside the document.
	plotFolder = "plots"

	// markEnd ends what markBegin begins. Neither is seen where the document is shown.
	markEnd = "<!-- /bench -->"
)

func markBegin(part string) string { return "<!-- bench:" + part + " -->" }

// A document is a folder with a page of headings, and places in it for the sections. Each
// place is between two marks, and belongs to one part.
type document struct{ folder string }

// check reports parts that are to run and have no place, and a place that is no part's,
// before anything is measured for nothing.
func (d document) check(run []part) error {
	text, err := os.ReadFile(filepath.Join(d.folder, documentName))
	if err != nil {
		return err
	}
	for _, p := range run {
		_, e := replace(string(text), p.name, "")
		err = errors.Join(err, e)
	}
	for _, m := range markRE.FindAllStringSubmatch(string(text), -1) {
		if !slices.Contains(partNames(), m[1]) {
			err = errors.Join(err, fmt.Errorf("%s has a line %q, and there is no such part", documentName, m[0]))
		}
	}
	return err
}

// markRE matches what markBegin returns.
var markRE = regexp.MustCompile(`<!-- bench:(\S+) -->`)

// write puts a section into its place, and its plots into their files. All else stays as
// it is. The text is read anew each time: its author may be at work on it meanwhile.
func (d document) write(s *section, measuredWith string) error {
	if err := os.MkdirAll(filepath.Join(d.folder, plotFolder), 0o755); err != nil {
		return err
	}
	for _, p := range s.plots {
		for file, svg := range p.svg {
			if err := replaceFile(filepath.Join(d.folder, plotFolder, file), svg); err != nil {
				return err
			}
		}
	}
	path := filepath.Join(d.folder, documentName)
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := replace(string(old), s.name, s.markdown(measuredWith))
	if err != nil {
		return err
	}
	return replaceFile(path, []byte(text))
}

// replace returns the text with the place of a part filled anew.
func replace(text, part, content string) (string, error) {
	begin := markBegin(part)
	before, rest, found := strings.Cut(text, begin+"\n")
	switch {
	case !found:
		return "", fmt.Errorf("%s has no line %q", documentName, begin)
	case strings.Contains(rest, begin):
		return "", fmt.Errorf("%s has two lines %q", documentName, begin)
	}
	old, after, found := strings.Cut(rest, markEnd)
	if !found || strings.Contains(old, "<!-- bench:") {
		return "", fmt.Errorf("%s: no line %q ends %q", documentName, markEnd, begin)
	}
	return before + begin + "\n\n" + strings.TrimSpace(content) + "\n\n" + markEnd + after, nil
}

// replaceFile writes a file as a whole or not at all.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
