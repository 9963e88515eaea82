module github.com/seed6c881748/redlock/proof

go 1.25.0

replace github.com/seed6c881748/redlock => ../

require (
	github.com/gomodule/redigo v1.9.3
	github.com/seed6c881748/redlock v0.0.0
	github.com/seed6c881748/redlock/bench v0.0.0
	github.com/seed6c881748/redlock/compat v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/sync v0.22.0
	golang.org/x/sys v0.45.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/bsm/redislock v0.9.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-redsync/redsync/v4 v4.17.0 // indirect
	github.com/redis/go-redis/v9 v9.21.0 // indirect
	github.com/redis/rueidis v1.0.76 // indirect
	github.com/redis/rueidis/rueidiscompat v1.0.76 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/seed6c881748/redlock/bench => ../bench

replace github.com/seed6c881748/redlock/compat => ../compat
