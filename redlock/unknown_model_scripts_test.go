package redlock

import (
	"math/rand/v2"
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

func (tw *unknownTwin) eval(cmd node.Command, gen uint8) node.Outcome {
	tw.t.Helper()
	reply, err := evalCommand(tw.conn, cmd, gen)
	require.NoError(tw.t, err)
	return cmd.Script.Decode(reply)
}

// step does a random thing with both.
func (tw *unknownTwin) step() {
	tw.t.Helper()
	token, ttl, gen := uint8(1+tw.rand.IntN(2)), uint8(1+tw.rand.IntN(2)), uint8(tw.rand.IntN(3))
	c := tw.claims[token]
	c.args[1] = serverMillis(ticks(ttl))
	var want, got node.Outcome
	switch tw.rand.IntN(6) {
	case 0:
		time.Sleep(time.Second)
		tw.model.tick()
	case 1:
		want, got = tw.model.lock(token, ttl, gen), tw.eval(c.lockCommand(), gen)
	case 2:
		want, got = tw.model.extend(token, ttl), tw.eval(extendCommand(c.keys, c.token, ticks(ttl), nil), gen)
	case 3:
		want, got = tw.model.repair(token, ttl, gen), tw.eval(repairCommand(c.keys, c.token, ticks(ttl), nil), gen)
	case 4:
		want, got = tw.model.release(token), tw.eval(c.ReleaseCommand(time.Now()), gen)
	case 5:
		want = tw.model.tombstone(gen, ttl)
		got = tw.eval(node.Command{Script: node.Tombstone, Keys: []any{"stone"}, Args: []any{gen, serverMillis(ticks(ttl))}}, gen)
	}
	require.Equal(tw.t, want.Stance, got.Stance)
	require.Equal(tw.t, want.Stale, got.Stale)
	require.Equal(tw.t, tw.model, tw.stored())
}

func (tw *unknownTwin) stored() (n serverModel) {
	tw.t.Helper()
	all, err := tw.node.Keys()
	require.NoError(tw.t, err)
	for key, state := range all {
		left := uint8((state.TTL + time.Second - 1) / time.Second)
		if key == "stone" {
			n.stone, n.stoneLeft = state.Value[0]-'0', left
			continue
		}
		n.left = left
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
