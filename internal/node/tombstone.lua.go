package node

import "errors"

// ErrStale is the answer to a request that a connection which was given up delivers late.
var ErrStale = errors.New("request of a connection that was given up")

// StaleLua refuses what a connection that was given up delivers late. Every script of a
// session begins with it: its last key is the tombstone, its last argument the
// generation.
const StaleLua = `
local born = redis.call('GET', KEYS[#KEYS])
if born and tonumber(born) > tonumber(ARGV[#ARGV]) then return 0 end`

// Tombstone has the node refuse what earlier connections of the session may still
// deliver. One that comes late itself does nothing: it would let in what a newer
// connection has refused.
//
//	KEYS  the session's tombstone
//	ARGV  generation of the connection, life of the tombstone in ms
//	1     done
//	0     a newer connection has begun; nothing was done
//
// It begins with a PEXPIRE, which the tombstone may well ignore: a server that is
// out of memory refuses a script's SET, unless a write that needs no memory went
// before it. There, too, held locks must be extended and released.
var Tombstone = NewScript("tombstone", `
local born = redis.call('GET', KEYS[1])
if born and tonumber(born) > tonumber(ARGV[1]) then return 0 end
local life = string.format('%.0f', math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))
redis.call('PEXPIRE', KEYS[1], life)
redis.call('SET', KEYS[1], ARGV[1], 'PX', life)
return 1
`, func(reply any) Outcome {
	switch reply {
	case int64(1):
		return Outcome{Stance: Yes}
	case int64(0):
		return Outcome{Err: ErrStale, Stale: true}
	}
	return Unexpected("tombstone", reply)
})
