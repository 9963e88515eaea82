package redlock

import (
	"embed"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/holders"
	"github.com/seed6c881748/redlock/internal/lines"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
)

// Only this file of the package knows the scripts and their answers. Their texts are the files of scripts/, which also
// say what their keys, arguments and answers are.
//
// A lock is one string key per resource, prefix+resource, whose value is the token: the layout of node-redlock and
// redsync, so that fleets that mix them with this library exclude each other. Everything else that the library stores
// has reservedMark in its key.

//go:embed scripts/*.lua
var scriptFiles embed.FS

// script returns the script in the file with that name, without its comments. decode reads its replies.
func script(name string, decode func(reply any) node.Outcome) *node.Script {
	text, err := scriptFiles.ReadFile("scripts/" + name + ".lua")
	must(err)
	return node.NewScript(name, node.Code(string(text)), decode)
}

// GET fails for a key of another type. A script that asks whether a key holds its token uses pcall, and the answer is
// no: with call, one such key would keep a release from deleting the others.

// handshakeScripts are loaded into every new connection's server. SCRIPT FLUSH
// or a restart behind a proxy may still lose them at any moment.
var handshakeScripts = []*node.Script{
	lockScript, fencedLockScript, queueScript, fencedQueueScript, raiseScript, extendScript, repairScript,
	unlockScript, passScript, inspectScript, quarantine.RunScript, quarantine.AdmitScript,
}

// grantingScripts are the scripts that grant, wrapped for quarantine, and otherScripts the rest.
var grantingScripts, otherScripts = quarantine.Wrap(handshakeScripts)

// answers reads who holds a resource from the answers of the scripts.
var answers = holders.Answers{Taken: ErrTaken, Reserved: errReserved}

// lockScript sets all keys to the token, or none.
var lockScript = quarantine.Granting(script("lock", answers.Lock))

// A lock request on one resource is sent as the server's own commands where possible.
func init() { lockScript.Direct = answers.Direct }

// lockCommand returns the lock request of a claim that does not get in line.
func lockCommand(c *claim) node.Command {
	if c.counters != nil {
		return node.Command{Script: fencedLockScript, Keys: c.counted, Args: c.args}
	}
	return node.Command{Script: lockScript, Keys: c.keys, Args: c.args}
}

// extendScript moves the expiry of all keys to the ttl from now, or of none.
var extendScript = script("extend", func(reply any) node.Outcome {
	switch reply {
	case int64(-1):
		return node.Outcome{Stance: node.Gone, Err: ErrLost}
	case int64(2):
		return node.Outcome{Stance: node.Yes, Wanted: true}
	}
	return decodeHeld("extend", node.No)(reply)
})

// extendCommand returns the request of an extension. With ask, it also asks whether somebody is in line.
func extendCommand(c *claim, ms any, ask bool) node.Command {
	cmd := keepCommand(extendScript, c, ms)
	if ask {
		cmd.Keys = slices.Concat(cmd.Keys, c.withBells()[len(c.keys):])
		cmd.Args = append(append(cmd.Args, "", "")[:4], true) // Empty without a fence.
	}
	return cmd
}

// repairScript gives a node the missing keys of a lock that a quorum holds.
var repairScript = quarantine.Granting(script("repair", func(reply any) node.Outcome {
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

// unlockScript makes every release: it deletes the keys that hold the token, or leaves them for a time, and tells the
// first in line, or nobody.
var unlockScript = script("unlock", lines.DecodeTold("unlock", func(reply any) node.Outcome {
	r, isHeld := reply.([]any)
	if !isHeld {
		return decodeHeld("unlock", node.Gone)(reply)
	}
	out := answers.Lock(r)
	if out.Stance == node.No {
		out.Stance, out.Err = node.Gone, ErrLost
	}
	return out
}))

// deletionScript is unlockScript for a release that may be sent as the server's own command.
var deletionScript = func() *node.Script {
	s := *unlockScript
	s.Deletes = true
	return &s
}()

// unlockCommand returns the first release. That of a lock that was waited for always goes by the script: it tells
// further waiters at once.
func unlockCommand(c *claim) node.Command {
	s := deletionScript
	if c.waited {
		s = unlockScript
	}
	return node.Command{Script: s, Keys: c.withBells(), Args: c.args[:1]}
}

// lateCommand returns a repeated release.
func lateCommand(c *claim) node.Command {
	return node.Command{Script: unlockScript, Keys: c.withBells(), Args: []any{c.args[0], "again"}}
}

// leaveCommand returns a release that leaves the keys for a time.
func leaveCommand(c *claim, ms int64) node.Command {
	return node.Command{Script: unlockScript, Keys: c.withBells(), Args: []any{c.args[0], ms}, Timed: true}
}

// undoCommand returns the release of an attempt that failed: it tells nobody.
func undoCommand(c *claim) node.Command {
	return node.Command{Script: unlockScript, Keys: c.keys, Args: []any{c.args[0], ""}}
}

// decodeHeld returns a function that reads the 1 of a script that found its token, and the 0 of one that did not, whose
// vote is no.
func decodeHeld(name string, no node.Stance) func(any) node.Outcome {
	return func(reply any) node.Outcome {
		switch reply {
		case int64(1):
			return node.Outcome{Stance: node.Yes}
		case int64(0):
			return node.Outcome{Stance: no, Err: ErrLost}
		}
		return node.Unexpected(name, reply)
	}
}

var fencedLockScript = quarantine.Granting(script("fencedLock", fences.Decode(answers.Lock)))

// raiseScript sets the counters of a lock to a fence that is not below them.
var raiseScript = script("raise", fences.Decode(func(reply any) node.Outcome {
	if reply == int64(0) {
		return node.Outcome{Stance: node.No, Err: errNotRaised}
	}
	return node.Unexpected("raise", reply)
}))

func raiseCommand(c *claim, fence int64) node.Command {
	return node.Command{Script: raiseScript, Keys: c.counted, Args: append([]any{c.args[0], fence}, c.args[3:]...)}
}

// queueScript is the lock script for a client that waits, and fencedQueueScript the same with fencing.
var (
	queueScript       = quarantine.Granting(script("queue", lines.DecodeQueue(answers.Lock)))
	fencedQueueScript = quarantine.Granting(script("fencedQueue", lines.DecodeQueue(fences.Decode(answers.Lock))))
)

// queueCommand returns the lock request of a client that has waited for some time, and goes on if it is refused.
// channel is the client's.
func queueCommand(c *claim, channel any, waited, life time.Duration, yields bool) node.Command {
	c.waited = true
	args := []any{c.args[0], c.args[1], channel, waited.Microseconds(), serverMillis(life), yields}
	if c.counters == nil {
		return node.Command{Script: queueScript, Keys: c.withBells(), Args: args}
	}
	return node.Command{Script: fencedQueueScript, Keys: slices.Concat(c.withBells(), c.counters), Args: append(args, c.args[2:]...)}
}

// passScript is for a client that has no use for a release, or no longer waits.
var passScript = script("pass", lines.DecodeTold("pass", decodeHeld("pass", node.Gone)))

// passCommand returns a request about one resource. name is the release's: the digest of its token.
func passCommand(on *target, channel any, name string, leave bool) node.Command {
	return node.Command{Script: passScript, Keys: on.withBells(), Args: []any{name, channel, leave}}
}

var inspectScript = script("inspect", holders.Inspect)

func inspectCommand(key any) node.Command {
	return node.Command{Script: inspectScript, Keys: []any{key}}
}
