package redlock

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"time"
)

// A script is a Lua program that runs atomically on one node.
type script struct {
	name              string
	shaArg, sourceArg any // boxed, for redigo
	decode            func(reply any) outcome

	// session: it also takes the session's tombstone as its last key and the
	// connection's generation as its last argument.
	session bool
}

// An outcome is what a reply to a script means for the round.
type outcome struct {
	stance    stance
	err       error // nil for a yes; ErrTaken or ErrLost for a no; else why there is no answer
	stale     bool  // the script did nothing, because the connection has been given up
	abstained bool  // the script did nothing, because of the quarantine
	holder    string
	owner     string
	holderTTL time.Duration
	value     string   // inspect: the token's beginning
	fence     int64    // fencedLock, fencedQueue, raise: of a yes, what the counters are exactly
	told      []string // unlock, leave, pass: by resource, who was told; nil: nobody is in line
	unqueued  string   // queue: why the waiter was not put in line
}

func newScript(name, source string, decode func(any) outcome) *script {
	sum := sha1.Sum([]byte(source))
	sha := hex.EncodeToString(sum[:])
	return &script{name: name, shaArg: sha, sourceArg: source, decode: decode}
}

// A stance is what a vote counts as. It spares the hot path the comparison of
// errors.
type stance uint8

const (
	silent  stance = iota // no answer: an error or a timeout
	pending               // not heard yet
	yes
	no   // answered, and said no
	gone // the no of an extension: the key is missing, nobody else has it
)

func unexpected(name string, reply any) outcome {
	s := fmt.Sprintf("%v", reply)
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return outcome{err: fmt.Errorf("unexpected reply to the %s script: %T %s", name, reply, s)}
}
