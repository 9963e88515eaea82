package node

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// A Script is a Lua program that runs atomically on one node.
type Script struct {
	Name         string
	Hash, Source any // boxed, for redigo
	Decode       func(reply any) Outcome

	Grants bool // it grants or repairs locks: a Dialect changes how it is sent

	// Direct reads the replies to a request that was sent without the script, see direct.go: the boxed token, the key's
	// earlier value, nil for none, and the ms that the key still lives, as PTTL says. nil: the script is always needed.
	Direct func(token, value any, left int64) Outcome

	Deletes bool // it releases, and may go without the script on one resource; see deletion.go
}

// An Outcome is what a reply to a script means for the round.
type Outcome struct {
	Stance    Stance
	Abstained bool     // the script did nothing, because of the quarantine
	Err       error    // nil for a yes; ErrTaken or ErrLost for a no; else why there is no answer
	Holder    *Holder  // nil: the node has named none
	Fence     int64    // fencedLock, fencedQueue, raise: with a yes, the exact value of the counters
	Found     int64    // with such a yes, the most that a counter can have been before; 0: unknown
	Told      []string // unlock, pass: by resource, the channel that was told; nil: nobody is in line
	Wanted    bool     // extend: somebody is in line
	Unqueued  string   // queue: why the waiter was not put in line
	Value     string   // run: the server's run_id
}

// A Holder is who holds a resource on a node. It is a separate struct, as most votes name none.
type Holder struct {
	Digest, Owner string
	Token         string        // inspect: its beginning
	TTL           time.Duration // of the key; for an abstention: how long it lasts
}

// NewScript returns the script of that source; decode reads its replies.
func NewScript(name, source string, decode func(any) Outcome) *Script {
	sum := sha1.Sum([]byte(source))
	sha := hex.EncodeToString(sum[:])
	return &Script{Name: name, Hash: sha, Source: source, Decode: decode}
}

// Code returns the text of a script's file without its comments.
func Code(text string) string {
	var code strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			code.WriteString(line + "\n")
		}
	}
	return code.String()
}

// A Stance is what a vote counts as. It spares the hot path the comparison of errors.
type Stance uint8

// The stances.
const (
	Silent  Stance = iota // no answer: an error or a timeout
	Pending               // not heard yet
	Yes
	No   // answered, and said no
	Gone // the no of an extension that found no key at all, and of a release
)

// Unexpected returns the outcome of a reply that a script never gives.
func Unexpected(name string, reply any) Outcome {
	s := fmt.Sprintf("%v", reply)
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return Outcome{Err: fmt.Errorf("unexpected reply to the %s script: %T %s", name, reply, s)}
}
