package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	return run(s, w)
}
