// Package lines knows the line of a resource on a node: how its keys are named, and what scripts answer about it. The
// scripts are in package redlock.
package lines

import (
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// The line of a resource on a node: a sorted set of those that wait for it there, each by the channel on which it
// listens, the one that has waited longest first. It is only a hint as to who is to be told of a release: no script
// grants or refuses a lock because of it. Its bell is a key that exists while the line may not be empty. It is there
// for speed: a release finds out with the DEL that it makes anyway whether it has to look. For the same reason
// scripts make the line's name from the bell's, with an l behind it, rather than being given another key for every
// release. (Redis asks scripts to name their keys for the sake of Redis Cluster, where a prefix with a hash tag has
// all of them in one slot. On a server that refuses the others, there are no lines.)
//
// A reservation is a key beside the bell, with an r behind its name, that names the client that was told
// of a release, for as long as that one should need to come. It is a courtesy: only a client that asks
// as it becomes head gives way to it. One that asks because it was told, because its retry delay or
// the reservation is over, or by TryLock, does not look at it.
const bellMark, bellEnd = "w:", ":b"

// ChannelMark begins the channels' names. Each process listens on one of its own, so
// that a release wakes one process and not all.
const ChannelMark = "c:"

// DecodeQueue reads the answer of a script that gets a client in line: that of a lock script, which decode reads, and maybe why
// the client is not in line.
func DecodeQueue(decode func(any) node.Outcome) func(any) node.Outcome {
	return func(reply any) node.Outcome {
		why := ""
		if r, ok := reply.([]any); ok && len(r) == 4 {
			if text, ok := r[3].([]byte); ok {
				why, reply = string(text), r[:3]
			}
		}
		out := decode(reply)
		if out.Stance == node.No {
			out.Unqueued = why
		}
		return out
	}
}

const (
	// RefusedToTell is a release's answer instead of a channel if the server refuses to tell.
	RefusedToTell = "!"

	// StillReserved comes before a channel for which the resource is still reserved.
	StillReserved = "="
)

// Bell returns the key of a resource's bell: with the prefix, in the key space that reserved marks.
func Bell(prefix, reserved, resource string) string {
	return prefix + reserved + bellMark + resource + bellEnd
}

// Key returns the key of the line itself, as scripts make it from the bell's.
func Key(prefix, reserved, resource string) string { return Bell(prefix, reserved, resource) + "l" }

// DecodeMessage reads the message about a release: the digest of its token, and the resource's key.
func DecodeMessage(payload string) (key, digest string, ok bool) {
	if len(payload) <= tokens.DigestLen {
		return "", "", false
	}
	return payload[tokens.DigestLen:], payload[:tokens.DigestLen], true
}

// DecodeTold returns a function that reads the answer of a script that tells waiters; held reads its part that is not
// about lines.
func DecodeTold(name string, held func(any) node.Outcome) func(any) node.Outcome {
	return func(reply any) node.Outcome {
		r, ok := reply.([]any)
		if !ok {
			return held(reply)
		}
		if len(r) == 0 {
			return node.Unexpected(name, reply)
		}
		out := held(r[0])
		for _, told := range r[1:] {
			channel, ok := told.([]byte)
			if !ok {
				return node.Unexpected(name, reply)
			}
			out.Told = append(out.Told, string(channel))
		}
		return out
	}
}
