-- inspect reads who holds one resource.
--
--    KEYS  the resource's key
--    0                             nobody
--    {token, pttl, digest, owner}  of a long token only its beginning; pttl -1: no expiry; digest and owner as in a
--                                  refusal

local v = redis.call('GET', KEYS[1])
if not v then return 0 end
local owner = #v <= 167 and string.match(v, '^[0-9a-f]+() owner=.') == 33 and string.sub(v, 40) or ''
return {string.sub(v, 1, 9), redis.call('PTTL', KEYS[1]), string.sub(redis.sha1hex(v), 1, 12), owner}
