package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
	if err = run(s, w); err != nil {
		return err
	}
	for _, p := range s.parts {
		for _, name := range p.plots {
			err = errors.Join(err, checkPlot(folder, lightFile(name)), checkPlot(folder, darkFile(name)))
		}
	}
	return errors.Join(err, checkLeftovers(docsFolder))
}

// checkPlot reports a plot that was not written, or that the document does not show.
func checkPlot(folder, name string) error {
	file := plotFolder + "/" + name
	text, err := os.ReadFile(filepath.Join(folder, documentName))
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), `"`+file+`"`) {
		return fmt.Errorf("%s does not show %s", documentName, file)
	}
	_, err = os.Stat(filepath.Join(folder, file))
	return err
}

// checkLeftovers reports plots that no part draws.
func checkLeftovers(folder string) (err error) {
	drawn := map[string]bool{}
	for _, p := range parts {
		for _, name := range p.plots {
			drawn[lightFile(name)], drawn[darkFile(name)] = true, true
		}
	}
	files, err := os.ReadDir(filepath.Join(folder, plotFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = nil
	for _, f := range files {
		if !drawn[f.Name()] {
			err = errors.Join(err, fmt.Errorf("%s/%s: no part draws it", plotFolder, f.Name()))
		}
	}
	return err
}
