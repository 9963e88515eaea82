-- check comes before a script that grants. Without its marker the node is new or has lost its data, with the one of
-- another run it has restarted: then it does not grant until the time of quarantine is over. The marker must be looked
-- up where the lock is granted: what is looked up once per connection fails behind a proxy that changes the server under
-- its clients.
--
-- The marker says in which run of the server it was written, whether the node votes, with how many nodes its clients
-- work, and the largest maxTTL of a client that has asked this node for a lock:
--
--    run_id votes|waits nodes maxTTL since [other]    maxTTL in ms; since: when the run was first seen, by the node's
--                                                     clock in ms; 0: admitted. other: nodes + 1 or nodes - 1, once a
--                                                     client with so many has come
--
--    KEYS  ..., the marker
--    ARGV  ..., '1' to do no more than look, the number of nodes, maxTTL in ms
--    {'Q', ms}             abstained, for so long
--    {'F', nodes[, other]} refused: the node has been set up for clients with so many nodes
--    1                     after a look

-- begin run
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:([0-9a-f]+)')
if not run or #run ~= 40 or run == string.rep(string.sub(run, 1, 1), 40) then
  return redis.error_reply('NOPERM quarantine takes the right to INFO, and a server that shows its run_id')
end
-- end run
local state = redis.pcall('GET', marker)
if type(state) == 'table' and not string.find(state.err, 'WRONGTYPE', 1, true) then return state end
if type(state) ~= 'string' then state = '' end
local seen, may, setup, longest, since, other = string.match(state, '^([0-9a-f]+) (%l+) (%d+) (%d+) (%d+) ?(%d*)$')
local votes = seen == run and may == 'votes'
setup, longest, since, maxTTL = setup or nodes, tonumber(longest or 0), tonumber(since), tonumber(maxTTL)

-- The first client with one node more, or with one less, makes the sizes a pair; a third size gets nothing, until
-- admit leaves one of the pair. A pair that moved on by itself, when one of the two has not come for a while, would
-- let in a client of two steps ago beside whoever was suspended for as long.
if (other or '') == '' then other = math.abs(setup - nodes) == 1 and nodes or '' end
local fits = setup == nodes or other == nodes

-- A client with a larger maxTTL than the marker's raises it, before it gets a lock. The quarantine then lasts for the
-- larger one, also if the smaller one's is over: so since stays in the marker when the node votes. It counts from since,
-- not from when that client came: a lock that was forgotten was granted before since. What clients of the larger maxTTL
-- have been granted later, they were granted by other nodes, or with this marker. A smaller maxTTL changes nothing, and
-- neither does a client of a third size.
if fits and longest < maxTTL then longest, votes = maxTTL, false end

-- The node's clock may have been set back: then the time of quarantine begins again, or it would last as much longer.
-- The margin is a second.
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
