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

// Script is what reads a node's notes, and writes one.
//
//go:embed notes.lua
var Script string

// Read are the script's arguments for whoever only reads.
func Read(life time.Duration) []any { return []any{life.Milliseconds()} }

// Write are those for whoever notes a set, too; now is by the node's clock.
func Write(life, now time.Duration, s *Set) []any {
	text, _ := json.Marshal(s) // One line; strings and numbers do not fail.
	return append(Read(life), now.Milliseconds(), Late.Milliseconds(), s.Key(), text)
}

// A Reading is what the script has answered.
type Reading struct {
	Run    string        // the run_id
	Uptime time.Duration // for how long that run has lasted
	Now    time.Duration // the time, since the epoch of the node's clock
	Wrote  bool          // the caller's set was noted
	Notes  []Note        // those of other sets
}

// A Note is another one's set, as it would write it now.
type Note struct {
	Set

	Age time.Duration // since it was written
}

// Parse reads the script's answer; false: the server does not tell what it is.
func Parse(text string) (r Reading, ok bool) {
	head, rest, _ := strings.Cut(text, "\n")
	var seconds, now, wrote int64
	if n, _ := fmt.Sscanf(head, "%s %d %d %d", &r.Run, &seconds, &now, &wrote); n != 4 {
		return Reading{}, false
	}
	r.Uptime, r.Now, r.Wrote = time.Duration(seconds)*time.Second, time.Duration(now)*time.Millisecond, wrote == 1
	for line := range strings.Lines(rest) {
		var age int64
		var set Set
		number, text, _ := strings.Cut(line, " ")
		if _, err := fmt.Sscan(number, &age); err != nil || json.Unmarshal([]byte(text), &set) != nil {
			continue // Of a later version, say.
		}
		by := time.Duration(age) * time.Millisecond
		r.Notes = append(r.Notes, Note{Set: set.Aged(by), Age: by})
	}
	return r, true
}
