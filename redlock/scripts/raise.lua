-- raise sets the counters of a lock to a fence that is not below them.
--
--    KEYS  the resources' keys, their counters
--    ARGV  token, fence, life of the counters in ms
--    n     all keys hold the token, and all counters are n, the fence
--    0     refused: a key does not hold the token, or a counter is above the fence; nothing was changed

local n = #KEYS / 2
for i = 1, n do
  if redis.pcall('GET', KEYS[i]) ~= ARGV[1] then return 0 end
  local c = tonumber(redis.call('GET', KEYS[n + i]) or 0)
  if not c or not (c <= tonumber(ARGV[2])) then return 0 end
end
for i = 1, n do redis.call('SET', KEYS[n + i], ARGV[2], 'PX', ARGV[3]) end
return tonumber(ARGV[2])
