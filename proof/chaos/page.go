package main

import (
	"bytes"
	"os"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/proof/timeline"
)

// writePage writes the page of a history.
func writePage(name string, events []history.Event, v judge.Verdict) error {
	var b bytes.Buffer
	if err := timeline.Write(&b, events, v); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}
