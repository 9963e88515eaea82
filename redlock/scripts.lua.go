package redlock

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// This file is the only one that knows Lua and what the scripts answer.
//
// A lock is one string key per resource, prefix+resource, whose value is the
// token: the layout of node-redlock and redsync, so that fleets that mix them
// with this library exclude each other. Everything else that the library
// stores has reservedMark in its key.
const reservedMark = "__redlock__:"

// A script is a Lua program that runs atomically on one node.
type script struct {
	name              string
	shaArg, sourceArg any // boxed, for redigo
	decode            func(reply any) outcome

	// session: it also takes the session's tombstone as its last key and the
	// connection's generation as its last argument.
	session bool
}

// An outcome is what a reply to a script means for the round.
type outcome struct {
	stance    stance
	err       error // nil for a yes; ErrTaken or ErrLost for a no; else why there is no answer
	stale     bool  // the script did nothing, because the connection has been given up
	abstained bool  // the script did nothing, because of the quarantine
	holder    string
	holderTTL time.Duration
	value     string   // inspect: the token's beginning; clean: which keys it removed
	fence     int64    // fencedLock, fencedQueue, raise: of a yes, what the counters are exactly
	told      []string // unlock, leave, pass: by resource, who was told; nil: nobody is in line
	unqueued  string   // queue: why the waiter was not put in line
}

func newScript(name, source string, decode func(any) outcome) *script {
	sum := sha1.Sum([]byte(source))
	sha := hex.EncodeToString(sum[:])
	return &script{name: name, shaArg: sha, sourceArg: source, decode: decode}
}

// Keys of another type: GET fails for them. Where a script asks whether a key
// holds its token it uses pcall, and the answer is no: with call, one such key
// would keep a release from deleting the others, and a clean-up from ending.

func (s *script) ofSession() *script {
	s.session = true
	s.decode = decodeGuarded(s.decode)
	return s
}

// The marker of a node says for which client configuration, its fingerprint, it has been
// set up, and in which run of the server:
//
//	run_id since fingerprint    since: when the run was first seen, by the node's clock in
//	                            ms; 0: it may vote
//
// quarantineLua comes before a script that grants. Without its marker the node is new or has
// lost its data, with the one of another run it has restarted: then it does not grant
// until the time of quarantine is over. It must be looked up where the lock is granted:
// what is looked up once per connection fails behind a proxy that changes the server
// under its clients.
//
//	KEYS  …, the marker
//	ARGV  …, '1' to do no more than look, the fingerprint, the time of quarantine in ms
//	{'Q', ms}           abstained, for so long
//	{'F', fingerprint}  refused: the node has been set up for another configuration
//	1                   after a look
const quarantineLua = runLua + `
  local state = redis.pcall('GET', marker)
  if type(state) == 'table' and not string.find(state.err, 'WRONGTYPE', 1, true) then return state end
  if type(state) ~= 'string' then state = '' end
  local seen, since, other = string.match(state, '^([0-9a-f]+) (%d+) (.*)$')
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  since = tonumber(since)
  if seen ~= run or since > now then
    redis.call('SET', marker, string.format('%s %.0f %s', run, now, other or print))
    since = now
  end
  if other and other ~= print then return {'F', other} end
  if since + span > now then return {'Q', since + span - now} end
  if since > 0 then redis.call('SET', marker, run .. ' 0 ' .. print) end
`

const guardLua = `
local marker, span, print, look = table.remove(KEYS), tonumber(table.remove(ARGV)), table.remove(ARGV), table.remove(ARGV)
`

// slowScripts are the scripts that grant, each after a look.
var slowScripts = withGuard(guardLua + quarantineLua + `
if look == '1' then return 1 end
`)

// fastScripts are the same for a server in this run. To look takes as long as all the
// rest of a lock, because of the INFO. But servers from Redis 7 on forget their scripts
// when they end. So the text of a fast script names the run for which it was made, and
// where the server knows the text, and has the marker of that run, that is the run.
//
// For that to be true, no text may get into another run whose marker is still the old
// one, as it is after a restart from a snapshot. A proxy can hide a restart at any
// moment. So a fast text is sent only in the handshake, after a look that succeeded, and
// by an EVAL that looks itself, and so corrects the marker in the same step; never by
// SCRIPT LOAD, and not when the server has forgotten it: then the slow one serves. The
// text is one marker's: the look has corrected no other. And a server caches a script
// before it runs it, also one that then fails: but not one with a shebang, which it
// refuses before, where it refuses writes.
func fastScripts(run, marker, fingerprint string) map[*script]*script {
	return withGuard("#!lua\n-- " + digest(marker+"\n"+fingerprint) + guardLua + `
if look == '1' or redis.pcall('GET', marker) ~= '` + run + ` 0 ' .. print then
` + quarantineLua + `
if look == '1' then return 1 end
end
`)
}

func withGuard(guard string) map[*script]*script {
	guarded := make(map[*script]*script)
	for _, s := range handshakeScripts {
		if s.session {
			guarded[s] = newScript(s.name, guard+s.sourceArg.(string), s.decode)
		}
	}
	return guarded
}

func decodeGuarded(decode func(any) outcome) func(any) outcome {
	return func(reply any) outcome {
		if r, ok := reply.([]any); ok && len(r) == 2 {
			why, _ := r[0].([]byte)
			switch detail := r[1].(type) {
			case int64:
				if string(why) == "Q" && detail > 0 {
					left := millis(detail)
					return outcome{err: &quarantineError{left}, holderTTL: left, abstained: true}
				}
			case []byte:
				if string(why) == "F" {
					return outcome{err: fmt.Errorf("the node is set up for another configuration, %s; see Admit", detail), abstained: true}
				}
			}
		}
		return decode(reply)
	}
}

const runLua = `
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:([0-9a-f]+)')
if not run or #run ~= 40 or run == string.rep(string.sub(run, 1, 1), 40) then
  return redis.error_reply('NOPERM quarantine takes the right to INFO, and a server that shows its run_id')
end
`

// runScript answers the run_id.
var runScript = newScript("run", runLua+`
return run
`, func(reply any) outcome {
	if run, ok := reply.([]byte); ok && isRun(string(run)) {
		return outcome{stance: yes, value: string(run)}
	}
	return unexpected("run", reply)
})

// isRun reports whether this is the run_id of a server that tells the truth about it.
func isRun(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == "" && strings.Trim(s, s[:1]) != ""
}

// admitScript ends the quarantine of a run, and adopts the configuration.
//
//	KEYS  the marker
//	ARGV  fingerprint, run_id
//	1     done
//	0     refused: it is another run
var admitScript = newScript("admit", runLua+`
if run ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], run .. ' 0 ' .. ARGV[1])
return 1
`, decodeHeld("admit"))

// handshakeScripts are loaded into every new connection's server. SCRIPT FLUSH
// or a restart behind a proxy may still lose them at any moment.
var handshakeScripts = []*script{
	lockScript, fencedLockScript, queueScript, fencedQueueScript, raiseScript, extendScript, repairScript,
	unlockScript, leaveScript, undoScript, passScript, cleanScript, inspectScript, runScript, admitScript,
}

// digestLua shortens a token to what may be shown to others: a token is what
// it takes to release a lock. digest in claim.go is its twin.
const digestLua = `string.sub(redis.sha1hex(v), 1, 12)`

// lockScript sets every key to the token, or none.
//
//	KEYS  the resources' keys, then the session's tombstone
//	ARGV  token, ttl in ms, generation of the connection
//	1               all keys hold my token: set now, or they did already (then nothing
//	                is changed: a request that runs twice is harmless)
//	{pttl, digest}  refused: the holder that keeps a key longest; pttl -1: no expiry
//	0               refused: a newer connection of this session has begun, and this
//	                request was given up; see connect.go
//
// One resource, the common case, takes two calls. SET NX rather than MGET and
// SET: MGET shows a key of another type as missing, and SET would overwrite it.
var lockScript = newScript("lock", `
local n = #KEYS - 1
`+bornLua+`
if n == 1 and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
`+lookLua+`
if longest then return {longest, holder} end
`+grantLua+`
return 1
`, decodeLock).ofSession()

// bornLua refuses what a connection that was given up delivers late. Every script of a
// session begins with it: its last key is the tombstone, its last argument the
// generation.
const bornLua = `
local born = redis.call('GET', KEYS[#KEYS])
if born and tonumber(born) > tonumber(ARGV[#ARGV]) then return 0 end`

// lookLua counts the resources that hold the token, lists those that hold another
// one, and finds out which of these is kept longest, and for how long.
const lookLua = `
local mine, taken, longest, holder = 0, {}, false, ''
for i = 1, n do
  local v = redis.call('GET', KEYS[i])
  if v == ARGV[1] then
    mine = mine + 1
  elseif v then
    taken[#taken + 1] = i
    local left = redis.call('PTTL', KEYS[i])
    if not longest or left < 0 or (longest >= 0 and left > longest) then
      longest = left
      holder = ` + digestLua + `
    end
  end
end`

const grantLua = `
if mine < n then
  for i = 1, n do redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2]) end
end`

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
// is wrong by years must not use the counter up; keep, their life in ms. Where there
// is no counter, one that was there may have been lost, and a clock, then the node's,
// has to stand in for it.
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
if proposal > fence then
  local now = redis.call('TIME')
  now = now[1] * 1000000 + now[2]
  if proposal <= now + 1000000 then fence = proposal elseif top < 1 then fence = now end
end
local text = string.format('%.0f', fence)
for i = 1, n do redis.call('SET', KEYS[at + i], text, 'PX', keep) end
for i = 1, n do redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2]) end`

const (
	maxFence    = 1<<53 - 1
	maxFenceLua = `
local maxFence = 9007199254740991`
)

// fencedLockScript is the lock script with fencing.
//
//	KEYS  the resources' keys, their counters, then the session's tombstone
//	ARGV  token, ttl in ms, proposal, life of the counters in ms, generation of the
//	      connection
//	n     of 1 or more: all keys hold my token, and all counters are n
//
// The other answers are those of the lock script. One resource whose counter is behind
// the proposal, the common case, takes five calls.
var fencedLockScript = newScript("fencedLock", maxFenceLua+`
local n = (#KEYS - 1) / 2
local at, proposal, keep = n, tonumber(ARGV[3]), ARGV[4]
`+bornLua+`
if n == 1 then
  local c = tonumber(redis.call('GET', KEYS[2]) or 0)
  if c and c < proposal then
    local now = redis.call('TIME')
    if proposal <= now[1] * 1000000 + now[2] + 1000000 and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
      local done = redis.pcall('SET', KEYS[2], ARGV[3], 'PX', keep)
      if not done.err then return proposal end
      redis.call('DEL', KEYS[1]) -- The user may read the counter but not write it.
      return done
    end
  end
end
`+lookLua+`
if longest then return {longest, holder} end
`+fenceLua+`
return fence
`, decodeFenced(decodeLock)).ofSession()

// raiseScript sets the counters of a lock to a fence that is not below them.
//
//	KEYS  the resources' keys, their counters
//	ARGV  token, fence, life of the counters in ms
//	n     all keys hold my token, and all counters are n, the fence
//	0     refused: a key does not hold my token, or a counter is above the fence;
//	      nothing was changed
var raiseScript = newScript("raise", `
local n = #KEYS / 2
for i = 1, n do
  if redis.pcall('GET', KEYS[i]) ~= ARGV[1] then return 0 end
  local c = tonumber(redis.call('GET', KEYS[n + i]) or 0)
  if not c or not (c <= tonumber(ARGV[2])) then return 0 end
end
for i = 1, n do redis.call('SET', KEYS[n + i], ARGV[2], 'PX', ARGV[3]) end
return tonumber(ARGV[2])
`, decodeFenced(func(reply any) outcome {
	if reply == int64(0) {
		return outcome{stance: no, err: ErrTaken}
	}
	return unexpected("raise", reply)
}))

// keepFenceLua has counters live on, and sets those that are below the fence to it, or
// have been lost. It needs at, fence and keep. The PEXPIRE comes first for a server that
// is out of memory; see cleanScript.
const keepFenceLua = `
for i = 1, n do
  redis.call('PEXPIRE', KEYS[at + i], keep)
  local c = tonumber(redis.pcall('GET', KEYS[at + i]) or 0)
  if c and c < tonumber(fence) then redis.call('SET', KEYS[at + i], fence, 'PX', keep) end
end`

// decodeFenced reads the fence of a grant; decode reads the other answers.
func decodeFenced(decode func(any) outcome) func(any) outcome {
	return func(reply any) outcome {
		if fence, ok := reply.(int64); ok && fence > 0 && fence <= maxFence {
			return outcome{stance: yes, fence: fence}
		}
		return decode(reply)
	}
}

func decodeLock(reply any) outcome {
	switch r := reply.(type) {
	case int64:
		switch r {
		case 1:
			return outcome{stance: yes}
		case 0:
			return outcome{err: errStale, stale: true}
		}
	case []any:
		if len(r) != 2 {
			break
		}
		left, ok1 := r[0].(int64)
		holder, ok2 := r[1].([]byte)
		if !ok1 || !ok2 {
			break
		}
		return outcome{stance: no, err: ErrTaken, holder: string(holder), holderTTL: millis(left)}
	}
	return unexpected("lock", reply)
}

// The line of a resource on a node: a sorted set of those that wait for it there,
// each by the channel on which it listens, the one that has waited longest first.
// It is only a hint as to who is to be told of a release: no script grants or
// refuses a lock because of it. Its bell is a key that exists while the line may not
// be empty. It is there for speed: a release finds out with the DEL that it makes
// anyway whether it has to look. For the same reason the line's name is made from
// the bell's, rather than being another key in every release. (Redis asks scripts to
// name their keys for the sake of Redis Cluster, which no node is part of.)
const bellMark, bellEnd, lineLua = "w:", ":b", `.. 'l'`

// channelMark begins the channels' names. Each process listens on one of its own, so
// that a release wakes one process and not all.
const channelMark = "c:"

// maxLine bounds a line, in which dead processes stay until a release finds that they
// do not listen.
const maxLine = "1000"

// queueScript is the lock script for a client that waits: what is refused is put
// in line for the resources that another token holds, in the same step, so that
// no release can come between; what is granted leaves the line.
//
//	KEYS  the resources' keys, their bells, then the session's tombstone
//	ARGV  token, ttl in ms, the client's channel, for how long it has waited in µs,
//	      life of the line in ms, "1" if it only wants to get in line, generation of
//	      the connection
//
// It answers as the lock script does, and
//
//	{0, ""}                refused as it was asked to be: nobody holds the resources
//	{pttl, digest, error}  refused, and not in line, because of the error
//
// The place in line is the node's time less the time waited: all nodes agree on
// the order up to the differences between network delays, though no two of the
// clocks involved need agree.
var queueScript = newScript("queue", `
local n, fence = (#KEYS - 1) / 2, 1
`+queueLua(grantLua), decodeQueue(decodeLock)).ofSession()

// fencedQueueScript is the queue script with fencing. Its answer to a grant is that of
// fencedLockScript.
//
//	KEYS  the resources' keys, their bells, their counters, then the session's tombstone
//	ARGV  as the queue script, but before the generation: proposal, life of the
//	      counters in ms
var fencedQueueScript = newScript("fencedQueue", maxFenceLua+`
local n = (#KEYS - 1) / 3
local at, proposal, keep = 2 * n, tonumber(ARGV[7]), ARGV[8]
`+queueLua(fenceLua), decodeQueue(decodeFenced(decodeLock))).ofSession()

// queueLua is the rest of both: fence is what a grant is to say.
func queueLua(grant string) string {
	return bornLua + lookLua + `
if not longest and mine < n and ARGV[6] == '1' then
  longest = 0
  for i = 1, n do taken[i] = i end
end
if not longest then
  for i = 1, n do redis.pcall('ZREM', KEYS[n + i]` + lineLua + `, ARGV[3]) end
  ` + grant + `
  return fence
end
local queued, why = pcall(function()
  local now = redis.call('TIME')
  local place = string.format('%.0f', now[1] * 1000000 + now[2] - ARGV[4])
  for _, i in ipairs(taken) do
    local bell, line = KEYS[n + i], KEYS[n + i]` + lineLua + `
    redis.call('ZADD', line, place, ARGV[3])
    if redis.call('ZCARD', line) > ` + maxLine + ` then
      redis.call('ZREM', line, ARGV[3])
      error('the line is full')
    end
    local life = math.max(redis.call('PTTL', line), tonumber(ARGV[5]))
    redis.call('PEXPIRE', line, life)
    redis.call('SET', bell, '1', 'PX', life)
  end
end)
if queued then return {longest, holder} end
if type(why) == 'table' then why = why.err end
return {longest, holder, tostring(why)}
`
}

func decodeQueue(decode func(any) outcome) func(any) outcome {
	return func(reply any) outcome {
		why := ""
		if r, ok := reply.([]any); ok && len(r) == 3 {
			if text, ok := r[2].([]byte); ok {
				why, reply = string(text), r[:2]
			}
		}
		out := decode(reply)
		if out.stance == no {
			out.unqueued = why
		}
		return out
	}
}

// extendScript moves the expiry of every key to the ttl from now, or of none.
// It never creates a key and never shortens one's life. With fencing it keeps the
// counters, too.
//
//	KEYS  the resources' keys; with fencing: and their counters
//	ARGV  token, ttl in ms; with fencing: and the fence, life of the counters in ms
//	1     done
//	0     a key is another's; nothing was changed
//	-1    a key is missing, and none is another's; nothing was changed
var extendScript = newScript("extend", `
local n, fence, keep, gone = #KEYS, ARGV[3], ARGV[4], false
if fence then n = n / 2 end
for i = 1, n do
  local v = redis.pcall('GET', KEYS[i])
  if not v then gone = true elseif v ~= ARGV[1] then return 0 end
end
if gone then return -1 end
for i = 1, n do
  if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
end
if fence then
  local at = n
  `+keepFenceLua+`
end
return 1
`, func(reply any) outcome {
	if reply == int64(-1) {
		return outcome{stance: gone, err: ErrLost}
	}
	return decodeHeld("extend")(reply)
})

// repairScript gives a lock that a quorum holds its missing keys on this node, and
// the new ttl to the others. It never shortens a key's life.
//
//	KEYS  the resources' keys; with fencing: their counters; then the session's
//	      tombstone
//	ARGV  token, ttl in ms; with fencing: the fence, life of the counters in ms; then
//	      the generation of the connection
//	1     all keys hold the token
//	-1    refused: a key is another's; nothing was changed
//	0     refused as a lock request is: the connection was given up
var repairScript = newScript("repair", `
local n, fence, keep = #KEYS - 1, #ARGV == 5 and ARGV[3], ARGV[4]
if fence then n = n / 2 end
`+bornLua+`
for i = 1, n do
  local v = redis.pcall('GET', KEYS[i])
  if v and v ~= ARGV[1] then return -1 end
end
for i = 1, n do
  if not redis.call('SET', KEYS[i], ARGV[1], 'NX', 'PX', ARGV[2]) and redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
end
if fence then
  local at = n
  `+keepFenceLua+`
end
return 1
`, func(reply any) outcome {
	switch reply {
	case int64(1):
		return outcome{stance: yes}
	case int64(-1):
		return outcome{stance: no, err: ErrTaken}
	case int64(0):
		return outcome{err: errStale, stale: true}
	}
	return unexpected("repair", reply)
}).ofSession()

// tellLua ends a script that has freed the resources in the table rung, whose
// bells it has rung, and whose answer is held. It takes the first out of each
// line and tells it, with a message of digest and key. One that does not listen any
// more is passed over. The answer becomes {held, told, …}: for every resource the
// channel that was told, empty if nobody was in line, or '!' if somebody is but
// the server refuses to tell it.
const tellLua = `
if not rung then return held end
local answer = {held}
for i = 1, n do
  local told, line = '', KEYS[n + i]` + lineLua + `
  while rung[i] and told == '' do
    local first = redis.pcall('ZPOPMIN', line)
    if not first[1] then break end
    local heard = redis.pcall('PUBLISH', first[1], string.sub(redis.sha1hex(ARGV[1]), 1, 12) .. KEYS[i])
    if type(heard) ~= 'number' then told = '!' elseif heard > 0 then told = first[1] end
  end
  answer[i + 1] = told
  local life = redis.pcall('PTTL', line)
  if rung[i] and type(life) == 'number' and life > 0 then redis.pcall('SET', KEYS[n + i], '1', 'PX', life) end
end
return answer
`

// refusedToTell is what tellLua says for a server that refuses PUBLISH.
const refusedToTell = "!"

// unlockScript deletes the keys that hold the token. After it, none does. Who is
// first in line for a resource that it has freed is told.
//
//	KEYS  the resources' keys, their bells
//	ARGV  token
//	1     every key held the token
//	0     at least one was gone or another's
//	{1 or 0, told, …}  the same, and somebody may be in line; see tellLua
var unlockScript = newScript("unlock", `
local n = #KEYS / 2
local mine, rung, held = 0, false, 0
for i = 1, n do
  if redis.pcall('GET', KEYS[i]) == ARGV[1] then
    mine = mine + 1
    if redis.call('DEL', KEYS[i], KEYS[n + i]) == 2 then
      rung = rung or {}
      rung[i] = true
    end
  end
end
if mine == n then held = 1 end
`+tellLua, decodeTold("unlock"))

// leaveScript is a release that leaves the keys for a time, so that nobody gets
// the lock before it is over. It never lengthens a key's life. Who is first in line
// is told all the same: refused once more, it knows when to come back.
//
//	KEYS  the resources' keys, their bells
//	ARGV  token, time in ms
//
// It answers as the unlock script does.
var leaveScript = newScript("leave", `
local n = #KEYS / 2
local mine, rung, held = 0, false, 0
for i = 1, n do
  if redis.pcall('GET', KEYS[i]) == ARGV[1] then
    mine = mine + 1
    if redis.call('PTTL', KEYS[i]) > tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
    if redis.call('DEL', KEYS[n + i]) == 1 then
      rung = rung or {}
      rung[i] = true
    end
  end
end
if mine == n then held = 1 end
`+tellLua, decodeTold("leave"))

// passScript is for a client that has no use for a release, or waits no more: if
// the resource is free, it may be because of one that this client was told of, and
// the next in line is told.
//
//	KEYS  the resource's key, its bell
//	ARGV  a text that names the release, the client's channel, "1" if it leaves the line
//	0, {0, told}  as the unlock script
var passScript = newScript("pass", `
local n, held, rung = 1, 0, false
if ARGV[3] == '1' then redis.pcall('ZREM', KEYS[2]`+lineLua+`, ARGV[2]) end
if redis.call('EXISTS', KEYS[1]) == 0 and redis.call('DEL', KEYS[2]) == 1 then rung = {true} end
`+tellLua, decodeTold("pass"))

// undoScript is the release of an attempt that failed: it deletes the keys that
// hold the token, and tells nobody. If it did, every failure in a contest would
// set off the next.
//
//	KEYS  the resources' keys
//	ARGV  token
//	1     every key held it
//	0     at least one was gone or another's
var undoScript = newScript("undo", `
local mine = 0
for i = 1, #KEYS do
  if redis.pcall('GET', KEYS[i]) == ARGV[1] then
    redis.call('DEL', KEYS[i])
    mine = mine + 1
  end
end
if mine == #KEYS then return 1 end
return 0
`, decodeHeld("undo"))

// decodeTold reads the answer of a script that ends with tellLua.
func decodeTold(name string) func(any) outcome {
	held := decodeHeld(name)
	return func(reply any) outcome {
		r, ok := reply.([]any)
		if !ok {
			return held(reply)
		}
		if len(r) < 2 {
			return unexpected(name, reply)
		}
		out := held(r[0])
		for _, told := range r[1:] {
			channel, ok := told.([]byte)
			if !ok {
				return unexpected(name, reply)
			}
			out.told = append(out.told, string(channel))
		}
		return out
	}
}

// decodeHeld reads the 1 of a script that found its token and the 0 of one
// that did not.
func decodeHeld(name string) func(any) outcome {
	return func(reply any) outcome {
		switch reply {
		case int64(1):
			return outcome{stance: yes}
		case int64(0):
			return outcome{stance: no, err: ErrLost}
		}
		return unexpected(name, reply)
	}
}

// cleanScript settles the unknown outcomes of a broken connection, on the next
// one: it puts up the tombstone that refuses what the broken connection may
// still deliver, then deletes the keys of tokens that must not live on, or has
// them end after the time for which their release was to leave them. It
// does nothing for a connection that has itself been succeeded: a clean-up
// that came late could take away a key that was counted since.
//
//	KEYS  keys to clean, then the session's tombstone
//	ARGV  generation, life of the tombstone in ms (0: none needed), then a token for
//	      each key, then the time in ms for which each key is left
//	"10…"  for every key whether it held the token and was deleted
//	-1     a newer connection has begun; nothing was done
//
// It begins with a PEXPIRE, which the tombstone may well ignore: a server that is
// out of memory refuses a script's SET, unless a write that needs no memory went
// before it. There, too, held locks must be extended and released.
var cleanScript = newScript("clean", `
local n = #KEYS - 1
local stone = KEYS[n + 1]
local born = redis.call('GET', stone)
if born and tonumber(born) > tonumber(ARGV[1]) then return -1 end
local life = tonumber(ARGV[2])
if life > 0 then
  local left = redis.call('PTTL', stone)
  if left < life then left = life end
  redis.call('PEXPIRE', stone, left)
  redis.call('SET', stone, ARGV[1], 'PX', left)
end
local gone = {}
for i = 1, n do
  gone[i] = '0'
  if redis.pcall('GET', KEYS[i]) == ARGV[i + 2] then
    local keep = tonumber(ARGV[n + i + 2])
    if keep == 0 then
      redis.call('DEL', KEYS[i])
    elseif redis.call('PTTL', KEYS[i]) > keep then
      redis.call('PEXPIRE', KEYS[i], keep)
    end
    gone[i] = '1'
  end
end
return table.concat(gone)
`, func(reply any) outcome {
	if found, ok := reply.([]byte); ok && len(bytes.Trim(found, "01")) == 0 {
		return outcome{stance: yes, value: string(found)}
	}
	if reply == int64(-1) {
		return outcome{err: errStale, stale: true}
	}
	return unexpected("clean", reply)
})

// inspectScript reads who holds one resource.
//
//	KEYS  the resource's key
//	0                      nobody
//	{token, pttl, digest}  of a long token only its beginning; pttl -1: no expiry
var inspectScript = newScript("inspect", `
local v = redis.call('GET', KEYS[1])
if not v then return 0 end
return {string.sub(v, 1, 9), redis.call('PTTL', KEYS[1]), `+digestLua+`}
`, func(reply any) outcome {
	if reply == int64(0) {
		return outcome{stance: yes}
	}
	if r, ok := reply.([]any); ok && len(r) == 3 {
		value, ok1 := r[0].([]byte)
		left, ok2 := r[1].(int64)
		holder, ok3 := r[2].([]byte)
		if ok1 && ok2 && ok3 {
			return outcome{stance: yes, value: string(value), holder: string(holder), holderTTL: millis(left)}
		}
	}
	return unexpected("inspect", reply)
})

// probeScript tries out the commands that the other scripts call, for Check.
//
//	KEYS  a key of its own
//	ARGV  a channel on which nobody listens
//	{command, error, …}  those that failed
//
// It changes nothing: the key is a string while the commands for sorted sets
// are tried, so these fail, which counts as permitted. It would expire if DEL were
// forbidden. Where it cannot be set, they are left out.
var probeScript = newScript("probe", `
local failed = {}
local function try(...)
  local r = redis.pcall(...)
  if type(r) ~= 'table' or not r.err or string.find(r.err, 'WRONGTYPE', 1, true) then return true end
  failed[#failed + 1] = string.lower((select(1, ...)))
  failed[#failed + 1] = r.err
  return false
end
try('TIME')
try('EXISTS', KEYS[1])
if try('SET', KEYS[1], '1', 'PX', 1000) then
  try('ZADD', KEYS[1], 0, 'x')
  try('ZREM', KEYS[1], 'x')
  try('ZCARD', KEYS[1])
  try('ZPOPMIN', KEYS[1])
end
try('GET', KEYS[1])
try('PTTL', KEYS[1])
try('PEXPIRE', KEYS[1], 1000)
try('DEL', KEYS[1])
try('PUBLISH', ARGV[1], '')
return failed
`, nil)

func millis(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	if ms > int64(maxDuration/time.Millisecond) {
		return maxDuration
	}
	return time.Duration(ms) * time.Millisecond
}

func unexpected(name string, reply any) outcome {
	s := fmt.Sprintf("%v", reply)
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return outcome{err: fmt.Errorf("unexpected reply to the %s script: %T %s", name, reply, s)}
}
