-- run answers the run_id of the server.

-- begin run
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:([0-9a-f]+)')
if not run or #run ~= 40 or run == string.rep(string.sub(run, 1, 1), 40) then
  return redis.error_reply('NOPERM quarantine takes the right to INFO, and a server that shows its run_id')
end
-- end run
return run
