package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// docsFolder is where the document is, seen from this module.
const docsFolder = "../docs/generated"

// smoke runs the parts as briefly as they can be, and writes what they report into a copy
// of the document. It shows that the benchmarks work: the figures mean nothing.
func smoke(s settings, w io.Writer) (err error) {
	text, err := os.ReadFile(filepath.Join(docsFolder, documentName))
	if err != nil {
		return fmt.Errorf("to be run in the folder of the benchmarks: %w", err)
	}
	folder, err := os.MkdirTemp("", "redlock-bench-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err = os.WriteFile(filepath.Join(folder, documentName), text, 0o600); err != nil {
		return err
	}
	s.write = folder
	if err = run(s, w); err != nil || len(s.parts) < len(parts) {
		return err
	}
	return samePlots(folder, docsFolder)
}

// samePlots reports plots that are drawn and not kept, and those that no part draws any more.
func samePlots(drawn, kept string) error {
	var names [2][]string
	for i, folder := range []string{drawn, kept} {
		files, err := os.ReadDir(filepath.Join(folder, plotFolder))
		if err != nil {
			return err
		}
		for _, f := range files {
			names[i] = append(names[i], f.Name())
		}
	}
	if !slices.Equal(names[0], names[1]) {
		return fmt.Errorf("the parts draw %v, and %s has %v", names[0], kept, names[1])
	}
	return nil
}
