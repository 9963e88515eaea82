package testcluster

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

const setAndGet = `redis.call("SET", KEYS[1], ARGV[1]) return redis.call("GET", KEYS[1])`

// get returns a pool's connection that is closed with the test.
func get(t *testing.T, pool *redis.Pool) redis.Conn {
	t.Helper()
	conn, err := pool.GetContext(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// requireKey checks the value of the key k.
func requireKey(t *testing.T, n *Node, want string) {
	t.Helper()
	got, ok, err := n.Get("k")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, want, got)
}

func requireNoKey(t *testing.T, n *Node) {
	t.Helper()
	_, ok, err := n.Get("k")
	require.NoError(t, err)
	require.False(t, ok)
}

func TestBubbleNodeHasAClockOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := RunBubble(t, 1).Nodes[0]
		conn := get(t, n.Pool())
		shows := func(want time.Duration, since time.Time) {
			t.Helper()
			at, err := redis.Int64s(conn.Do("TIME"))
			require.NoError(t, err)
			require.Equal(t, want, time.Unix(at[0], at[1]*1000).Sub(since))
		}
		start := time.Now()
		require.NoError(t, n.SetRate(1.25))
		require.NoError(t, n.Set("k", "v", 10*time.Second))
		time.Sleep(4 * time.Second)
		shows(5*time.Second, start)
		keys, err := n.Keys()
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, keys["k"].TTL)
		time.Sleep(4*time.Second - 1)
		requireKey(t, n, "v")
		time.Sleep(time.Nanosecond)
		requireNoKey(t, n)

		// In a script, too; and it goes on from where it was.
		require.NoError(t, n.SetRate(0.5))
		shows(10*time.Second, start)
		_, err = conn.Do("EVAL", `redis.call("SET", KEYS[1], "v", "PX", 10000) return redis.call("TIME")`, 1, "k")
		require.NoError(t, err)
		require.NoError(t, n.LeapClock(9*time.Second))
		time.Sleep(2*time.Second - 1)
		requireKey(t, n, "v")
		time.Sleep(time.Nanosecond)
		requireNoKey(t, n)
		shows(20*time.Second, start)
	})
}

func TestEmbeddedStopAndRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := RunBubble(t, 1).Nodes[0]
		pool := n.Pool()
		for _, keep := range []bool{true, false, true, false} {
			conn := get(t, pool)
			_, err := conn.Do("EVAL", setAndGet, 1, "k", "v")
			require.NoError(t, err)
			sha, err := redis.String(conn.Do("SCRIPT", "LOAD", setAndGet))
			require.NoError(t, err)
			require.NoError(t, n.Hang())
			require.NoError(t, n.Stop())
			_, err = conn.Do("GET", "k")
			require.ErrorIs(t, err, syscall.ECONNRESET)
			_, err = n.Dial(t.Context())
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			requireKey(t, n, "v")

			require.NoError(t, n.Restart(keep))
			conn = get(t, pool)
			_, err = conn.Do("EVALSHA", sha, 1, "k", "v2")
			require.ErrorContains(t, err, "NOSCRIPT", "a restart loses the scripts")
			if keep {
				requireKey(t, n, "v")
			} else {
				requireNoKey(t, n)
			}
		}
		// Restart also does for a running node, and its connections break.
		conn := get(t, pool)
		_, err := conn.Do("PING")
		require.NoError(t, err)
		require.NoError(t, n.Restart(true))
		_, err = conn.Do("PING")
		require.Error(t, err)
	})
}

func TestSetErrorAndOnCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := RunBubble(t, 1).Nodes[0]
		conn := get(t, n.Pool())
		var seen []string
		require.NoError(t, n.OnCommand(func(cmd string, args []string) {
			seen = append(seen, cmd+" "+args[len(args)-1])
		}))
		_, err := conn.Do("eval", setAndGet, 1, "k", "v")
		require.NoError(t, err)
		require.NoError(t, n.SetError("LOADING the dataset"))
		_, err = conn.Do("SET", "k", "w")
		require.EqualError(t, err, "LOADING the dataset")
		require.NoError(t, n.SetError(""))
		require.NoError(t, n.OnCommand(nil))
		_, err = conn.Do("GET", "k")
		require.NoError(t, err)
		require.Equal(t, []string{"EVAL v", "SET w"}, seen, "neither nested commands nor those of the node itself")
		requireKey(t, n, "v")
	})
}

func TestOnCommandMayStopTheNode(t *testing.T) {
	for name, act := range map[string]func(*Node) error{
		"stop":    (*Node).Stop,
		"restart": func(n *Node) error { return n.Restart(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := RunBubble(t, 1).Nodes[0]
				conn := get(t, n.Pool())
				acted := make(chan error, 1)
				require.NoError(t, n.OnCommand(func(string, []string) { acted <- act(n) }))
				_, err := conn.Do("SET", "k", "v")
				require.Error(t, err)
				require.NoError(t, <-acted)
				synctest.Wait()
				requireNoKey(t, n)
			})
		})
	}
}

func TestStopIsFinal(t *testing.T) {
	// What a stopped node had accepted must not show up after its restart.
	requireNoLeaks(t)
	c := RunEmbedded(t, 1)
	n := c.Nodes[0]
	for range 50 {
		started := make(chan struct{}, 1)
		require.NoError(t, n.OnCommand(func(string, []string) {
			select {
			case started <- struct{}{}:
			default:
			}
		}))
		done := make(chan struct{})
		go func() {
			defer close(done)
			conn, err := n.Conn(context.Background())
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			for range 20 {
				_ = conn.Send("SET", "k", "v")
			}
			_ = conn.Flush()
			_, _ = conn.Receive()
		}()
		<-started
		require.NoError(t, n.Restart(false))
		requireNoKey(t, n)
		<-done
		require.NoError(t, n.Restart(false))
		requireNoKey(t, n)
	}
}
