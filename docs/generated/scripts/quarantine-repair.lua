-- Written by make lua, not by hand.
-- repair with quarantine: KEYS end with the marker, and ARGV with 0, the number of nodes and maxTTL in ms.

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
if fence then
for i = 1, n do
redis.call('PEXPIRE', KEYS[n + i], keep)
local c = tonumber(redis.pcall('GET', KEYS[n + i]) or 0)
if c and c < tonumber(fence) then redis.call('SET', KEYS[n + i], fence, 'PX', keep) end
end
end
return 1
