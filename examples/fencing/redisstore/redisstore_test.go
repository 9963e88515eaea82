package redisstore

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/fencing/internal/fencetest"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

const key = "value:1"

// servers runs a test with an in-memory server and with a real one.
func servers(t *testing.T, test func(t *testing.T, open func(t *testing.T) *redis.Pool)) {
	t.Helper()
	t.Run("Embedded", func(t *testing.T) {
		test(t, func(t *testing.T) *redis.Pool { return testcluster.RunEmbedded(t, 1).Nodes[0].Pool() })
	})
	t.Run("Server", func(t *testing.T) {
		test(t, func(t *testing.T) *redis.Pool { return testcluster.RunServers(t, 1).Nodes[0].Pool() })
	})
}

func TestRefusesEarlierHolders(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, open func(t *testing.T) *redis.Pool) {
		fencetest.Run(t, func(t *testing.T) fencetest.Store {
			pool := open(t)
			return fencetest.Store{
				Write: func(fence int64, value string) error { return Write(t.Context(), pool, key, fence, value) },
				Read:  func(fence int64) (string, error) { return Read(t.Context(), pool, key, fence) },
				Stored: func() (value string, fence int64, err error) {
					value, err = redis.String(do(t, pool, "HGET", key, "value"))
					if err != nil {
						return "", 0, err
					}
					fence, err = redis.Int64(do(t, pool, "HGET", key, "fence"))
					return value, fence, err
				},
				Stale: ErrStale,
			}
		})
	})
}

// TestAcceptedFencesNeverGoDown numbers the writes on the server, each in one
// transaction with its number.
func TestAcceptedFencesNeverGoDown(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, open func(t *testing.T) *redis.Pool) {
		const holders, rounds = 8, 20
		pool := open(t)
		order := make([]int64, holders*rounds+1) // Fences by number; 0 was refused.
		var wg sync.WaitGroup
		for i := range holders {
			rng := rand.New(rand.NewPCG(3, uint64(i)))
			wg.Go(func() {
				for n := range int64(rounds) {
					fence := 1 + 20*n + rng.Int64N(100)
					nr, err := numbered(pool, fence)
					if err == nil {
						order[nr] = fence
					} else if !errors.Is(err, ErrStale) {
						t.Errorf("fence %d: %v", fence, err)
					}
				}
			})
		}
		wg.Wait()
		accepted := slices.DeleteFunc(order, func(fence int64) bool { return fence == 0 })
		require.NotEmpty(t, accepted)
		require.Less(t, len(accepted), holders*rounds, "none was refused")
		require.True(t, slices.IsSorted(accepted), "%v", accepted)
	})
}

// numbered is Write, and returns which one it was.
func numbered(pool *redis.Pool, fence int64) (nr int64, err error) {
	conn := pool.Get()
	defer func() { _ = conn.Close() }()
	err = errors.Join(
		conn.Send("MULTI"),
		writeScript.Send(conn, key, fence, "x"),
		conn.Send("INCR", "nr"),
	)
	if err != nil {
		return 0, err
	}
	replies, err := redis.Values(conn.Do("EXEC"))
	if err != nil {
		return 0, err
	}
	nr, err = redis.Int64(replies[1], nil)
	if err != nil {
		return 0, err
	}
	_, err = decode(fence)(replies[0], nil)
	return nr, err
}

func TestReadOfNothingRemembersTheFence(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, open func(t *testing.T) *redis.Pool) {
		pool := open(t)
		_, err := Read(t.Context(), pool, key, 5)
		require.ErrorIs(t, err, redis.ErrNil)
		require.ErrorIs(t, Write(t.Context(), pool, key, 4, "x"), ErrStale)
		require.NoError(t, Write(t.Context(), pool, key, 5, ""))
		value, err := Read(t.Context(), pool, key, 5)
		require.NoError(t, err)
		require.Empty(t, value)
	})
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, open func(t *testing.T) *redis.Pool) {
		pool := open(t)
		require.ErrorContains(t, Write(t.Context(), pool, key, maxFence+1, "x"), "2^53")

		// A fence or a key of another kind is no reason to write.
		_, err := do(t, pool, "HSET", key, "fence", "none", "value", "v")
		require.NoError(t, err)
		err = Write(t.Context(), pool, key, 5, "x")
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrStale)
		value, err := redis.String(do(t, pool, "HGET", key, "value"))
		require.NoError(t, err)
		require.Equal(t, "v", value)

		_, err = do(t, pool, "SET", "text", "x")
		require.NoError(t, err)
		require.ErrorContains(t, Write(t.Context(), pool, "text", 5, "x"), "WRONGTYPE")
	})
}

func do(t *testing.T, pool *redis.Pool, cmd string, args ...any) (any, error) {
	t.Helper()
	conn, err := pool.GetContext(t.Context())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return redis.DoContext(conn, t.Context(), cmd, args...)
}
