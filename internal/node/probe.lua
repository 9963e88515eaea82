-- probe is a write as a lock request is one: a server that refuses that refuses this, too. It leaves nothing.
--
--    KEYS  a key that never exists
--    1     done

redis.call('SET', KEYS[1], '1', 'PX', 1000)
redis.call('DEL', KEYS[1])
return 1
