-- Written by make lua, not by hand.
-- fencedQueue with quarantine: KEYS end with the marker, and ARGV with 0, the number of nodes and maxTTL in ms.

local k, a = #KEYS, #ARGV
local marker, maxTTL, nodes, look = KEYS[k], ARGV[a], ARGV[a - 1], ARGV[a - 2]
KEYS[k], ARGV[a], ARGV[a - 1], ARGV[a - 2] = nil, nil, nil, nil
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:([0-9a-f]+)')
if not run or #run ~= 40 or run == string.rep(string.sub(run, 1, 1), 40) then
return redis.error_reply('NOPERM quarantine takes the right to INFO, and a server that shows its run_id')
end
local state = redis.pcall('GET', marker)
if type(state) == 'table' and not string.find(state.err, 'WRONGTYPE', 1, true) then return state end
if type(state) ~= 'string' then state = '' end
local seen, may, setup, longest, since, other = string.match(state, '^([0-9a-f]+) (%l+) (%d+) (%d+) (%d+) ?(%d*)$')
local votes = seen == run and may == 'votes'
setup, longest, since, maxTTL = setup or nodes, tonumber(longest or 0), tonumber(since), tonumber(maxTTL)
if (other or '') == '' then other = math.abs(setup - nodes) == 1 and nodes or '' end
local fits = setup == nodes or other == nodes
if fits and longest < maxTTL then longest, votes = maxTTL, false end
local left = 0
if not votes then
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if seen ~= run or since > now then since = now end
left = since + longest + 1000 - now
votes = left <= 0
end
local text = string.format('%s %s %s %.0f %.0f', run, votes and 'votes' or 'waits', setup, longest, since)
if other ~= '' then text = text .. ' ' .. other end
if text ~= state then redis.call('SET', marker, text) end
if not fits then return {'F', tonumber(setup), tonumber(other)} end
if not votes then return {'Q', left} end

if look == '1' then return 1 end
local maxFence = 9007199254740991
local n = #KEYS / 3
local at, proposal, keep, tells = 2 * n, tonumber(ARGV[7]), ARGV[8], ARGV[9]
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
for i = 1, n do
redis.pcall('ZREM', KEYS[n + i] .. 'l', ARGV[3])
if redis.pcall('GET', KEYS[n + i] .. 'r') == ARGV[3] then redis.call('DEL', KEYS[n + i] .. 'r') end
end
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
return tells and low > 0 and {fence, top} or fence
