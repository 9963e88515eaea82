// Package lines knows the line of a resource on a node: how scripts put a client into it, take it out, and tell the
// first of a release. It is Lua, for the scripts of package redlock, and what the scripts' answers say of lines. It
// does not know who may have a lock.
package lines

import (
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// The line of a resource on a node: a sorted set of those that wait for it there,
// each by the channel on which it listens, the one that has waited longest first.
// It is only a hint as to who is to be told of a release: no script grants or
// refuses a lock because of it. Its bell is a key that exists while the line may not
// be empty. It is there for speed: a release finds out with the DEL that it makes
// anyway whether it has to look. For the same reason the line's name is made from
// the bell's, rather than being another key in every release. (Redis asks scripts to
// name their keys for the sake of Redis Cluster, where a prefix with a hash tag has all of
// them in one slot. On a server that refuses the others, there are no lines.)
const bellMark, bellEnd, lineLua = "w:", ":b", `.. 'l'`

// A reservation is a key beside the bell that names the client that was told of a release,
// for as long as that one should need to come. It is a courtesy: only a client that asks
// by turn gives way to it. One that asks because it was told, because its retry delay or
// the reservation is over, or by TryLock, does not look at it.
const reservationLua = `.. 'r'`

// reserveFor is the life of a reservation, in ms: longer than a round trip from far away.
// A client that was told and has hung costs those that ask by turn so long, once.
const reserveFor = "100"

// ChannelMark begins the channels' names. Each process listens on one of its own, so
// that a release wakes one process and not all.
const ChannelMark = "c:"

// maxLine bounds a line, in which dead processes stay until a release finds that they
// do not listen. Of a line that is full only the first keptOfFull stay: whoever has
// waited longest must not be dropped because of those that came later. They are taken
// out and put back, since a command that drops the last would be one more right that a
// user needs; and a hundred at a time, so that this is done once for a hundred.
const maxLine, keptOfFull = "1000", "900"

// QueueLua is the part of a lock script, of a client that waits, after the look at who holds the resources. It
// needs: n, how many there are; mine, taken, longest, holder and owner, what the look has found; fence, what a grant
// is to say. KEYS[n + i] is the bell of resource i; ARGV are those of the queue script. grant makes the lock.
func QueueLua(grant string) string {
	return `
if not longest and mine < n and ARGV[6] == '1' then
  for i = 1, n do
    local reservation = KEYS[n + i]` + reservationLua + `
    local whose = redis.pcall('GET', reservation)
    if type(whose) == 'string' and whose ~= ARGV[3] then
      taken[#taken + 1] = i
      longest = math.max(longest or 0, redis.call('PTTL', reservation))
    end
  end
end
if not longest then
  for i = 1, n do
    redis.pcall('ZREM', KEYS[n + i]` + lineLua + `, ARGV[3])
    ` + endReservationLua + `
  end
  ` + grant + `
  return fence
end
local queued, why = pcall(function()
  local now = redis.call('TIME')
  local place = string.format('%.0f', now[1] * 1000000 + now[2] - ARGV[4])
  for _, i in ipairs(taken) do
    local bell, line = KEYS[n + i], KEYS[n + i]` + lineLua + `
    ` + endReservationLua + `
    redis.call('ZADD', line, place, ARGV[3])
    local life, dropped = math.max(redis.call('PTTL', line), tonumber(ARGV[5])), false
    if redis.call('ZCARD', line) > ` + maxLine + ` then
      local all, kept = redis.call('ZPOPMIN', line, ` + maxLine + `), {}
      redis.call('DEL', line)
      dropped = true
      for j = 1, 2 * ` + keptOfFull + `, 2 do
        kept[j], kept[j + 1] = all[j + 1], all[j]
        if all[j] == ARGV[3] then dropped = false end
      end
      redis.call('ZADD', line, unpack(kept))
    end
    redis.call('PEXPIRE', line, life)
    redis.call('SET', bell, '1', 'PX', life)
    if dropped then error('the line is full') end
  end
end)
if queued then return {longest, holder, owner} end
if type(why) == 'table' then why = why.err end
return {longest, holder, owner, tostring(why)}
`
}

// endReservationLua ends the reservation of resource i for the client itself: it has come,
// and has the lock or is in line again. Where a server refuses scripts keys that they were not
// given, there is none: whoever waits polls, and must not be kept from its lock.
const endReservationLua = `if redis.pcall('GET', KEYS[n + i]` + reservationLua + `) == ARGV[3] then
      redis.call('DEL', KEYS[n + i]` + reservationLua + `)
    end`

// DecodeQueue reads the answer of a script with QueueLua: that of a lock script, which decode reads, and maybe why
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

// TellLua ends a script that has freed the resources in the table rung, whose
// bells it has rung, and whose answer is held. It takes the first out of each
// line and tells it, with a message of the release's name and the key, and reserves the
// resource for it. One that does not listen any more is passed over. The answer becomes
// {held, told, …}: for every resource the channel that was told, empty if nobody was in
// line, '!' if somebody is but the server refuses to tell it, or '=' and a channel if the
// resource is still reserved for that one: it was told of an earlier release and is on its
// way, while another client, which did not give way, has had the lock. To tell the next one
// now would pass over those that are far away.
func TellLua(name string) string {
	return `
if not rung then return held end
local answer, name = {held}, ` + name + `
for i = 1, n do
  local told, line = '', KEYS[n + i]` + lineLua + `
  local whose = rung[i] and redis.pcall('GET', KEYS[n + i]` + reservationLua + `)
  if type(whose) == 'string' then told = '` + StillReserved + `' .. whose end
  while rung[i] and told == '' do
    local first = redis.pcall('ZPOPMIN', line)
    if not first[1] then break end
    local heard = redis.pcall('PUBLISH', first[1], name .. KEYS[i])
    if type(heard) ~= 'number' then
      told = '!'
    elseif heard > 0 then
      told = first[1]
      redis.pcall('SET', KEYS[n + i]` + reservationLua + `, told, 'PX', ` + reserveFor + `)
    end
  end
  answer[i + 1] = told
  local life = redis.pcall('PTTL', line)
  if rung[i] and type(life) == 'number' and life > 0 then redis.pcall('SET', KEYS[n + i], '1', 'PX', life) end
end
return answer
`
}

// ReleaseNameLua names a release by a digest of its token, as tokens.Digest does.
const ReleaseNameLua = `string.sub(redis.sha1hex(ARGV[1]), 1, 12)`

const (
	// RefusedToTell is what TellLua says instead of a channel if the server refuses to tell.
	RefusedToTell = "!"

	// StillReserved is what it says ahead of a channel for which the resource is still reserved.
	StillReserved = "="
)

// PassLua is all of the pass script.
var PassLua = `
local n, held, rung = 1, 0, false
local reservation = KEYS[2]` + reservationLua + `
if redis.pcall('GET', reservation) == ARGV[2] then redis.call('DEL', reservation) end
if ARGV[3] == '1' then redis.pcall('ZREM', KEYS[2]` + lineLua + `, ARGV[2]) end
if ARGV[1] ~= '' and redis.call('EXISTS', KEYS[1]) == 0 and redis.call('DEL', KEYS[2]) == 1 then rung = {true} end
` + TellLua(`ARGV[1]`)

// AddBells puts the resources' keys and their bells into space, which has room for them.
func AddBells(space []any, prefix, reserved string, resources []string, keys []any) {
	copy(space, keys)
	for i, res := range resources {
		space[len(keys)+i] = Bell(prefix, reserved, res)
	}
}

// Bell returns the key of a resource's bell: with the prefix, in the key space that reserved marks.
func Bell(prefix, reserved, resource string) string {
	return prefix + reserved + bellMark + resource + bellEnd
}

// DecodeMessage reads what is published of a release: the digest of its token, and the
// resource's key.
func DecodeMessage(payload string) (key, digest string, ok bool) {
	if len(payload) <= tokens.DigestLen {
		return "", "", false
	}
	return payload[tokens.DigestLen:], payload[:tokens.DigestLen], true
}

// DecodeTold reads the answer of a script that ends with TellLua; held reads the part of it that is not about lines.
func DecodeTold(name string, held func(any) node.Outcome) func(any) node.Outcome {
	return func(reply any) node.Outcome {
		r, ok := reply.([]any)
		if !ok {
			return held(reply)
		}
		if len(r) < 2 {
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
