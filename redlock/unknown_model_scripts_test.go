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
)

// An unknownTwin is a node next to a serverModel that is to do the same. A tick is a
// second.
type unknownTwin struct {
	t      *testing.T
	rand   *rand.Rand
	node   *testcluster.Node
	conn   redis.Conn
	model  serverModel
	claims [3]*claim // by token
}

// ticks is a time that is over after so many of them.
func ticks(n uint8) time.Duration { return time.Duration(n)*time.Second - 10*time.Millisecond }

func (tw *unknownTwin) eval(cmd node.Command) node.Stance {
	tw.t.Helper()
	reply, err := evalCommand(tw.conn, cmd)
	require.NoError(tw.t, err)
	return cmd.Script.Decode(reply).Stance
}

// direct sends a lock request as the server's own command.
func (tw *unknownTwin) direct(c *claim) node.Stance {
	tw.t.Helper()
	value, err := tw.conn.Do("SET", c.keys[0], c.args[0], "NX", "GET", "PX", c.args[1])
	require.NoError(tw.t, err)
	left, err := redis.Int64(tw.conn.Do("PTTL", c.keys[0]))
	require.NoError(tw.t, err)
	return c.lockCommand().Script.Direct(c.args[0], value, left).Stance
}

// look asks for both tokens, and says whether this one is there.
func (tw *unknownTwin) look(token uint8) bool {
	tw.t.Helper()
	cmd := node.Command{Script: node.Look}
	for _, c := range tw.claims[1:] {
		cmd.Keys, cmd.Args = append(cmd.Keys, c.keys[0]), append(cmd.Args, c.Value())
	}
	places, err := redis.Ints(evalCommand(tw.conn, cmd))
	require.NoError(tw.t, err)
	return slices.Contains(places, int(token))
}

// step does a random thing with both.
func (tw *unknownTwin) step() {
	tw.t.Helper()
	token, ttl := uint8(1+tw.rand.IntN(2)), uint8(1+tw.rand.IntN(2))
	c := tw.claims[token]
	c.args[1] = serverMillis(ticks(ttl))
	var want, got node.Stance
	switch tw.rand.IntN(8) {
	case 0:
		time.Sleep(time.Second)
		tw.model.tick()
	case 1:
		want, got = tw.model.lock(token, ttl), tw.eval(c.lockCommand())
	case 2:
		want, got = tw.model.lock(token, ttl), tw.direct(c)
	case 3:
		want, got = tw.model.extend(token, ttl), tw.eval(extendCommand(c.keys, c.token, serverMillis(ticks(ttl)), nil))
	case 4:
		want, got = tw.model.repair(token, ttl), tw.eval(repairCommand(c.keys, c.token, serverMillis(ticks(ttl)), nil))
	case 5:
		want, got = tw.model.release(token), tw.eval(undoCommand(c.keys, c.args))
	case 6:
		late, _ := c.Release(time.Now(), true)
		want, got = tw.model.release(token), tw.eval(late)
	case 7:
		require.Equal(tw.t, tw.model.token == token, tw.look(token))
	}
	require.Equal(tw.t, want, got)
	require.Equal(tw.t, tw.model, tw.stored())
}

func (tw *unknownTwin) stored() (n serverModel) {
	tw.t.Helper()
	all, err := tw.node.Keys()
	require.NoError(tw.t, err)
	for _, state := range all {
		n.left = uint8((state.TTL + time.Second - 1) / time.Second)
		for i, c := range tw.claims {
			if c != nil && c.token == state.Value {
				n.token = uint8(i)
			}
		}
	}
	return n
}

func TestUnknownModelNodeIsTheScripts(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		conn, err := c.Nodes[0].Conn(t.Context())
		require.NoError(t, err)
		tw := &unknownTwin{t: t, rand: rand.New(rand.NewPCG(1, 2)), node: c.Nodes[0], conn: conn}
		for token := range tw.claims[1:] {
			tw.claims[token+1] = newClaim([]string{"a"}, []any{"a"}, "", time.Second, 1)
		}
		for range rounds(3000, 1000) {
			tw.step()
		}
		require.NoError(t, conn.Close())
	})
}
