-- probe tries out the commands that the scripts of the locks call.
--
--    KEYS  a key of its own
--    ARGV  a channel on which nobody listens
--    {command, error, ...}
--          those that failed
--
-- It changes nothing: the key is a string while the commands for sorted sets are tried, so these
-- fail, which counts as permitted. It would expire if DEL were forbidden. Where it cannot be set,
-- they are left out.

local failed = {}
local function try(...)
  local r = redis.pcall(...)
  if type(r) ~= 'table' or not r.err or string.find(r.err, 'WRONGTYPE', 1, true) then return true end
  failed[#failed + 1] = string.lower((select(1, ...)))
  failed[#failed + 1] = r.err
  return false
end
try('TIME')
try('EXISTS', KEYS[1])
if try('SET', KEYS[1], '1', 'PX', 1000) then
  try('ZADD', KEYS[1], 0, 'x')
  try('ZREM', KEYS[1], 'x')
  try('ZCARD', KEYS[1])
  try('ZPOPMIN', KEYS[1])
end
try('GET', KEYS[1])
try('PTTL', KEYS[1])
try('PEXPIRE', KEYS[1], 1000)
try('DEL', KEYS[1])
try('PUBLISH', ARGV[1], '')
return failed
