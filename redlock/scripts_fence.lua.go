package redlock

import (
	"time"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
)

// Fencing. Next to its lock every resource has a counter, a key that outlives the
// lock. A grant raises the counters of all its resources to one value, which is
// above all that they have been; see fence.go for what is made of it.
//
// Lua's numbers are exact up to 2^53, and its tostring and .. show 14 digits of
// them: a counter is written with %.0f, and one that has reached the end grants
// nothing.
const counterMark = "f:"

// fenceLua is grantLua with fencing. It needs: at, the number of the last key
// before the counters; proposal, what the counters are to become if that is more
// than they are, and at most a second ahead of the node's clock: a client whose clock
// is wrong by years must not use the counter up; keep, their life in ms.
//
// Where there is no counter, one that was there may have been lost, and a clock has to
// stand in for it. The proposal does, unless it is more than a second off the node's clock,
// ahead or behind; then the node's clock does. Not to the microsecond: all nodes are to
// arrive at one number, so that it takes one round trip.
//
// A request that runs again, when all keys hold the token, says what the first has
// said, or nothing. The counters first: a write that the server refuses then leaves
// no key.
const fenceLua = `
local top, low = 0, maxFence
for i = 1, n do
  local c = tonumber(redis.call('GET', KEYS[at + i]) or 0)
  if not c or not (c < maxFence) then
    return redis.error_reply('NOFENCE ' .. KEYS[at + i] .. ' is no counter, or has reached its end')
  end
  top, low = math.max(top, c), math.min(low, c)
end
local fence = top + 1
if mine == n then
  if low < top or top < 1 then return redis.error_reply('NOFENCE counters were lost: ' .. KEYS[at + 1]) end
  return top
end
if proposal > fence or low < 1 then
  local now = redis.call('TIME')
  local micros = now[1] * 1000000 + now[2]
  if proposal > micros + 1000000 then proposal = 0 end
  if low < 1 and proposal < micros - 1000000 then proposal = now[1] * 1000000 end
  fence = math.max(fence, proposal)
end
local text = string.format('%.0f', fence)
for i = 1, n do redis.call('SET', KEYS[at + i], text, 'PX', keep) end
for i = 1, n do redis.call('SET', KEYS[i], ARGV[1], 'NX', 'PX', ARGV[2]) end`

const (
	maxFence    = 1<<53 - 1
	maxFenceLua = `
local maxFence = 9007199254740991`
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
// The other answers are those of the lock script. One resource whose counter is behind
// the proposal, the common case, takes five calls.
var fencedLockScript = quarantine.Grants(node.NewScript("fencedLock", maxFenceLua+`
local n = (#KEYS - 1) / 2
local at, proposal, keep = n, tonumber(ARGV[3]), ARGV[4]
`+node.StaleLua+`
if n == 1 then
  local c = tonumber(redis.call('GET', KEYS[2]) or 0)
  if c and c < proposal then
    local now = redis.call('TIME')
    now = now[1] * 1000000 + now[2]
    if proposal <= now + 1000000 and (c > 0 or proposal >= now - 1000000)
      and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
      local done = redis.pcall('SET', KEYS[2], ARGV[3], 'PX', keep)
      if not done.err then return proposal end
      redis.call('DEL', KEYS[1]) -- The user may read the counter but not write it.
      return done
    end
  end
end
`+lookLua+`
if longest then return {longest, holder, owner} end
`+fenceLua+`
return fence
`, decodeFenced(decodeLock)))

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
		counters[i] = prefix + reservedMark + counterMark + res
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
var raiseScript = node.NewScript("raise", `
local n = #KEYS / 2
for i = 1, n do
  if redis.pcall('GET', KEYS[i]) ~= ARGV[1] then return 0 end
  local c = tonumber(redis.call('GET', KEYS[n + i]) or 0)
  if not c or not (c <= tonumber(ARGV[2])) then return 0 end
end
for i = 1, n do redis.call('SET', KEYS[n + i], ARGV[2], 'PX', ARGV[3]) end
return tonumber(ARGV[2])
`, decodeFenced(func(reply any) node.Outcome {
	if reply == int64(0) {
		return node.Outcome{Stance: node.No, Err: ErrTaken}
	}
	return node.Unexpected("raise", reply)
}))

// raiseCommand raises the counters to a fence. args are the lock request's.
func raiseCommand(args []any, fence int64, f *fencing) node.Command {
	return node.Command{Script: raiseScript, Keys: f.keys, Args: []any{args[0], fence, f.life}}
}

// keepFenceLua has counters live on, and sets those that are below the fence to it, or
// have been lost. It needs at, fence and keep. The PEXPIRE comes first for a server that
// is out of memory; see node.Tombstone.
const keepFenceLua = `
for i = 1, n do
  redis.call('PEXPIRE', KEYS[at + i], keep)
  local c = tonumber(redis.pcall('GET', KEYS[at + i]) or 0)
  if c and c < tonumber(fence) then redis.call('SET', KEYS[at + i], fence, 'PX', keep) end
end`

// keepFence has an extension or a repair keep the counters, too; f is nil without fencing.
func keepFence(cmd node.Command, f *fencing) node.Command {
	if f != nil {
		cmd.Keys, cmd.Args = f.keys, append(cmd.Args, f.fence, f.life)
	}
	return cmd
}

// decodeFenced reads the fence of a grant; decode reads the other answers.
func decodeFenced(decode func(any) node.Outcome) func(any) node.Outcome {
	return func(reply any) node.Outcome {
		if fence, ok := reply.(int64); ok && fence > 0 && fence <= maxFence {
			return node.Outcome{Stance: node.Yes, Fence: fence}
		}
		return decode(reply)
	}
}
