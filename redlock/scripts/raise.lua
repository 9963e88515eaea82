-- raise sets the counters of a lock to a fence that is not below them.
--
--    KEYS  the resources' keys, their counters
--    ARGV  token, fence, life of the counters in ms; if it tells: and "1"
--    n     all keys hold the token, and all counters are n, the fence
--    {n, found}
--          the same, if it tells: none was above found before
--    0     refused: a key does not hold the token, or a counter is above the fence; nothing was changed

local n, top = #KEYS / 2, 0
for i = 1, n do
  if redis.pcall('GET', KEYS[i]) ~= ARGV[1] then return 0 end
  local c = tonumber(redis.call('GET', KEYS[n + i]) or 0)
  if not c or not (c <= tonumber(ARGV[2])) then return 0 end
  top = math.max(top, c)
end
for i = 1, n do redis.call('SET', KEYS[n + i], ARGV[2], 'PX', ARGV[3]) end
return ARGV[4] and top > 0 and {tonumber(ARGV[2]), top} or tonumber(ARGV[2])
