package redlock

import "slices"

// lifeCommand asks how long the keys of a token still live.
func lifeCommand(keys []any, token string) command {
	return command{script: lifeScript, keys: slices.Clone(keys), argv: []any{token}}
}

// lifeScript tells how long a lock's keys still live on a node.
//
//	KEYS  the resources' keys
//	ARGV  token
//	n     the longest of the lives of those that hold the token, in ms; -1: one of them has
//	      no expiry
//	-2    none holds it
var lifeScript = newScript("life", `
local longest = -2
for i = 1, #KEYS do
  if redis.pcall('GET', KEYS[i]) == ARGV[1] then
    local left = redis.call('PTTL', KEYS[i])
    if left < 0 then return -1 end
    longest = math.max(longest, left)
  end
end
return longest
`, func(reply any) outcome {
	left, ok := reply.(int64)
	switch {
	case !ok || left < -2:
		return unexpected("life", reply)
	case left == -2:
		return outcome{stance: no, err: ErrLost}
	default:
		return outcome{stance: yes, holderTTL: millis(left)}
	}
})
