package redlock

import (
	"embed"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/lines"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// This file is the only one here that knows the scripts and what they answer. Their texts are the
// files of scripts/, which also say what their keys, arguments and answers are.
//
// A lock is one string key per resource, prefix+resource, whose value is the
// token: the layout of node-redlock and redsync, so that fleets that mix them
// with this library exclude each other. Everything else that the library
// stores has reservedMark in its key.

//go:embed scripts/*.lua
var scriptFiles embed.FS

// script returns the script in the file of that name, without its comments. decode reads its replies.
func script(name string, decode func(reply any) node.Outcome) *node.Script {
	text, err := scriptFiles.ReadFile("scripts/" + name + ".lua")
	must(err)
	return node.NewScript(name, node.Code(string(text)), decode)
}

// Keys of another type: GET fails for them. Where a script asks whether a key
// holds its token it uses pcall, and the answer is no: with call, one such key
// would keep a release from deleting the others.

// handshakeScripts are loaded into every new connection's server. SCRIPT FLUSH
// or a restart behind a proxy may still lose them at any moment.
var handshakeScripts = []*node.Script{
	lockScript, fencedLockScript, queueScript, fencedQueueScript, raiseScript, extendScript, repairScript,
	unlockScript, leaveScript, undoScript, passScript, inspectScript, quarantine.RunScript, quarantine.AdmitScript,
}

// grantingScripts are those that grant, with quarantine, and otherScripts those that do not.
var grantingScripts, otherScripts = quarantine.Wrap(handshakeScripts)

// lockScript sets every key to the token, or none.
var lockScript = alsoDirect(quarantine.Grants(script("lock", decodeLock)))

// alsoDirect has a script for one resource be sent as commands of the server's own where that is possible.
func alsoDirect(s *node.Script) *node.Script {
	s.Direct = decodeDirect
	return s
}

// lockCommand is the lock request of a claim that does not get in line.
func lockCommand(c *claim) node.Command {
	if c.counters != nil {
		return node.Command{Script: fencedLockScript, Keys: c.counted, Args: c.args}
	}
	return node.Command{Script: lockScript, Keys: c.keys, Args: c.args}
}

func decodeLock(reply any) node.Outcome {
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
		out := node.Outcome{Stance: node.No, Err: ErrTaken, Holder: held}
		if len(holder) == 0 {
			out.Err = errReserved
		}
		return out
	}
	return node.Unexpected("lock", reply)
}

// decodeDirect reads what the server's own commands say of a lock request on one resource.
func decodeDirect(token, value any, left int64) node.Outcome {
	switch v := value.(type) {
	case nil:
		return node.Outcome{Stance: node.Yes}
	case []byte:
		if string(v) == token {
			return node.Outcome{Stance: node.Yes} // Set by a request that has run before.
		}
		if left == -2 {
			left = 0 // It has expired in between.
		}
		held := &node.Holder{Digest: tokens.Digest(string(v)), Owner: tokens.LabelOf(string(v)), TTL: millis(left)}
		return node.Outcome{Stance: node.No, Err: ErrTaken, Holder: held}
	}
	return node.Unexpected("SET", value)
}

// decodeOwner reads the end of an answer that says who holds a resource: the holder's
// label, or nothing.
func decodeOwner(end []any) (owner string, ok bool) {
	if len(end) == 0 {
		return "", true
	}
	label, ok := end[0].([]byte)
	return tokens.ShownLabel(string(label)), ok
}

// extendScript moves the expiry of every key to the ttl from now, or of none.
var extendScript = script("extend", func(reply any) node.Outcome {
	if reply == int64(-1) {
		return node.Outcome{Stance: node.Gone, Err: ErrLost}
	}
	return decodeHeld("extend")(reply)
})

func extendCommand(c *claim, ms any) node.Command { return keepCommand(extendScript, c, ms) }

// repairScript gives a lock that a quorum holds its missing keys on this node.
var repairScript = quarantine.Grants(script("repair", func(reply any) node.Outcome {
	switch reply {
	case int64(1):
		return node.Outcome{Stance: node.Yes}
	case int64(-1):
		return node.Outcome{Stance: node.No, Err: ErrTaken}
	}
	return node.Unexpected("repair", reply)
}))

func repairCommand(c *claim, ms any) node.Command { return keepCommand(repairScript, c, ms) }

// keepCommand has the lock and, with fencing, its counters live on.
func keepCommand(s *node.Script, c *claim, ms any) node.Command {
	if c.counters != nil {
		return node.Command{Script: s, Keys: c.counted, Args: []any{c.args[0], ms, c.fence, c.args[3]}}
	}
	return node.Command{Script: s, Keys: c.keys, Args: []any{c.args[0], ms}}
}

// unlockScript deletes the keys that hold the token, and tells who is first in line.
var unlockScript = script("unlock", lines.DecodeTold("unlock", decodeHeld("unlock")))

func unlockCommand(c *claim) node.Command {
	return node.Command{Script: unlockScript, Keys: c.withBells(), Args: c.args[:1]}
}

// leaveScript is a release that leaves the keys for a time.
var leaveScript = script("leave", lines.DecodeTold("leave", decodeHeld("leave")))

func leaveCommand(c *claim, ms int64) node.Command {
	return node.Command{Script: leaveScript, Keys: c.withBells(), Args: []any{c.args[0], ms}, Timed: true}
}

// undoScript is the release of an attempt that failed: it tells nobody.
var undoScript = script("undo", decodeHeld("undo"))

func undoCommand(c *claim) node.Command {
	return node.Command{Script: undoScript, Keys: c.keys, Args: c.args[:1]}
}

// decodeHeld reads the 1 of a script that found its token and the 0 of one
// that did not.
func decodeHeld(name string) func(any) node.Outcome {
	return func(reply any) node.Outcome {
		switch reply {
		case int64(1):
			return node.Outcome{Stance: node.Yes}
		case int64(0):
			return node.Outcome{Stance: node.No, Err: ErrLost}
		}
		return node.Unexpected(name, reply)
	}
}

var fencedLockScript = quarantine.Grants(script("fencedLock", fences.Decode(decodeLock)))

// raiseScript sets the counters of a lock to a fence that is not below them.
var raiseScript = script("raise", fences.Decode(func(reply any) node.Outcome {
	if reply == int64(0) {
		return node.Outcome{Stance: node.No, Err: errNotRaised}
	}
	return node.Unexpected("raise", reply)
}))

func raiseCommand(c *claim, fence int64) node.Command {
	return node.Command{Script: raiseScript, Keys: c.counted, Args: []any{c.args[0], fence, c.args[3]}}
}

// queueScript is the lock script for a client that waits, and fencedQueueScript is that with fencing.
var (
	queueScript       = quarantine.Grants(script("queue", lines.DecodeQueue(decodeLock)))
	fencedQueueScript = quarantine.Grants(script("fencedQueue", lines.DecodeQueue(fences.Decode(decodeLock))))
)

// queueCommand is the lock request of a client that has waited for some time, and goes on
// if it is refused. channel is the client's.
func queueCommand(c *claim, channel any, waited, life time.Duration, byTurn bool) node.Command {
	args := []any{c.args[0], c.args[1], channel, waited.Microseconds(), serverMillis(life), byTurn}
	if c.counters == nil {
		return node.Command{Script: queueScript, Keys: c.withBells(), Args: args}
	}
	return node.Command{Script: fencedQueueScript, Keys: slices.Concat(c.withBells(), c.counters), Args: append(args, c.args[2:]...)}
}

// passScript is for a client that has no use for a release, or waits no more.
var passScript = script("pass", lines.DecodeTold("pass", decodeHeld("pass")))

// passCommand is for one resource; its release has the name, the digest of the token.
func passCommand(on *target, channel any, name string, leave bool) node.Command {
	return node.Command{Script: passScript, Keys: on.withBells(), Args: []any{name, channel, leave}}
}

var inspectScript = script("inspect", func(reply any) node.Outcome {
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
})

func inspectCommand(key any) node.Command {
	return node.Command{Script: inspectScript, Keys: []any{key}}
}

func millis(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	if ms > int64(maxDuration/time.Millisecond) {
		return maxDuration
	}
	return time.Duration(ms) * time.Millisecond
}
