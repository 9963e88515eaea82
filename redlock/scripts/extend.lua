-- extend moves the expiry of every key to the ttl from now, or of none. It never creates a key and never shortens one's
-- life. With fencing it keeps the counters, too.
--
--    KEYS  the resources' keys; with fencing: and their counters; if it is asked who waits: and their bells
--    ARGV  token, ttl in ms; with fencing: and the fence, life of the counters in ms; if it is asked who waits: and these,
--          empty without fencing, and "1"
--    1     done
--    2     done, and somebody is in line for one of the resources
--    0     a key is another's; nothing was changed
--    -1    a key is missing, and none is another's; nothing was changed

local n, fence, keep, gone, ask = #KEYS, ARGV[3], ARGV[4], false, false
if fence then
  ask = ARGV[5]
  n = n / (ask and fence ~= '' and 3 or 2)
  if fence == '' then fence = nil end
end
for i = 1, n do
  local v = redis.pcall('GET', KEYS[i])
  if not v then gone = true elseif v ~= ARGV[1] then return 0 end
end
if gone then return -1 end
for i = 1, n do
  if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
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
if ask then
  for i = #KEYS - n + 1, #KEYS do
    if redis.pcall('EXISTS', KEYS[i] .. 'l') == 1 then return 2 end
  end
end
return 1
