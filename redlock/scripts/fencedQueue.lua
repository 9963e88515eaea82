-- fencedQueue is queue with fencing. Its answer to a grant is that of fencedLock.
--
--    KEYS  the resources' keys, their bells, their counters
--    ARGV  as for queue, then proposal, life of the counters in ms; if it tells: and "1"

local maxFence = 9007199254740991
local n = #KEYS / 3
local at, proposal, keep, tells = 2 * n, tonumber(ARGV[7]), ARGV[8], ARGV[9]

-- begin look: how many resources hold the token, which hold another one, for how long the longest of these is
-- kept, and who holds the first. The first, as that is the same one on all nodes: which of two holders keeps its key
-- longest may differ by a round trip from node to node, and a lock that is taken would look like a split vote, which
-- is contended for. A holder is shown by a digest of its token, which is what it takes to release the lock, and by the
-- label in it; tokens.Digest and tokens.LabelOf are the same in Go.
local mine, taken, longest, holder, owner = 0, {}, false, '', ''
for i = 1, n do
  local v = redis.call('GET', KEYS[i])
  if v == ARGV[1] then
    mine = mine + 1
  elseif v then
    taken[#taken + 1] = i
    local left = redis.call('PTTL', KEYS[i])
    if #taken == 1 then
      holder = string.sub(redis.sha1hex(v), 1, 12)
      owner = #v <= 167 and string.match(v, '^[0-9a-f]+() owner=.') == 33 and string.sub(v, 40) or ''
    end
    if not longest or left < 0 or (longest >= 0 and left > longest) then longest = left end
  end
end
-- end look
-- begin reserved: who yields gives way to whom a free resource is reserved for.
if not longest and mine < n and ARGV[6] == '1' then
  for i = 1, n do
    local reservation = KEYS[n + i] .. 'r'
    local whose = redis.pcall('GET', reservation)
    if type(whose) == 'string' and whose ~= ARGV[3] then
      taken[#taken + 1] = i
      longest = math.max(longest or 0, redis.call('PTTL', reservation))
    end
  end
end
-- end reserved
-- begin get in line. A line is bounded: in it, dead processes stay until a release finds that they do not listen.
-- Of a line that is full only the first 900 stay: whoever has waited longest must not be dropped because of those that
-- came later. They are taken out and put back, since a command that drops the last would be one more right that a user
-- needs; and a hundred at a time, so that this is done once for a hundred.
if longest then
  local behind = false
  local queued, why = pcall(function()
    local now = redis.call('TIME')
    local place = string.format('%.0f', now[1] * 1000000 + now[2] - ARGV[4])
    for _, i in ipairs(taken) do
      local bell, line = KEYS[n + i], KEYS[n + i] .. 'l'
      if redis.pcall('GET', KEYS[n + i] .. 'r') == ARGV[3] then redis.call('DEL', KEYS[n + i] .. 'r') end
      local new = redis.call('ZADD', line, place, ARGV[3]) == 1
      local life, dropped = math.max(redis.call('PTTL', line), tonumber(ARGV[5])), false
      if new and redis.call('ZCARD', line) > 1000 then
        local all, kept = redis.call('ZPOPMIN', line, 1000), {}
        redis.call('DEL', line)
        dropped = true
        for j = 1, 2 * 900, 2 do
          kept[j], kept[j + 1] = all[j + 1], all[j]
          if all[j] == ARGV[3] then dropped = false end
        end
        redis.call('ZADD', line, unpack(kept))
      end
      -- Who gives way and is first in line is to look when the reservation should have ended, and the others when one
      -- for that one would have: if all looked at once, the first to come would have it, and not who is first in line.
      if holder == '' and not behind then
        local first = redis.call('ZPOPMIN', line)
        redis.call('ZADD', line, first[2], first[1])
        behind = first[1] ~= ARGV[3]
      end
      redis.call('PEXPIRE', line, life)
      redis.call('SET', bell, '1', 'PX', life)
      if dropped then error('the line is full') end
    end
  end)
  if behind then longest = longest + 100 end
  if queued then return {longest, holder, owner} end
  if type(why) == 'table' then why = why.err end
  return {longest, holder, owner, tostring(why)}
end
-- end get in line
-- begin leave the lines: it has come, so what was reserved for it is not any more. Where a server refuses scripts
-- keys that they were not given, there are no lines: whoever waits polls, and must not be kept from its lock.
for i = 1, n do
  redis.pcall('ZREM', KEYS[n + i] .. 'l', ARGV[3])
  if redis.pcall('GET', KEYS[n + i] .. 'r') == ARGV[3] then redis.call('DEL', KEYS[n + i] .. 'r') end
end
-- end leave the lines
-- begin fenced grant: the counters of all resources become one number above all that they have been. It is the
-- proposal, if that is more than they are, and at most a second ahead of the node's clock: a client whose clock is
-- wrong by years must not use the counter up.
--
-- Where there is no counter, one that was there may have been lost, and a clock has to stand in for it. The proposal
-- does, unless it is more than a second off the node's clock, ahead or behind; then the node's clock does. Not to the
-- microsecond: all nodes are to arrive at one number, so that it takes one round trip.
--
-- A request that runs again, when all keys hold the token, says what the first has said, or nothing. The counters
-- first: a write that the server refuses then leaves no key. Lua's numbers are exact up to 2^53, and its tostring and
-- .. show 14 digits of them: so %.0f.
local top, low = 0, maxFence
for i = 1, n do
  local c = tonumber(redis.call('GET', KEYS[at + i]) or 0)
  if not c or not (c < maxFence) then
    return redis.error_reply('NOFENCE ' .. KEYS[at + i] .. ' is no counter, or has reached its end')
  end
  top, low = math.max(top, c), math.min(low, c)
end
local fence = top + 1
if mine == n then
  if low < top or top < 1 then return redis.error_reply('NOFENCE counters were lost: ' .. KEYS[at + 1]) end
  return top
end
if proposal > fence or low < 1 then
  local now = redis.call('TIME')
  local micros = now[1] * 1000000 + now[2]
  if proposal > micros + 1000000 then proposal = 0 end
  if low < 1 and proposal < micros - 1000000 then proposal = now[1] * 1000000 end
  fence = math.max(fence, proposal)
end
local text = string.format('%.0f', fence)
for i = 1, n do redis.call('SET', KEYS[at + i], text, 'PX', keep) end
for i = 1, n do redis.call('SET', KEYS[i], ARGV[1], 'NX', 'PX', ARGV[2]) end
-- end fenced grant
return tells and low > 0 and {fence, top} or fence
