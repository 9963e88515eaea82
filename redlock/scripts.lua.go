package redlock

import (
	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/lines"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// This file and its sisters, scripts_*.lua.go, are the only ones here that know Lua and what the
// scripts answer.
//
// A lock is one string key per resource, prefix+resource, whose value is the
// token: the layout of node-redlock and redsync, so that fleets that mix them
// with this library exclude each other. Everything else that the library
// stores has reservedMark in its key.

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
//
//	KEYS  the resources' keys
//	ARGV  token, ttl in ms
//	1               all keys hold my token: set now, or they did already (then nothing
//	                is changed: a request that runs twice is harmless)
//	{pttl, digest, owner}
//	                refused: how long the key that is kept longest still lives, -1: no
//	                expiry; and who holds the first resource that is taken: a digest of
//	                its token, and its label, empty if it has none
//
// A request that runs again, late, sets only the keys that are missing: an extension
// may have given the others a longer life since, and been counted.
//
// One resource, the common case, takes two calls. SET NX rather than MGET and
// SET: MGET shows a key of another type as missing, and SET would overwrite it.
var lockScript = alsoDirect(quarantine.Grants(node.NewScript("lock", `
local n = #KEYS
if n == 1 and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
`+lookLua+`
if longest then return {longest, holder, owner} end
`+grantLua+`
return 1
`, decodeLock)))

// alsoDirect has a script for one resource be sent as commands of the server's own where that is possible.
func alsoDirect(s *node.Script) *node.Script {
	s.Direct = decodeDirect
	return s
}

// lookLua counts the resources that hold the token, lists those that hold another
// one, and finds out for how long the longest of these is kept, and who holds the first. The
// first, as that is the same one on all nodes: which of two holders keeps its key longest may
// differ by a round trip from node to node, and a lock that is taken would look like a split
// vote, which is contended for.
var lookLua = `
local mine, taken, longest, holder, owner = 0, {}, false, '', ''
for i = 1, n do
  local v = redis.call('GET', KEYS[i])
  if v == ARGV[1] then
    mine = mine + 1
  elseif v then
    taken[#taken + 1] = i
    local left = redis.call('PTTL', KEYS[i])
    if #taken == 1 then holder, owner = ` + tokens.DigestLua + `, ` + tokens.LabelLua + ` end
    if not longest or left < 0 or (longest >= 0 and left > longest) then longest = left end
  end
end`

// lockArgs appends the arguments of the lock script, boxed once for all nodes. The first is the
// token, and all that the release of a failed attempt takes; the other the ttl in ms.
func lockArgs(space []any, token string, ms any) []any { return append(space, token, ms) }

func lockCommand(keys, args []any) node.Command {
	return node.Command{Script: lockScript, Keys: keys, Args: args}
}

const grantLua = `
if mine < n then
  for i = 1, n do redis.call('SET', KEYS[i], ARGV[1], 'NX', 'PX', ARGV[2]) end
end`

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
		out := node.Outcome{Stance: node.No, Err: ErrTaken, Holder: tokens.ShownDigest(string(holder)), Owner: owner, HolderTTL: millis(left)}
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
		held := string(v)
		return node.Outcome{Stance: node.No, Err: ErrTaken, Holder: tokens.Digest(held), Owner: tokens.LabelOf(held), HolderTTL: millis(left)}
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
// It never creates a key and never shortens one's life. With fencing it keeps the
// counters, too.
//
//	KEYS  the resources' keys; with fencing: and their counters
//	ARGV  token, ttl in ms; with fencing: and the fence, life of the counters in ms
//	1     done
//	0     a key is another's; nothing was changed
//	-1    a key is missing, and none is another's; nothing was changed
var extendScript = node.NewScript("extend", `
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
  `+fences.KeepLua+`
end
return 1
`, func(reply any) node.Outcome {
	if reply == int64(-1) {
		return node.Outcome{Stance: node.Gone, Err: ErrLost}
	}
	return decodeHeld("extend")(reply)
})

// extendCommand extends the lock; f is its fencing, nil without.
func extendCommand(keys []any, token string, ms any, f *fencing) node.Command {
	return keepFence(node.Command{Script: extendScript, Keys: keys, Args: []any{token, ms}}, f)
}

// repairScript gives a lock that a quorum holds its missing keys on this node, and
// the new ttl to the others. It never shortens a key's life.
//
//	KEYS  the resources' keys; with fencing: their counters
//	ARGV  token, ttl in ms; with fencing: the fence, life of the counters in ms
//	1     all keys hold the token
//	-1    refused: a key is another's; nothing was changed
var repairScript = quarantine.Grants(node.NewScript("repair", `
local n, fence, keep = #KEYS, ARGV[3], ARGV[4]
if fence then n = n / 2 end
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
  `+fences.KeepLua+`
end
return 1
`, func(reply any) node.Outcome {
	switch reply {
	case int64(1):
		return node.Outcome{Stance: node.Yes}
	case int64(-1):
		return node.Outcome{Stance: node.No, Err: ErrTaken}
	}
	return node.Unexpected("repair", reply)
}))

// repairCommand repairs the lock; f is its fencing, nil without.
func repairCommand(keys []any, token string, ms any, f *fencing) node.Command {
	return keepFence(node.Command{Script: repairScript, Keys: keys, Args: []any{token, ms}}, f)
}

// unlockScript deletes the keys that hold the token. After it, none does. Who is
// first in line for a resource that it has freed is told.
//
//	KEYS  the resources' keys, their bells
//	ARGV  token
//	1     every key held the token
//	0     at least one was gone or another's
//	{1 or 0, told, …}  the same, and somebody may be in line; see lines.TellLua
var unlockScript = releaseScript("unlock", `
    if redis.call('DEL', KEYS[i], KEYS[n + i]) == 2 then`)

// releaseScript returns a script that, for every key that holds the token, carries out free,
// which ends with the condition that the bell was there.
func releaseScript(name, free string) *node.Script {
	return node.NewScript(name, `
local n = #KEYS / 2
local mine, rung, held = 0, false, 0
for i = 1, n do
  if redis.pcall('GET', KEYS[i]) == ARGV[1] then
    mine = mine + 1`+free+`
      rung = rung or {}
      rung[i] = true
    end
  end
end
if mine == n then held = 1 end
`+lines.TellLua(lines.ReleaseNameLua), lines.DecodeTold(name, decodeHeld(name)))
}

// unlockCommand releases a lock. keys are the resources' and their bells; args are the lock
// request's.
func unlockCommand(keys, args []any) node.Command {
	return node.Command{Script: unlockScript, Keys: keys, Args: args[:1]}
}

// leaveScript is a release that leaves the keys for a time, so that nobody gets
// the lock before it is over. It never lengthens a key's life. Who is first in line
// is told all the same: refused once more, it knows when to come back.
//
//	KEYS  the resources' keys, their bells
//	ARGV  token, time in ms
//
// It answers as the unlock script does.
var leaveScript = releaseScript("leave", `
    if redis.call('PTTL', KEYS[i]) > tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
    if redis.call('DEL', KEYS[n + i]) == 1 then`)

// leaveCommand is unlockCommand, but leaves the keys for so long.
func leaveCommand(keys []any, token string, ms int64) node.Command {
	return node.Command{Script: leaveScript, Keys: keys, Args: []any{token, ms}, Timed: true}
}

// undoScript is the release of an attempt that failed: it deletes the keys that
// hold the token, and tells nobody. If it did, every failure in a contest would
// set off the next.
//
//	KEYS  the resources' keys
//	ARGV  token
//	1     every key held it
//	0     at least one was gone or another's
var undoScript = node.NewScript("undo", `
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

// undoCommand gives back what a failed attempt has won. args are the lock request's.
func undoCommand(keys, args []any) node.Command {
	return node.Command{Script: undoScript, Keys: keys, Args: args[:1]}
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
