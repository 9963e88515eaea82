package redlock

import (
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/lines"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
)

// A fencing is what an attempt with fencing needs besides its claim. All attempts of a
// call share it.
type fencing struct {
	keys     []any // the resources' keys, then their counters
	counters []any // the latter
	life     any   // of the counters in ms, boxed
	fence    int64 // the lock's, once there is one
}

// fencedLockScript is the lock script with fencing.
//
//	KEYS  the resources' keys, their counters
//	ARGV  token, ttl in ms, proposal, life of the counters in ms
//	n     of 1 or more: all keys hold my token, and all counters are n
//
// The other answers are those of the lock script.
var fencedLockScript = quarantine.Grants(node.NewScript("fencedLock", fences.MaxLua+`
local n = #KEYS / 2
local at, proposal, keep = n, tonumber(ARGV[3]), ARGV[4]
`+fences.GrantOneLua+lookLua+`
if longest then return {longest, holder, owner} end
`+fences.GrantLua+`
return fence
`, fences.Decode(decodeLock)))

// newFencing returns the fencing of a lock on these resources, whose counters live for so
// long.
func newFencing(prefix string, resources []string, keys []any, life time.Duration) *fencing {
	f := &fencing{life: serverMillis(life)}
	f.keys, f.counters = counterKeys(prefix, resources, keys)
	return f
}

// counterKeys returns the resources' keys with their counters behind them, and the latter
// alone.
func counterKeys(prefix string, resources []string, keys []any) (all, counters []any) {
	all = make([]any, 2*len(keys))
	copy(all, keys)
	counters = all[len(keys):]
	for i, res := range resources {
		counters[i] = prefix + reservedMark + fences.Mark + res
	}
	return all, counters
}

// fencedLockArgs has the arguments of a lock request, before it is sent, go on with what
// fencing takes.
func fencedLockArgs(args []any, proposal int64, f *fencing) []any {
	return append(args, proposal, f.life)
}

func fencedLockCommand(args []any, f *fencing) node.Command {
	return node.Command{Script: fencedLockScript, Keys: f.keys, Args: args}
}

// raiseScript sets the counters of a lock to a fence that is not below them.
//
//	KEYS  the resources' keys, their counters
//	ARGV  token, fence, life of the counters in ms
//	n     all keys hold my token, and all counters are n, the fence
//	0     refused: a key does not hold my token, or a counter is above the fence;
//	      nothing was changed
var raiseScript = node.NewScript("raise", fences.RaiseLua, fences.Decode(func(reply any) node.Outcome {
	if reply == int64(0) {
		return node.Outcome{Stance: node.No, Err: errNotRaised}
	}
	return node.Unexpected("raise", reply)
}))

// raiseCommand raises the counters to a fence. args are the lock request's.
func raiseCommand(args []any, fence int64, f *fencing) node.Command {
	return node.Command{Script: raiseScript, Keys: f.keys, Args: []any{args[0], fence, f.life}}
}

// keepFence has an extension or a repair keep the counters, too; f is nil without fencing.
func keepFence(cmd node.Command, f *fencing) node.Command {
	if f != nil {
		cmd.Keys, cmd.Args = f.keys, append(cmd.Args, f.fence, f.life)
	}
	return cmd
}

// queueScript is the lock script for a client that waits: what is refused is put
// in line for the resources that another token holds, in the same step, so that
// no release can come between; what is granted leaves the line. A client that asks by
// turn is also refused, and put in line, while a free resource is reserved for another.
//
//	KEYS  the resources' keys, their bells
//	ARGV  token, ttl in ms, the client's channel, for how long it has waited in µs,
//	      life of the line in ms, "1" if it asks by turn
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
local n, fence = #KEYS / 2, 1
`+lookLua+lines.QueueLua(grantLua), lines.DecodeQueue(decodeLock)))

// fencedQueueScript is the queue script with fencing. Its answer to a grant is that of
// fencedLockScript.
//
//	KEYS  the resources' keys, their bells, their counters
//	ARGV  as the queue script, then proposal, life of the counters in ms
var fencedQueueScript = quarantine.Grants(node.NewScript("fencedQueue", fences.MaxLua+`
local n = #KEYS / 3
local at, proposal, keep = 2 * n, tonumber(ARGV[7]), ARGV[8]
`+lookLua+lines.QueueLua(fences.GrantLua), lines.DecodeQueue(fences.Decode(decodeLock))))

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
