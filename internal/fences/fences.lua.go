// Package fences knows the counters of fencing: how scripts raise them on a node, keep them, and read them; and what
// fence follows from the counters of a quorum.
package fences

import "github.com/seed6c881748/redlock/internal/node"

// Mark begins the names of counters. Next to its lock every resource has a counter, a key that outlives the
// lock. A grant raises the counters of all its resources to one value, which is
// above all that they have been; see Grants for what is made of it.
//
// Lua's numbers are exact up to 2^53, and its tostring and .. show 14 digits of
// them: a counter is written with %.0f, and one that has reached the end grants
// nothing.
const Mark = "f:"

// Max is the largest fence; MaxLua is that for the scripts, as maxFence.
const (
	Max    = 1<<53 - 1
	MaxLua = `
local maxFence = 9007199254740991`
)

// GrantLua is what a lock script grants with, with fencing. It needs: n, the number of resources; mine, of
// how many the keys hold the token; maxFence, of MaxLua; at, the number of the last key
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
const GrantLua = `
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

// GrantOneLua grants one resource whose counter is behind the proposal, the common case, in five calls. It goes before
// all else of a script with GrantLua, and needs the same but mine.
const GrantOneLua = `
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
end`

// RaiseLua is all of the raise script.
const RaiseLua = `
local n = #KEYS / 2
for i = 1, n do
  if redis.pcall('GET', KEYS[i]) ~= ARGV[1] then return 0 end
  local c = tonumber(redis.call('GET', KEYS[n + i]) or 0)
  if not c or not (c <= tonumber(ARGV[2])) then return 0 end
end
for i = 1, n do redis.call('SET', KEYS[n + i], ARGV[2], 'PX', ARGV[3]) end
return tonumber(ARGV[2])`

// KeepLua has counters live on, and sets those that are below the fence to it, or
// have been lost. It needs at, fence and keep. The PEXPIRE comes first: a server that
// is out of memory refuses a script's SET, unless a write that needs no memory went before it.
const KeepLua = `
for i = 1, n do
  redis.call('PEXPIRE', KEYS[at + i], keep)
  local c = tonumber(redis.pcall('GET', KEYS[at + i]) or 0)
  if c and c < tonumber(fence) then redis.call('SET', KEYS[at + i], fence, 'PX', keep) end
end`

// Decode reads the fence of a grant; decode reads the other answers.
func Decode(decode func(any) node.Outcome) func(any) node.Outcome {
	return func(reply any) node.Outcome {
		if fence, ok := reply.(int64); ok && fence > 0 && fence <= Max {
			return node.Outcome{Stance: node.Yes, Fence: fence}
		}
		return decode(reply)
	}
}
