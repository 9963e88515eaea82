// Package holders reads from the answers of nodes who holds a resource. The scripts that answer are package
// redlock's.
package holders

import (
	"math"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// Answers has the errors for a refused lock: another token holds a resource, or it is free, but reserved for another
// waiter.
type Answers struct{ Taken, Reserved error }

// Lock reads the answer of a script that locks.
func (a Answers) Lock(reply any) node.Outcome {
	switch r := reply.(type) {
	case int64:
		if r == 1 {
			return node.Outcome{Stance: node.Yes}
		}
	case []any:
		if len(r) != 2 && len(r) != 3 {
			break
		}
		left, ok1 := r[0].(int64)
		holder, ok2 := r[1].([]byte)
		owner, ok3 := decodeOwner(r[2:])
		if !ok1 || !ok2 || !ok3 {
			break
		}
		held := &node.Holder{Digest: tokens.ShownDigest(string(holder)), Owner: owner, TTL: millis(left)}
		out := node.Outcome{Stance: node.No, Err: a.Taken, Holder: held}
		if len(holder) == 0 {
			out.Err = a.Reserved
		}
		return out
	}
	return node.Unexpected("lock", reply)
}

// Direct reads the replies of the server's own commands to a lock request on one resource.
func (a Answers) Direct(token, value any, left int64) node.Outcome {
	switch v := value.(type) {
	case nil:
		return node.Outcome{Stance: node.Yes}
	case []byte:
		if string(v) == token {
			return node.Outcome{Stance: node.Yes} // An earlier request has set it.
		}
		if left == -2 {
			left = 0 // The key has expired in between.
		}
		held := &node.Holder{Digest: tokens.Digest(string(v)), Owner: tokens.LabelOf(string(v)), TTL: millis(left)}
		return node.Outcome{Stance: node.No, Err: a.Taken, Holder: held}
	}
	return node.Unexpected("SET", value)
}

// decodeOwner reads the end of an answer that says who holds a resource: the holder's label, or nothing.
func decodeOwner(end []any) (owner string, ok bool) {
	if len(end) == 0 {
		return "", true
	}
	label, ok := end[0].([]byte)
	return tokens.ShownLabel(string(label)), ok
}

// Inspect reads the answer of the inspect script.
func Inspect(reply any) node.Outcome {
	if reply == int64(0) {
		return node.Outcome{Stance: node.Yes}
	}
	if r, ok := reply.([]any); ok && (len(r) == 3 || len(r) == 4) {
		value, ok1 := r[0].([]byte)
		left, ok2 := r[1].(int64)
		holder, ok3 := r[2].([]byte)
		owner, ok4 := decodeOwner(r[3:])
		if ok1 && ok2 && ok3 && ok4 {
			held := &node.Holder{Digest: tokens.ShownDigest(string(holder)), Owner: owner, Token: tokens.Short(string(value)), TTL: millis(left)}
			return node.Outcome{Stance: node.Yes, Holder: held}
		}
	}
	return node.Unexpected("inspect", reply)
}

func millis(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	if ms > int64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}
