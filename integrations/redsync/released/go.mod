module github.com/seed6c881748/redlock/integrations/redsync/released

go 1.25.0

require (
	github.com/go-redis/redis v6.15.9+incompatible
	github.com/go-redis/redis/v7 v7.4.1
	github.com/go-redis/redis/v8 v8.11.5
	github.com/go-redsync/redsync/v4 v4.17.0
	github.com/gomodule/redigo v1.9.3
	github.com/redis/go-redis/v9 v9.22.0
	github.com/redis/rueidis v1.0.76
	github.com/redis/rueidis/rueidiscompat v1.0.76
	github.com/seed6c881748/redlock v0.0.0
	github.com/seed6c881748/redlock/integrations/redsync v0.0.0-00010101000000-000000000000
	github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v8 v8.0.0-00010101000000-000000000000
	github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v9 v9.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	github.com/stvp/tempredis v0.0.0-20181119212430-b82af8480203
	golang.org/x/sync v0.22.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/seed6c881748/redlock/integrations/goredis v0.0.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.43.0 // indirect
)

replace (
	github.com/seed6c881748/redlock => ../../../
	github.com/seed6c881748/redlock/integrations/goredis => ../../goredis/
	github.com/seed6c881748/redlock/integrations/redsync => ../
	github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v8 => ../redis/goredis/v8
	github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v9 => ../redis/goredis/v9
)
