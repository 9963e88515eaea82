-- fencedLock is lock with fencing.
--
--    KEYS  the resources' keys, their counters
--    ARGV  token, ttl in ms, proposal, life of the counters in ms; if it tells: and "1"
--    n     of 1 or more: all keys hold the token, and all counters are n
--    {n, found}
--          the same, if it tells: this request has set them, and none was missing or above found before
--
-- The other answers are those of lock.

local maxFence = 9007199254740991
local n = #KEYS / 2
local at, proposal, keep, tells = n, tonumber(ARGV[3]), ARGV[4], ARGV[5]

-- One resource whose counter is behind the proposal, the common case, takes five calls.
if n == 1 then
  local c = tonumber(redis.call('GET', KEYS[2]) or 0)
  if c and c < proposal then
    local now = redis.call('TIME')
    now = now[1] * 1000000 + now[2]
    if proposal <= now + 1000000 and (c > 0 or proposal >= now - 1000000)
      and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
      local done = redis.pcall('SET', KEYS[2], ARGV[3], 'PX', keep)
      if not done.err then return tells and c > 0 and {proposal, c} or proposal end
      -- The user may read the counter but not write it.
      redis.call('DEL', KEYS[1])
      return done
    end
  end
end

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
if longest then return {longest, holder, owner} end
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
