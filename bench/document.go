package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed6c881748/redlock/test/tables"
)

const (
	// documentName is the document that the sections are written into.
	documentName = "benchmarks.md"

	// plotFolder is where the plots are, beside the document.
	plotFolder = "plots"
)

// placeOf is where the document has what a part writes.
func placeOf(part string) tables.Place { return tables.Place{Kind: "bench", Name: part} }

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
		_, e := placeOf(p.name).Fill(string(text), "")
		err = errors.Join(err, e)
	}
	for _, p := range tables.Places(string(text), "bench") {
		if !slices.Contains(partNames(), p.Name) {
			err = errors.Join(err, fmt.Errorf("a place for %q, and there is no such part", p.Name))
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", documentName, err)
	}
	return nil
}

// write puts a section into its place, and its plots into their files. All else stays as
// it is. The text is read anew each time: its author may be at work on it meanwhile.
func (d document) write(s *section, measuredWith string) error {
	if err := os.MkdirAll(filepath.Join(d.folder, plotFolder), 0o755); err != nil {
		return err
	}
	for file, svg := range s.files {
		if err := tables.Replace(filepath.Join(d.folder, plotFolder, file), svg); err != nil {
			return err
		}
	}
	path := filepath.Join(d.folder, documentName)
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := placeOf(s.name).Fill(string(old), s.markdown(measuredWith))
	if err != nil {
		return fmt.Errorf("%s: %w", documentName, err)
	}
	return tables.Replace(path, []byte(text))
}
