-- pass is for a client that has no use for a release, or waits no more: what is reserved for it is not any more, and if
-- the resource is free, the next in line is told.
--
--    KEYS  the resource's key, its bell
--    ARGV  the name of the release ("": nobody is told), the client's channel, "1" if it leaves the line
--    0, {0, told}
--          as unlock answers

local n, held, rung, name = 1, 0, false, ARGV[1]
local reservation = KEYS[2] .. 'r'
if redis.pcall('GET', reservation) == ARGV[2] then redis.call('DEL', reservation) end
if ARGV[3] == '1' then redis.pcall('ZREM', KEYS[2] .. 'l', ARGV[2]) end
if name ~= '' and redis.call('EXISTS', KEYS[1]) == 0 and redis.call('DEL', KEYS[2]) == 1 then rung = {true} end
if not rung then return held end
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
