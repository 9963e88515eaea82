package redlock

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/world"
)

// evalCommand sends a command by its script.
func evalCommand(conn redis.Conn, cmd node.Command) (any, error) {
	args := append(append([]any{cmd.Script.Source, len(cmd.Keys)}, cmd.Keys...), cmd.Args...)
	return conn.Do("EVAL", args...)
}

// A serverTwin is a node next to a world.Server that is to do the same. A tick is a
// second.
type serverTwin struct {
	t      *testing.T
	rand   *rand.Rand
	node   *testcluster.Node
	conn   redis.Conn
	model  world.Server
	now    time.Duration
	claims [3]*claim // by token
}

// ticks is a time that is over after so many of them.
func ticks(n int) time.Duration { return time.Duration(n)*time.Second - 10*time.Millisecond }

func (tw *serverTwin) eval(cmd node.Command) node.Stance {
	tw.t.Helper()
	reply, err := evalCommand(tw.conn, cmd)
	require.NoError(tw.t, err)
	return cmd.Script.Decode(reply).Stance
}

// direct sends a lock request as the server's own command.
func (tw *serverTwin) direct(c *claim) node.Stance {
	tw.t.Helper()
	value, err := tw.conn.Do("SET", c.keys[0], c.args[0], "NX", "GET", "PX", c.args[1])
	require.NoError(tw.t, err)
	left, err := redis.Int64(tw.conn.Do("PTTL", c.keys[0]))
	require.NoError(tw.t, err)
	return lockCommand(c).Script.Direct(c.args[0], value, left).Stance
}

// look asks for both tokens, and says whether this one is there.
func (tw *serverTwin) look(token int) bool {
	tw.t.Helper()
	cmd := node.Command{Script: node.Look}
	for _, c := range tw.claims[1:] {
		cmd.Keys, cmd.Args = append(cmd.Keys, c.keys[0]), append(cmd.Args, c.Value())
	}
	places, err := redis.Ints(evalCommand(tw.conn, cmd))
	require.NoError(tw.t, err)
	return slices.Contains(places, token)
}

// step does a random thing with both.
func (tw *serverTwin) step() {
	tw.t.Helper()
	token, ttl := 1+tw.rand.IntN(2), 1+tw.rand.IntN(2)
	until := tw.now + time.Duration(ttl)*time.Second
	c := tw.claims[token]
	c.args[1] = serverMillis(ticks(ttl))
	var want, got node.Stance
	switch tw.rand.IntN(9) {
	case 0:
		time.Sleep(time.Second)
		tw.now += time.Second
		tw.model.Expire(tw.now)
	case 1:
		want, got = tw.model.Lock(token, until), tw.eval(lockCommand(c))
	case 2:
		want, got = tw.model.Lock(token, until), tw.direct(c)
	case 3:
		want, got = tw.model.Extend(token, until), tw.eval(extendCommand(c, serverMillis(ticks(ttl)), false))
	case 4:
		want, got = tw.model.Repair(token, until), tw.eval(repairCommand(c, serverMillis(ticks(ttl))))
	case 5:
		want, got = tw.model.Release(token), tw.eval(undoCommand(c))
	case 6:
		late, _ := c.Release(time.Now(), true)
		want, got = tw.model.Release(token), tw.eval(late)
	case 7:
		want, got = tw.model.Leave(token, until), tw.eval(leaveCommand(c, serverMillis(ticks(ttl))))
	case 8:
		require.Equal(tw.t, tw.model.Token == token, tw.look(token))
	}
	require.Equal(tw.t, want, got)
	require.Equal(tw.t, tw.model, tw.stored())
}

func (tw *serverTwin) stored() (s world.Server) {
	tw.t.Helper()
	all, err := tw.node.Keys()
	require.NoError(tw.t, err)
	for _, state := range all {
		s.Until = tw.now + (state.TTL + time.Second - 1).Truncate(time.Second)
		for i, c := range tw.claims {
			if c != nil && c.token() == state.Value {
				s.Token = i
			}
		}
	}
	return s
}

// What the search of test/world takes for a server is what the Lua does.
func TestServerIsTheScripts(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		conn, err := c.Nodes[0].Conn(t.Context())
		require.NoError(t, err)
		tw := &serverTwin{t: t, rand: rand.New(rand.NewPCG(1, 2)), node: c.Nodes[0], conn: conn}
		for token := range tw.claims[1:] {
			tw.claims[token+1] = newClaim([]string{"a"}, []any{"a"}, "", time.Second, 1)
		}
		for range rounds(3000, 500) {
			tw.step()
		}
		require.NoError(t, conn.Close())
	})
}
