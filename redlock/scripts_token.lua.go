package redlock

import (
	"slices"

	"github.com/seed6c881748/redlock/internal/node"
)

// lifeCommand asks how long the keys of a token still live.
func lifeCommand(keys []any, token string) node.Command {
	return node.Command{Script: lifeScript, Keys: slices.Clone(keys), Args: []any{token}}
}

// lifeScript tells how long a lock's keys still live on a node.
//
//	KEYS  the resources' keys
//	ARGV  token
//	n     the longest of the lives of those that hold the token, in ms; -1: one of them has
//	      no expiry
//	-2    none holds it
var lifeScript = node.NewScript("life", `
local longest = -2
for i = 1, #KEYS do
  if redis.pcall('GET', KEYS[i]) == ARGV[1] then
    local left = redis.call('PTTL', KEYS[i])
    if left < 0 then return -1 end
    longest = math.max(longest, left)
  end
end
return longest
`, func(reply any) node.Outcome {
	left, ok := reply.(int64)
	switch {
	case !ok || left < -2:
		return node.Unexpected("life", reply)
	case left == -2:
		return node.Outcome{Stance: node.No, Err: ErrLost}
	default:
		return node.Outcome{Stance: node.Yes, HolderTTL: millis(left)}
	}
})
