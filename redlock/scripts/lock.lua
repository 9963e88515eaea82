-- lock sets every key to the token, or none.
--
--    KEYS  the resources' keys
--    ARGV  token, ttl in ms
--    1     all keys hold the token: set now, or they did already (then nothing is changed: a request that runs twice is
--          harmless)
--    {pttl, digest, owner}
--          refused: how long the key that is kept longest still lives, -1: no expiry; and who holds the first resource
--          that is taken: a digest of its token, and its label, empty if it has none
--
-- A request that runs again, late, sets only the keys that are missing: an extension may have given the others a longer
-- life since, and been counted.

-- One resource, the common case, takes two calls. SET NX rather than MGET and SET: MGET shows a key of another type as
-- missing, and SET would overwrite it.
local n = #KEYS
if n == 1 and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end

-- begin look: how many resources hold the token, which hold another one, for how long the longest of these is
-- kept, and who holds the first. The first, as that is the same one on all nodes: which of two holders keeps its key
-- longest may differ by a round trip from node to node, and a lock that is taken would look like a split vote, which
-- is contended for. A holder is shown by a digest of its token, which is what it takes to release the lock, and by the
-- label in it; tokens.Digest and tokens.LabelOf are the same in Go.
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
-- end look
if longest then return {longest, holder, owner} end
-- begin grant
if mine < n then
  for i = 1, n do redis.call('SET', KEYS[i], ARGV[1], 'NX', 'PX', ARGV[2]) end
end
-- end grant
return 1
