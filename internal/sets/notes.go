package sets

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Mark ends the key of a node's notes.
const Mark = "sets"

// maxNote bounds the text of a set. A set of nine nodes has about 2 000 bytes.
const maxNote = 8192

// Script reads a node's notes, and writes one.
//
//go:embed notes.lua
var Script string

// Read returns the script's arguments for a client that only reads.
func Read() []any { return []any{Life.Milliseconds()} }

// Write returns the script's arguments for a client that also notes its set; now is by the node's clock.
func Write(now time.Duration, s *Set) []any {
	text, _ := json.Marshal(s) // One line; strings and numbers do not fail.
	return append(Read(), now.Milliseconds(), Late.Milliseconds(), s.Key(), text)
}

// Question returns the command that asks a node for its notes. space begins the library's own keys.
func Question(space string) []any { return append([]any{"EVAL", Script, 1, space + Mark}, Read()...) }

// A Reading is an answer of the script.
type Reading struct {
	Run    string        // the run_id
	Uptime time.Duration // for how long that run has lasted
	Now    time.Duration // the time, since the epoch of the node's clock
	Wrote  bool          // the caller's set was noted
	Notes  []Note        // the notes of other sets
}

// A Note is the set of another client, with ages as if it were written now.
type Note struct {
	Set

	Age time.Duration // since it was written
}

// Parse reads the script's answer. ok is false if the server does not tell what it is.
func Parse(text string) (r Reading, ok bool) {
	head, rest, _ := strings.Cut(text, "\n")
	if n, _ := fmt.Sscanf(head, "%s %d %d %t", &r.Run, &r.Uptime, &r.Now, &r.Wrote); n != 4 {
		return Reading{}, false
	}
	r.Uptime = max(r.Uptime, 0) * time.Second // The clock may have been set back, past the server's start.
	r.Now *= time.Millisecond
	for line := range strings.Lines(rest) {
		var n Note
		age, text, _ := strings.Cut(line, " ")
		if _, err := fmt.Sscan(age, &n.Age); err != nil || len(text) > maxNote || json.Unmarshal([]byte(text), &n.Set) != nil {
			continue // It may be from a later version, or malicious.
		}
		n.Age *= time.Millisecond
		for i := range n.Servers {
			n.Servers[i].Started += n.Age
			n.Servers[i].Confirmed += n.Age
		}
		r.Notes = append(r.Notes, n)
	}
	return r, true
}
