-- undo is the release of an attempt that failed: it deletes the keys that hold the token, and tells nobody. If it did,
-- every failure in a contest would set off the next.
--
--    KEYS  the resources' keys
--    ARGV  token
--    1     every key held it
--    0     at least one was gone or another's

local mine = 0
for i = 1, #KEYS do
  if redis.pcall('GET', KEYS[i]) == ARGV[1] then
    redis.call('DEL', KEYS[i])
    mine = mine + 1
  end
end
if mine == #KEYS then return 1 end
return 0
