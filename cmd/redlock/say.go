package main

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// An output is where the tool writes its answer. It remembers the first error, which execute
// makes the tool's: half an answer, as on a disk that is full, must not look like all of it.
type output struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil && err != nil {
		o.err = fmt.Errorf("cannot write the answer: %w", err)
	}
	return n, err
}

func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// printf writes to an output, which remembers an error; or to standard error, where there is
// nobody else to tell.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// count is a number of things: 1 node, 3 nodes.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}

// answer writes what a command has done: as JSON, if that is asked for, or as a text.
func (t *tool) answer(v any, format string, args ...any) {
	if t.global.json {
		writeJSON(t.out, v)
		return
	}
	t.foldf(t.out, format, args...)
}

// foldf writes a text for people, with its lines broken where the answer goes to a terminal: w is the answer, or what
// becomes a part of it.
func (t *tool) foldf(w io.Writer, format string, args ...any) {
	printf(w, "%s", fold(fmt.Sprintf(format, args...), columns(t.out)))
}

// noteTimeout is how long a remark may take to be written. A terminal that is stopped (Ctrl-S)
// must not hold up what is to be done about the lock.
const noteTimeout = 200 * time.Millisecond

// note writes a remark to standard error.
func (t *tool) note(text string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if t.global.json {
			writeJSON(t.errOut, struct {
				Note string `json:"note"`
			}{text})
			return
		}
		printf(t.errOut, "%s %s\n", t.styleFor(t.errOut).yellow("redlock:"), text)
	}()
	select {
	case <-done:
	case <-time.After(noteTimeout):
	}
}
