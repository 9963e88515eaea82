// Package released holds the drop-in against the released module of redsync: its exported names, its own tests, its
// speed, and a fleet in which both lock the same resources. It is a module of its own, so that users of the drop-in get
// neither redsync nor the six clients of Redis that redsync's tests need.
package released

// What redsync's tests import, so that go.mod has it: they are compiled in a copy; see suite_test.go.
import (
	_ "github.com/go-redis/redis"
	_ "github.com/go-redis/redis/v7"
	_ "github.com/go-redis/redis/v8"
	_ "github.com/go-redsync/redsync/v4/redis/goredis"
	_ "github.com/go-redsync/redsync/v4/redis/goredis/v7"
	_ "github.com/go-redsync/redsync/v4/redis/redigo"
	_ "github.com/go-redsync/redsync/v4/redis/rueidis"
	_ "github.com/gomodule/redigo/redis"
	_ "github.com/redis/go-redis/v9"
	_ "github.com/redis/rueidis"
	_ "github.com/redis/rueidis/rueidiscompat"
	_ "github.com/stvp/tempredis"
	_ "golang.org/x/sync/errgroup"

	_ "github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v8"
	_ "github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v9"
)
