-- repair gives a lock that a quorum holds its missing keys on this node, and the new ttl to the others. It never
-- shortens a key's life.
--
--    KEYS  the resources' keys; with fencing: and their counters
--    ARGV  token, ttl in ms; with fencing: and the fence, life of the counters in ms
--    1     all keys hold the token
--    -1    refused: a key is another's; nothing was changed

local n, fence, keep = #KEYS, ARGV[3], ARGV[4]
if fence then n = n / 2 end
for i = 1, n do
  local v = redis.pcall('GET', KEYS[i])
  if v and v ~= ARGV[1] then return -1 end
end
for i = 1, n do
  local set = redis.call('SET', KEYS[i], ARGV[1], 'NX', 'PX', ARGV[2])
  if not set and redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
end
-- begin keep the counters, and set those that are below the fence to it, or have been lost. The PEXPIRE comes first: a
-- server that is out of memory refuses a script's SET, unless a write that needs no memory went before it.
if fence then
  for i = 1, n do
    redis.call('PEXPIRE', KEYS[n + i], keep)
    local c = tonumber(redis.pcall('GET', KEYS[n + i]) or 0)
    if c and c < tonumber(fence) then redis.call('SET', KEYS[n + i], fence, 'PX', keep) end
  end
end
-- end keep
return 1
