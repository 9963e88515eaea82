package redlock

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A fenceTwin is a node next to a modelNode that is to do the same.
type fenceTwin struct {
	t      *testing.T
	rand   *rand.Rand
	node   *testcluster.Node
	conn   redis.Conn
	model  modelNode
	claims []*claim
	wants  [][]int // by claim

	granted, refused, failed int
}

const twinProposal = 2 // where a lock request has its proposal

// newFenceTwin has two attempts for each way to want some of so many resources.
func newFenceTwin(t *testing.T, n *testcluster.Node, resources int) *fenceTwin {
	t.Helper()
	conn, err := n.Conn(t.Context())
	require.NoError(t, err)
	tw := &fenceTwin{t: t, rand: rand.New(rand.NewPCG(1, uint64(resources))), node: n, conn: conn}
	for set := 1; set < 1<<resources; set++ {
		var wants []int
		var names []string
		var keys []any
		for r := range resources {
			if set>>r&1 != 0 {
				wants, names = append(wants, r), append(names, twinName(r))
				keys = append(keys, twinName(r))
			}
		}
		for range 2 {
			c := newClaim(names, keys, "", time.Hour, 1)
			c.withFencing(newFencing("", names, keys, time.Hour), time.UnixMicro(0))
			tw.claims, tw.wants = append(tw.claims, c), append(tw.wants, wants)
		}
	}
	return tw
}

func twinName(r int) string { return string(rune('x' + r)) }

func twinCounter(r int) string { return reservedMark + fences.Mark + twinName(r) }

// evalCommand sends a command by its script.
func evalCommand(conn redis.Conn, cmd node.Command) (any, error) {
	args := append(append([]any{cmd.Script.Source, len(cmd.Keys)}, cmd.Keys...), cmd.Args...)
	return conn.Do("EVAL", args...)
}

func (tw *fenceTwin) eval(cmd node.Command) (any, error) {
	return evalCommand(tw.conn, cmd)
}

// run does random things with both and compares them after each.
func (tw *fenceTwin) run(steps int) {
	tw.t.Helper()
	for range steps {
		k := tw.rand.IntN(len(tw.claims))
		switch tw.rand.IntN(8) {
		case 0, 1, 2:
			tw.lock(k)
		case 3, 4, 5:
			tw.keep(k)
		case 6:
			r := tw.rand.IntN(modelResources)
			require.NoError(tw.t, tw.node.Del(twinName(r)))
			tw.model.token[r] = 0
		case 7:
			if r := tw.rand.IntN(modelResources); tw.rand.IntN(4) == 0 {
				require.NoError(tw.t, tw.node.Del(twinCounter(r)))
				tw.model.counter[r] = 0
			}
		}
		tw.same()
	}
	require.NoError(tw.t, tw.conn.Close())
	tw.t.Log(tw.granted, "grants,", tw.refused, "refusals,", tw.failed, "errors")
	require.Positive(tw.t, tw.granted)
	require.Positive(tw.t, tw.refused)
	require.Positive(tw.t, tw.failed)
}

// number is one next to the largest counter.
func (tw *fenceTwin) number(k int) int64 {
	_, _, top, _ := tw.model.look(0, tw.wants[k])
	return max(1, top+tw.rand.Int64N(4)-1)
}

// lock sends the lock request of attempt k, by one of its two scripts. A proposal that
// is far ahead of the server's clock is none. Where a counter is missing, the server's
// clock is the proposal: none is near it.
func (tw *fenceTwin) lock(k int) {
	tw.t.Helper()
	c, proposal := tw.claims[k], tw.number(k)
	c.args[twinProposal] = proposal
	_, others, top, low := tw.model.look(uint8(k+1), tw.wants[k])
	if tw.rand.IntN(4) == 0 {
		c.args[twinProposal], proposal = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), 0
	}
	cmd := c.lockCommand()
	if tw.rand.IntN(2) == 0 {
		cmd = queueCommand((&core{channel: "c"}).queueKeys(c.resources, c.keys).keys, "c", c.args, c.fencing, 0, time.Hour, false)
	}
	before := time.Now()
	reply, err := tw.eval(cmd)
	if low == 0 && err == nil {
		if fence := cmd.Script.Decode(reply).Fence; fence > 0 {
			require.GreaterOrEqual(tw.t, fence, before.Truncate(time.Second).UnixMicro())
			require.LessOrEqual(tw.t, fence, max(top+1, proposal, time.Now().UnixMicro()))
			proposal = fence
		}
	}
	want := tw.model.lock(uint8(k+1), tw.wants[k], proposal)
	switch {
	case want == 0 && others == 0:
		tw.failed++
		require.ErrorContains(tw.t, err, "NOFENCE")
		return
	case want == 0:
		tw.refused++
	default:
		tw.granted++
	}
	require.NoError(tw.t, err)
	out := cmd.Script.Decode(reply)
	require.Equal(tw.t, want, out.Fence)
	require.Equal(tw.t, want > 0, out.Stance == node.Yes)
}

// keep sends one of the other requests of attempt k.
func (tw *fenceTwin) keep(k int) {
	tw.t.Helper()
	c, token, wants := tw.claims[k], uint8(k+1), tw.wants[k]
	fence := tw.number(k)
	c.fencing.fence = fence
	var cmd node.Command
	var want int64
	switch tw.rand.IntN(3) {
	case 0:
		cmd, want = raiseCommand(c.args, fence, c.fencing), tw.model.raise(token, wants, fence)
	case 1:
		cmd, want = repairCommand(c.keys, c.token, serverMillis(time.Hour), c.fencing), tw.model.repair(token, wants, fence)
	case 2:
		cmd, want = extendCommand(c.keys, c.token, serverMillis(time.Hour), c.fencing), tw.model.extend(token, wants, fence)
	}
	reply, err := tw.eval(cmd)
	require.NoError(tw.t, err)
	require.Equal(tw.t, want, reply, cmd.Script.Name)
	if cmd.Script == raiseScript {
		require.Equal(tw.t, want, cmd.Script.Decode(reply).Fence)
	}
}

// same compares what they store.
func (tw *fenceTwin) same() {
	tw.t.Helper()
	var stored modelNode
	for r := range modelResources {
		token, held, err := tw.node.Get(twinName(r))
		require.NoError(tw.t, err)
		for k, c := range tw.claims {
			if held && c.token == token {
				stored.token[r] = uint8(k + 1)
			}
		}
		require.Equal(tw.t, held, stored.token[r] != 0)
		counter, there, err := tw.node.Get(twinCounter(r))
		require.NoError(tw.t, err)
		if there {
			stored.counter[r], err = strconv.ParseInt(counter, 10, 64)
			require.NoError(tw.t, err)
		}
	}
	require.Equal(tw.t, tw.model, stored)
}

func TestFenceModelNodeIsTheScripts(t *testing.T) {
	steps := rounds(5000, 500)
	if testcluster.RaceEnabled {
		steps = min(steps, 1000)
	}
	for resources := 1; resources <= modelResources; resources++ {
		inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
			newFenceTwin(t, c.Nodes[0], resources).run(steps)
		})
	}
}
