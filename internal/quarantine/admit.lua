-- admit ends the quarantine of a run, and adopts the configuration: also a smaller maxTTL. No lock that was granted
-- before the run matters any more, to whatever client. Of two sizes that the marker may have had, or of any others, it
-- leaves the one that is given, whose next neighbour may then come.
--
--    KEYS  the marker
--    ARGV  run_id, number of nodes, maxTTL in ms
--    1     done
--    0     refused: it is another run

-- begin run
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:([0-9a-f]+)')
if not run or #run ~= 40 or run == string.rep(string.sub(run, 1, 1), 40) then
  return redis.error_reply('NOPERM quarantine takes the right to INFO, and a server that shows its run_id')
end
-- end run
if run ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], run .. ' votes ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' 0')
return 1
