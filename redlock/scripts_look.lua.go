package redlock

import (
	"time"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// inspectScript reads who holds one resource.
//
//	KEYS  the resource's key
//	0                             nobody
//	{token, pttl, digest, owner}  of a long token only its beginning; pttl -1: no
//	                              expiry; owner as in a refusal
var inspectScript = node.NewScript("inspect", `
local v = redis.call('GET', KEYS[1])
if not v then return 0 end
return {string.sub(v, 1, 9), redis.call('PTTL', KEYS[1]), `+tokens.DigestLua+`, `+tokens.LabelLua+`}
`, func(reply any) node.Outcome {
	if reply == int64(0) {
		return node.Outcome{Stance: node.Yes}
	}
	if r, ok := reply.([]any); ok && (len(r) == 3 || len(r) == 4) {
		value, ok1 := r[0].([]byte)
		left, ok2 := r[1].(int64)
		holder, ok3 := r[2].([]byte)
		owner, ok4 := decodeOwner(r[3:])
		if ok1 && ok2 && ok3 && ok4 {
			return node.Outcome{Stance: node.Yes, Value: string(value), Holder: tokens.ShownDigest(string(holder)), Owner: owner, HolderTTL: millis(left)}
		}
	}
	return node.Unexpected("inspect", reply)
})

func inspectCommand(key any) node.Command {
	return node.Command{Script: inspectScript, Keys: []any{key}}
}

func millis(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	if ms > int64(maxDuration/time.Millisecond) {
		return maxDuration
	}
	return time.Duration(ms) * time.Millisecond
}
