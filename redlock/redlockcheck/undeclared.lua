-- undeclared looks at a key whose name it makes from that of the one that it was given.
--
--    KEYS  a key of the library's
--    why that was refused
--          empty: it was not, or the given one is refused as well

if type(redis.pcall('EXISTS', KEYS[1])) ~= 'number' then return '' end
local made = redis.pcall('EXISTS', KEYS[1] .. 'l')
return type(made) == 'table' and made.err or ''
