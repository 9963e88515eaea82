-- look tells which keys still hold a token.
--
--    KEYS  keys, maybe of several tokens
--    ARGV  the token of each
--    {i, ...}
--          the places of the keys that hold it

local held = {}
for i, key in ipairs(KEYS) do
  if redis.pcall('GET', key) == ARGV[i] then held[#held + 1] = i end
end
return held
