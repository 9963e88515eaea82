package redlock

import (
	"time"

	"github.com/seed6c881748/redlock/internal/fences"
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
//	KEYS  the resources' keys, their counters, then the session's tombstone
//	ARGV  token, ttl in ms, proposal, life of the counters in ms, generation of the
//	      connection
//	n     of 1 or more: all keys hold my token, and all counters are n
//
// The other answers are those of the lock script.
var fencedLockScript = quarantine.Grants(node.NewScript("fencedLock", fences.MaxLua+`
local n = (#KEYS - 1) / 2
local at, proposal, keep = n, tonumber(ARGV[3]), ARGV[4]
`+node.StaleLua+fences.GrantOneLua+lookLua+`
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
		return node.Outcome{Stance: node.No, Err: ErrTaken}
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
