package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"strings"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/proof/timeline"
)

// read reads the history in a file, which may be packed.
func read(name string) ([]history.Event, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var in io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(file); err != nil {
			return nil, err
		}
	}
	return history.Parse(in)
}

// pageOf judges the history in a file, and returns its page.
func pageOf(name string) ([]byte, error) {
	events, err := read(name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = timeline.Write(&b, events, judge.Judge(events))
	return b.Bytes(), err
}

// writePage writes the page of a history that is kept.
func writePage(from, to string) error {
	page, err := pageOf(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, page, 0o644)
}
