-- queueScript is the lock script for a client that waits: what is refused is put
-- in line for the resources that another token holds, in the same step, so that
-- no release can come between; what is granted leaves the line. A client that asks by
-- turn is also refused, and put in line, while a free resource is reserved for another.
--
--    KEYS  the resources' keys, their bells
--    ARGV  token, ttl in ms, the client's channel, for how long it has waited in µs,
--          life of the line in ms, "1" if it asks by turn
--
-- It answers as the lock script does, and
--
--    {pttl, "", ""}                free, but reserved for so long for another client
--    {pttl, digest, owner, error}  refused, and not in line, because of the error
--
-- The place in line is the node's time less the time waited: all nodes agree on
-- the order up to the differences between network delays, though no two of the
-- clocks involved need agree.

local n, fence = #KEYS / 2, 1

local mine, taken, longest, holder, owner = 0, {}, false, '', ''
for i = 1, n do
  local v = redis.call('GET', KEYS[i])
  if v == ARGV[1] then
    mine = mine + 1
  elseif v then
    taken[#taken + 1] = i
    local left = redis.call('PTTL', KEYS[i])
    if #taken == 1 then holder, owner = string.sub(redis.sha1hex(v), 1, 12), (#v <= 167 and string.match(v, '^[0-9a-f]+() owner=.') == 33 and string.sub(v, 40) or '') end
    if not longest or left < 0 or (longest >= 0 and left > longest) then longest = left end
  end
end
if not longest and mine < n and ARGV[6] == '1' then
  for i = 1, n do
    local reservation = KEYS[n + i].. 'r'
    local whose = redis.pcall('GET', reservation)
    if type(whose) == 'string' and whose ~= ARGV[3] then
      taken[#taken + 1] = i
      longest = math.max(longest or 0, redis.call('PTTL', reservation))
    end
  end
end
if not longest then
  for i = 1, n do
    redis.pcall('ZREM', KEYS[n + i].. 'l', ARGV[3])
    if redis.pcall('GET', KEYS[n + i].. 'r') == ARGV[3] then
      redis.call('DEL', KEYS[n + i].. 'r')
    end
  end
  
if mine < n then
  for i = 1, n do redis.call('SET', KEYS[i], ARGV[1], 'NX', 'PX', ARGV[2]) end
end
  return fence
end
local queued, why = pcall(function()
  local now = redis.call('TIME')
  local place = string.format('%.0f', now[1] * 1000000 + now[2] - ARGV[4])
  for _, i in ipairs(taken) do
    local bell, line = KEYS[n + i], KEYS[n + i].. 'l'
    if redis.pcall('GET', KEYS[n + i].. 'r') == ARGV[3] then
      redis.call('DEL', KEYS[n + i].. 'r')
    end
    redis.call('ZADD', line, place, ARGV[3])
    local life, dropped = math.max(redis.call('PTTL', line), tonumber(ARGV[5])), false
    if redis.call('ZCARD', line) > 1000 then
      local all, kept = redis.call('ZPOPMIN', line, 1000), {}
      redis.call('DEL', line)
      dropped = true
      for j = 1, 2 * 900, 2 do
        kept[j], kept[j + 1] = all[j + 1], all[j]
        if all[j] == ARGV[3] then dropped = false end
      end
      redis.call('ZADD', line, unpack(kept))
    end
    redis.call('PEXPIRE', line, life)
    redis.call('SET', bell, '1', 'PX', life)
    if dropped then error('the line is full') end
  end
end)
if queued then return {longest, holder, owner} end
if type(why) == 'table' then why = why.err end
return {longest, holder, owner, tostring(why)}
