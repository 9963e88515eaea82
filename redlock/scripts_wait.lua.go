package redlock

import (
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// The line of a resource on a node: a sorted set of those that wait for it there,
// each by the channel on which it listens, the one that has waited longest first.
// It is only a hint as to who is to be told of a release: no script grants or
// refuses a lock because of it. Its bell is a key that exists while the line may not
// be empty. It is there for speed: a release finds out with the DEL that it makes
// anyway whether it has to look. For the same reason the line's name is made from
// the bell's, rather than being another key in every release. (Redis asks scripts to
// name their keys for the sake of Redis Cluster, which no node is part of.)
const bellMark, bellEnd, lineLua = "w:", ":b", `.. 'l'`

// A reservation is a key beside the bell that names the client that was told of a release,
// for as long as that one should need to come. It is a courtesy: only a client that asks
// by turn gives way to it. One that asks because it was told, because its retry delay or
// the reservation is over, or by TryLock, does not look at it.
const reservationLua = `.. 'r'`

// reserveFor is the life of a reservation, in ms: longer than a round trip from far away.
// A client that was told and has hung costs those that ask by turn so long, once.
const reserveFor = "100"

// channelMark begins the channels' names. Each process listens on one of its own, so
// that a release wakes one process and not all.
const channelMark = "c:"

// maxLine bounds a line, in which dead processes stay until a release finds that they
// do not listen. Of a line that is full only the first keptOfFull stay: whoever has
// waited longest must not be dropped because of those that came later. They are taken
// out and put back, since a command that drops the last would be one more right that a
// user needs; and a hundred at a time, so that this is done once for a hundred.
const maxLine, keptOfFull = "1000", "900"

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
`+queueLua(grantLua), decodeQueue(decodeLock)))

// fencedQueueScript is the queue script with fencing. Its answer to a grant is that of
// fencedLockScript.
//
//	KEYS  the resources' keys, their bells, their counters, then the session's tombstone
//	ARGV  as the queue script, but before the generation: proposal, life of the
//	      counters in ms
var fencedQueueScript = quarantine.Grants(node.NewScript("fencedQueue", maxFenceLua+`
local n = (#KEYS - 1) / 3
local at, proposal, keep = 2 * n, tonumber(ARGV[7]), ARGV[8]
`+queueLua(fenceLua), decodeQueue(decodeFenced(decodeLock))))

// queueLua is the rest of both: fence is what a grant is to say.
func queueLua(grant string) string {
	return node.StaleLua + lookLua + `
if not longest and mine < n and ARGV[6] == '1' then
  for i = 1, n do
    local reservation = KEYS[n + i]` + reservationLua + `
    local whose = redis.call('GET', reservation)
    if whose and whose ~= ARGV[3] then
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
// and has the lock or is in line again.
const endReservationLua = `if redis.call('GET', KEYS[n + i]` + reservationLua + `) == ARGV[3] then
      redis.call('DEL', KEYS[n + i]` + reservationLua + `)
    end`

func decodeQueue(decode func(any) node.Outcome) func(any) node.Outcome {
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

// tellLua ends a script that has freed the resources in the table rung, whose
// bells it has rung, and whose answer is held. It takes the first out of each
// line and tells it, with a message of the release's name and the key, and reserves the
// resource for it. One that does not listen any more is passed over. The answer becomes
// {held, told, …}: for every resource the channel that was told, empty if nobody was in
// line, '!' if somebody is but the server refuses to tell it, or '=' and a channel if the
// resource is still reserved for that one: it was told of an earlier release and is on its
// way, while another client, which did not give way, has had the lock. To tell the next one
// now would pass over those that are far away.
func tellLua(name string) string {
	return `
if not rung then return held end
local answer, name = {held}, ` + name + `
for i = 1, n do
  local told, line = '', KEYS[n + i]` + lineLua + `
  local whose = rung[i] and redis.pcall('GET', KEYS[n + i]` + reservationLua + `)
  if type(whose) == 'string' then told = '` + stillReserved + `' .. whose end
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

// addBells puts the resources' keys and their bells into space, which has room for them.
func addBells(space []any, prefix string, resources []string, keys []any) {
	copy(space, keys)
	for i, res := range resources {
		space[len(keys)+i] = prefix + reservedMark + bellMark + res + bellEnd
	}
}

// releaseNameLua names a release by a digest of its token, as tokens.Digest does.
const releaseNameLua = `string.sub(redis.sha1hex(ARGV[1]), 1, 12)`

// decodeMessage reads what is published of a release: the digest of its token, and the
// resource's key.
func decodeMessage(payload string) (key, digest string, ok bool) {
	if len(payload) <= tokens.DigestLen {
		return "", "", false
	}
	return payload[tokens.DigestLen:], payload[:tokens.DigestLen], true
}

// refusedToTell and stillReserved are what tellLua says instead of a channel, and ahead of
// one.
const refusedToTell, stillReserved = "!", "="

// passScript is for a client that has no use for a release, or waits no more: what is
// reserved for it is not any more, and if the resource is free, the next in line is told.
//
//	KEYS  the resource's key, its bell
//	ARGV  the name of the release ("": nobody is told), the client's channel, "1" if it
//	      leaves the line
//	0, {0, told}  as the unlock script
var passScript = node.NewScript("pass", `
local n, held, rung = 1, 0, false
local reservation = KEYS[2]`+reservationLua+`
if redis.call('GET', reservation) == ARGV[2] then redis.call('DEL', reservation) end
if ARGV[3] == '1' then redis.pcall('ZREM', KEYS[2]`+lineLua+`, ARGV[2]) end
if ARGV[1] ~= '' and redis.call('EXISTS', KEYS[1]) == 0 and redis.call('DEL', KEYS[2]) == 1 then rung = {true} end
`+tellLua(`ARGV[1]`), decodeTold("pass"))

// passCommand is for one resource; its release has the name, the digest of the token.
func passCommand(keys []any, channel any, name string, leave bool) node.Command {
	return node.Command{Script: passScript, Keys: keys, Args: []any{name, channel, leave}}
}

// decodeTold reads the answer of a script that ends with tellLua.
func decodeTold(name string) func(any) node.Outcome {
	held := decodeHeld(name)
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
