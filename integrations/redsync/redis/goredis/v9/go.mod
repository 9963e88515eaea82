module github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v9

go 1.25.0

require (
	github.com/redis/go-redis/v9 v9.22.0
	github.com/seed6c881748/redlock v0.0.0
	github.com/seed6c881748/redlock/integrations/goredis v0.0.0
	github.com/seed6c881748/redlock/integrations/redsync v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/gomodule/redigo v1.9.3 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.30.0 // indirect
)

replace (
	github.com/seed6c881748/redlock => ../../../../../
	github.com/seed6c881748/redlock/integrations/goredis => ../../../../goredis/
	github.com/seed6c881748/redlock/integrations/redsync => ../../../
)
