-- unlock is the release of a token. It deletes the keys that hold the token. After it, none does. Who is first in line for a
-- resource that it has freed is told.
--
-- A release may also leave the keys for a time, so that nobody gets the lock before it is over. It never lengthens a key's
-- life. Who is first in line is told all the same: refused once more, it knows when to come back. And the release of an
-- attempt that failed tells nobody. If it did, every failure in a contest would set off the next. One that is sent again
-- also tells where the key is gone: the first one may have deleted it without this script, and told nobody.
--
--    KEYS  the resources' keys; unless nobody is told: and their bells
--    ARGV  token; if it leaves the keys: and the time in ms; if nobody is told: and ""; if it is sent again: and "again"
--    1     every key held the token
--    0     at least one was gone or, if nobody is told, another's
--    {{pttl, digest, owner}}
--          at least one was another's: the first of these, as the lock script says it
--    {1, 0 or {pttl, digest, owner}, told, ...}
--          the same, and somebody may be in line; see 'tell'
--
-- The release is named by a digest of the token, as in tokens.Digest.

local again, tells, n = ARGV[2] == 'again', ARGV[2] ~= '', #KEYS / 2
local leave = not again and ARGV[2]
if not tells then n = #KEYS end
local mine, rung, held = 0, false, 0
for i = 1, n do
  local v, rings = redis.pcall('GET', KEYS[i]), false
  if v == ARGV[1] then
    mine = mine + 1
    if not leave then
      rings = redis.call('DEL', KEYS[i], KEYS[n + i]) == 2
    elseif tells then
      if redis.call('PTTL', KEYS[i]) > tonumber(leave) then redis.call('PEXPIRE', KEYS[i], leave) end
      rings = redis.call('DEL', KEYS[n + i]) == 1
    else
      redis.call('DEL', KEYS[i])
    end
  elseif again and not v then
    rings = redis.call('DEL', KEYS[n + i]) == 1
  elseif tells and held == 0 and type(v) == 'string' then
    local owner = #v <= 167 and string.match(v, '^[0-9a-f]+() owner=.') == 33 and string.sub(v, 40) or ''
    held = {redis.call('PTTL', KEYS[i]), string.sub(redis.sha1hex(v), 1, 12), owner}
  end
  if rings then
    rung = rung or {}
    rung[i] = true
  end
end
if mine == n then held = 1 end
if not rung then return type(held) == 'table' and {held} or held end
-- Not before: the digest would cost every release a tenth of its time.
local name = string.sub(redis.sha1hex(ARGV[1]), 1, 12)
-- begin tell: the first in line for each resource that is free now, and whose bell was rung, is told by a message of
-- the release's name and the key, and the resource is reserved for it for 100 ms: longer than a round trip from far
-- away. One that does not listen any more is passed over. The answer becomes {held, told, ...}: for every resource the
-- channel that was told, empty if nobody was in line, '!' if somebody is but the server refuses to tell it, or '='
-- and a channel if the resource is still reserved for that one: it was told of an earlier release and is on its way,
-- while another client, which did not give way, has had the lock. To tell the next one now would pass over those that
-- are far away.
local answer = {held}
for i = 1, n do
  local told, line = '', KEYS[n + i] .. 'l'
  local whose = rung[i] and redis.pcall('GET', KEYS[n + i] .. 'r')
  if type(whose) == 'string' then told = '=' .. whose end
  while rung[i] and told == '' do
    local first = redis.pcall('ZPOPMIN', line)
    if not first[1] then break end
    local heard = redis.pcall('PUBLISH', first[1], name .. KEYS[i])
    if type(heard) ~= 'number' then
      told = '!'
    elseif heard > 0 then
      told = first[1]
      redis.pcall('SET', KEYS[n + i] .. 'r', told, 'PX', 100)
    end
  end
  answer[i + 1] = told
  local life = redis.pcall('PTTL', line)
  if rung[i] and type(life) == 'number' and life > 0 then redis.pcall('SET', KEYS[n + i], '1', 'PX', life) end
end
return answer
-- end tell
