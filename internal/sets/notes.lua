-- notes reads which sets of nodes the clients of this server have, and notes one. Nothing that goes wrong is an
-- error: what is not known is no alarm.
--
-- A line of the key: the run that it was written in, when by this server's clock, what set it is, and the set. It
-- counts in that run alone, since a replica that was promoted, or a file that was restored, has others' lines.
--
--    KEYS  the key of the notes
--    ARGV  for how long a line counts, in ms; then, from whoever notes a set, what the time is by this server's
--          clock, in ms; how far that may be off; what set it is; and the set
--    ''    the server does not tell its run, or the time
--    text  the run, for how many seconds it has lasted, the time in ms, and 1 if a line was written; then, a line
--          each, how old in ms another one's line is, and its set

local info, time = redis.pcall('INFO', 'server'), redis.pcall('TIME')
if type(info) ~= 'string' or time.err then return '' end
local run, uptime = string.match(info, 'run_id:(%x+)'), string.match(info, 'uptime_in_seconds:(-?%d+)')
if not run or not uptime then return '' end
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local life, at, off, what, set = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]

-- A line that is more than a fifth as old as it may get is written again by whoever comes.
local fresh, kept, others = false, {}, {}
local text = redis.pcall('GET', KEYS[1])
if type(text) ~= 'string' or #text > 65536 then text = '' end
for line in string.gmatch(text, '[^\n]+') do
  local of, written, key, theirs = string.match(line, '^(%x+) (%d+) (%x+) (.+)$')
  local age = of == run and now - written
  if age and age >= 0 and age < life then
    if key ~= what then
      kept[#kept + 1] = line
      others[#others + 1] = string.format('%.0f %s', age, theirs)
    elseif age <= life / 5 then
      fresh = true
    end
  end
end

-- A line that has come late, from a server or a client that stood still, tells what was true once.
local wrote = 0
if set and not fresh and math.abs(now - at) <= off then
  kept[#kept + 1] = string.format('%s %.0f %s %s', run, now, what, set)
  text = table.concat(kept, '\n')
  if #text <= 65536 then
    local done = redis.pcall('SET', KEYS[1], text, 'PX', life)
    if type(done) == 'table' and done.ok then wrote = 1 end
  end
end
table.insert(others, 1, string.format('%s %s %.0f %d', run, uptime, now, wrote))
return table.concat(others, '\n')
