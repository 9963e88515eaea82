package timeline

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
)

// A scene is what the page draws. Times are microseconds since the start of the run; -1 is one that did not come.
// What there may be very many of is encoded as arrays, in the order of its fields.
type scene struct {
	End       int64     `json:"end"`
	Lanes     []lane    `json:"lanes"`
	Resources []string  `json:"resources"`
	Sets      [][]int   `json:"sets"`    // The sets of resources that are locked together.
	Texts     []string  `json:"texts"`   // Errors, details, and what nodes said; the first one is empty.
	Threads   []*thread `json:"threads"` // In order of Lane, Track and From.

	Calls    []*call    `json:"calls"`
	Attempts [][]any    `json:"attempts"` // Call, then of each node in turn when it voted, after the one before, and what; 0, 0 if it did not.
	Holds    []hold     `json:"holds"`
	Sections []*section `json:"sections"`
	Accesses [][]any    `json:"accesses"` // Of the register: thread, operation, resource, from, to, value, fence, 1 if OK.
	Losses   [][]any    `json:"losses"`   // Loss signals: thread, when, error.

	Lives      []*life  `json:"lives"`
	Faults     []*fault `json:"faults"`
	Violations []mark   `json:"violations"`
}

// A lane is a client, whatever the number of its processes, or a node, or what all of them share.
type lane struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`             // client, node or all
	Tracks int    `json:"tracks,omitempty"` // How many threads it has at a time.
}

// A thread is all that belongs to one acquisition: the call, the lock, its extensions, sections and release.
// Threads of a track do not overlap.
type thread struct {
	Lane, Track int
	From, To    int64
	Set         int
	Process     int // A text: the client with the number of its process.

	number int      // Among all, once they are in order.
	inside *section // That is open.
}

// A call is one of the library. Of is the thread that it is about, which is another one's if somebody releases a lock
// that is not its own, and nil if that lock is not known.
type call struct {
	Thread  *thread
	Of      *thread
	Op      int // A text.
	From    int64
	To      int64
	Outcome int // A text: "ok", one of history's, "failed", or "" without a Return.
	Err     int // A text.
	Until   int64
	Fence   int64
	Waits   int64 // Since when.

	number int
}

// A hold is the time in which a lock was held.
type hold struct {
	Thread   *thread
	From, To int64
	Ended    int // A text: how.
	// Dead is until when the lock of a process that has ended keeps others out, or -1.
	Dead int64
}

// A section is a critical one; To is -1 if it was not left.
type section struct {
	Thread   *thread
	From, To int64
}

// A life is a process of a client.
type life struct {
	Lane     int
	From, To int64
	Process  int
	Ended    int
}

// A fault is a band, or an instant, whose To is -1.
type fault struct {
	Lane     int
	From, To int64
	Name     int
	Detail   int
}

// A mark is a violation.
type mark struct {
	From  int64  `json:"from"`
	To    int64  `json:"to"`
	Lanes []int  `json:"lanes"`
	Rule  string `json:"rule"`
	Text  string `json:"text"`
	Of    int    `json:"of"` // The resource, or -1.
}

// MarshalJSON and those below encode as arrays.
func (t thread) MarshalJSON() ([]byte, error) {
	return row(t.Lane, t.Track, t.From, t.To, t.Set, t.Process)
}

func (c call) MarshalJSON() ([]byte, error) {
	of := -1
	if c.Of != nil {
		of = c.Of.number
	}
	return row(c.Thread.number, of, c.Op, c.From, c.To, c.Outcome, c.Err, c.Until, c.Fence, c.Waits)
}

func (h hold) MarshalJSON() ([]byte, error) {
	return row(h.Thread.number, h.From, h.To, h.Ended, h.Dead)
}

func (s section) MarshalJSON() ([]byte, error) { return row(s.Thread.number, s.From, s.To) }
func (l life) MarshalJSON() ([]byte, error)    { return row(l.Lane, l.From, l.To, l.Process, l.Ended) }

func (f fault) MarshalJSON() ([]byte, error) { return row(f.Lane, f.From, f.To, f.Name, f.Detail) }

func row(columns ...any) ([]byte, error) { return json.Marshal(columns) }

func micro(ns int64) int64 { return ns / 1000 }

// base is the client of a process: "c1" of "c1.2".
func base(process string) string {
	name, number, found := strings.Cut(process, ".")
	if !found || number == "" || strings.Trim(number, "0123456789") != "" {
		return process
	}
	return name
}

// newScene computes the scene of a history.
func newScene(events []history.Event, violations []judge.Violation) *scene {
	ordered := slices.Clone(events)
	slices.SortStableFunc(ordered, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	b := newBuilder(ordered)
	for _, e := range ordered {
		b.add(e)
	}
	b.finish(judge.Holds(ordered), violations)
	return &b.scene
}
