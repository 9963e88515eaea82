package redlock

import (
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/lines"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
)

// queueScript is the lock script for a client that waits: what is refused is put
// in line for the resources that another token holds, in the same step, so that
// no release can come between; what is granted leaves the line. A client that asks by
// turn is also refused, and put in line, while a free resource is reserved for another.
//
//	KEYS  the resources' keys, their bells, then the session's tombstone
//	ARGV  token, ttl in ms, the client's channel, for how long it has waited in µs,
//	      life of the line in ms, "1" if it asks by turn, generation of the connection
//
// It answers as the lock script does, and
//
//	{pttl, "", ""}                free, but reserved for so long for another client
//	{pttl, digest, owner, error}  refused, and not in line, because of the error
//
// The place in line is the node's time less the time waited: all nodes agree on
// the order up to the differences between network delays, though no two of the
// clocks involved need agree.
var queueScript = quarantine.Grants(node.NewScript("queue", `
local n, fence = (#KEYS - 1) / 2, 1
`+node.StaleLua+lookLua+lines.QueueLua(grantLua), lines.DecodeQueue(decodeLock)))

// fencedQueueScript is the queue script with fencing. Its answer to a grant is that of
// fencedLockScript.
//
//	KEYS  the resources' keys, their bells, their counters, then the session's tombstone
//	ARGV  as the queue script, but before the generation: proposal, life of the
//	      counters in ms
var fencedQueueScript = quarantine.Grants(node.NewScript("fencedQueue", fences.MaxLua+`
local n = (#KEYS - 1) / 3
local at, proposal, keep = 2 * n, tonumber(ARGV[7]), ARGV[8]
`+node.StaleLua+lookLua+lines.QueueLua(fences.GrantLua), lines.DecodeQueue(fences.Decode(decodeLock))))

// queueCommand is the lock command of a client that has waited for some time, and goes on
// if it is refused. keys are the resources' and their bells; channel is the client's; args are the lock request's;
// f is nil without fencing.
func queueCommand(keys []any, channel any, args []any, f *fencing, waited, life time.Duration, byTurn bool) node.Command {
	argv := []any{args[0], args[1], channel, waited.Microseconds(), serverMillis(life), byTurn}
	if f == nil {
		return node.Command{Script: queueScript, Keys: keys, Args: argv}
	}
	return node.Command{Script: fencedQueueScript, Keys: slices.Concat(keys, f.counters), Args: append(argv, args[2:]...)}
}

// passScript is for a client that has no use for a release, or waits no more: what is
// reserved for it is not any more, and if the resource is free, the next in line is told.
//
//	KEYS  the resource's key, its bell
//	ARGV  the name of the release ("": nobody is told), the client's channel, "1" if it
//	      leaves the line
//	0, {0, told}  as the unlock script
var passScript = node.NewScript("pass", lines.PassLua, lines.DecodeTold("pass", decodeHeld("pass")))

// passCommand is for one resource; its release has the name, the digest of the token.
func passCommand(keys []any, channel any, name string, leave bool) node.Command {
	return node.Command{Script: passScript, Keys: keys, Args: []any{name, channel, leave}}
}
