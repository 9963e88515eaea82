// Package redisstore keeps values in one Redis, which is the resource here and not a
// node of the lock, and refuses what earlier holders of a value's lock write.
//
// A value is a hash with the fields value and fence. A script compares and sets, and a
// Redis runs nothing else meanwhile. WATCH, HGET and a comparison in the program would do
// as well, but take two round trips and a retry.
//
// The Redis must not forget fences: no ttl on these keys, no eviction, a persistence
// that survives a crash (appendfsync always). After a failover to a replica that
// lacks the last writes it may accept an earlier holder once more. A deleted key has
// forgotten its fence.
package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// ErrStale is matched by the error of a holder that comes after a later one. Its lock
// has ended, and it must give up.
var ErrStale = errors.New("redisstore: a later holder has written")

// maxFence is the largest number up to which Lua's numbers are exact. A lock's fence is
// never larger.
const maxFence = 1<<53 - 1

// checkLua answers {0, the fence seen} if ARGV[1] is a smaller one. It compares numbers,
// as text "10" is less than "9". But what is stored is ARGV[1] as it came: of a number
// with 16 digits tostring keeps 14.
const checkLua = `
local seen = redis.call('HGET', KEYS[1], 'fence')
if seen and tonumber(ARGV[1]) < tonumber(seen) then
  return {0, seen}
end
`

var (
	writeScript = redis.NewScript(1, checkLua+`
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return {1, ''}`)

	readScript = redis.NewScript(1, checkLua+`
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return {1, redis.call('HGET', KEYS[1], 'value')}`)
)

// Write sets the value of key. It returns an error that matches ErrStale if a larger
// fence has been used for it. It may be called concurrently.
//
// After another error, such as a lost connection, the value may have been set. To call
// Write again with the same fence and value is safe. Not so to
// write another value: the first request may still be on its way, and lands with an
// equal fence. Take the lock again for that.
func Write(ctx context.Context, pool *redis.Pool, key string, fence int64, value string) error {
	_, err := run(ctx, pool, writeScript, fence, key, fence, value)
	return err
}

// Read returns the value of key for a holder that will write what it computes from it,
// or redis.ErrNil if there is none. In both cases it raises the fence, so that no earlier
// holder changes the value after it was read; HGET would let it. Errors are those of Write.
func Read(ctx context.Context, pool *redis.Pool, key string, fence int64) (string, error) {
	return redis.String(run(ctx, pool, readScript, fence, key, fence))
}

func run(ctx context.Context, pool *redis.Pool, script *redis.Script, fence int64, args ...any) (value any, err error) {
	if fence < 1 || fence > maxFence {
		return nil, fmt.Errorf("redisstore: fence %d: must be from 1 to 2^53-1", fence)
	}
	conn, err := pool.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // It goes back to the pool.
	values, err := redis.Values(script.DoContext(ctx, conn, args...))
	if err != nil {
		return nil, err
	}
	if values[0] != int64(1) {
		return nil, fmt.Errorf("%w: fence %d is behind %s", ErrStale, fence, values[1])
	}
	return values[1], nil
}
