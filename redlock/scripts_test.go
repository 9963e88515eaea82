package redlock

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/test/server"
)

// The answers of a node whose scripts are others, or that is none, are what they are worth.
func TestScriptAnswersWithoutALabel(t *testing.T) {
	d := []byte("0a1b2c3d4e5f")
	for _, s := range []*node.Script{lockScript, fencedLockScript, queueScript, fencedQueueScript} {
		out := s.Decode([]any{int64(5), d, []byte("me")})
		holder := &node.Holder{Digest: string(d), Owner: "me", TTL: 5 * time.Millisecond}
		require.Equal(t, node.Outcome{Stance: node.No, Err: ErrTaken, Holder: holder}, out)
		for _, label := range []string{"", "x\ny", "\xff", strings.Repeat("x", tokens.MaxLabel+1)} {
			out = s.Decode([]any{int64(5), d, []byte(label)})
			require.ErrorIs(t, out.Err, ErrTaken)
			require.Empty(t, out.Holder.Owner, "what is no label is not shown")
		}
		for _, bad := range []any{
			[]any{int64(5), d, int64(1)}, []any{int64(5), d, d, d, d}, []any{int64(5)}, []any{d, int64(5), d}, "OK", int64(-1), nil,
		} {
			require.NotErrorIs(t, s.Decode(bad).Err, ErrTaken, "%s %v", s.Name, bad)
			require.Error(t, s.Decode(bad).Err, "%s %v", s.Name, bad)
		}
	}
	require.Equal(t, "why", queueScript.Decode([]any{int64(5), d, []byte("me"), []byte("why")}).Unqueued)
	require.Error(t, unlockScript.Decode("OK").Err)
	require.Error(t, inspectScript.Decode([]any{d, int64(5), d, int64(1)}).Err)
}

// What a node says without a script is worth the same: also if the request runs again, and if the holder's key
// expires before it is asked for how long it lives.
func TestScriptlessAnswersOfALockRequest(t *testing.T) {
	require.Equal(t, node.Outcome{Stance: node.Yes}, answers.Direct("me", nil, 5))
	require.Equal(t, node.Outcome{Stance: node.Yes}, answers.Direct("me", []byte("me"), 5))
	for left, want := range map[int64]time.Duration{5: 5 * time.Millisecond, 0: 0, -2: 0, -1: -1} {
		out := answers.Direct("me", []byte("you"), left)
		require.Equal(t, node.No, out.Stance)
		require.Equal(t, want, out.Holder.TTL, left)
	}
	require.Equal(t, node.Silent, answers.Direct("me", int64(1), 5).Stance)
}

// A command is written when its node comes to it, which may be after others have been made
// for the same claim, and after claims of other calls have come and gone.
func TestScriptArgumentsOfALockRequestStayWhatTheyAre(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		c := newClaim([]string{"a"}, []any{"a"}, time.Minute, 3)
		want := []any{c.token(), int64(60_000)}
		if fenced {
			c.addCounters()
			c.askFence(time.UnixMicro(5), time.Hour, false)
			want = append(want, int64(5), int64(3_600_000))
			_ = raiseCommand(c, 7)
		}
		lock := lockCommand(c)
		_ = queueCommand(c, "channel", time.Second, time.Minute, true)
		_, _ = c.Release(time.Now(), false)
		c.wakeOthers()
		unlock, _ := c.Release(time.Now(), false)
		later := time.Now().Add(time.Second)
		c.keptUntil.Store(&later)
		_, _ = c.Release(time.Now(), false)
		other := newClaim([]string{"a"}, []any{"a"}, time.Hour, 3)
		other.addCounters()
		other.askFence(time.UnixMicro(6), time.Minute, false)
		require.Equal(t, want, lock.Args)
		require.Equal(t, want, lockCommand(c).Args)
		require.Equal(t, want[:1], unlock.Args)
	}
}

var updateScripts = flag.Bool("update-scripts", false, "write docs/generated/scripts")

// composedFolder has the texts of the scripts that are composed in Go, so that a change of what is on
// the wire is seen in review.
const composedFolder = "../docs/generated/scripts"

func TestScriptsThatAreComposedAreWrittenDown(t *testing.T) {
	const run = "0123456789abcdef0123456789abcdef01234567"
	texts := map[string]string{}
	add := func(name, comment string, source any) {
		texts[name+".lua"] = "-- Written by make lua, not by hand.\n-- " + comment + "\n\n" + strings.TrimSpace(source.(string)) + "\n"
	}
	for _, s := range handshakeScripts {
		if s.Grants {
			add("quarantine-"+s.Name, s.Name+" with quarantine: KEYS end with the marker, and ARGV with 0, the number of nodes and maxTTL in ms.",
				grantingScripts.Slow(s).Source)
		}
	}
	add("quarantine-lock-fast", "quarantine-lock for a server in a run, here "+run+", and clients with 3 nodes.",
		grantingScripts.Fast(run, "the marker", "3")[lockScript].Source)

	if *updateScripts {
		require.NoError(t, os.RemoveAll(composedFolder))
		require.NoError(t, os.MkdirAll(composedFolder, 0o755))
		for name, text := range texts {
			require.NoError(t, os.WriteFile(filepath.Join(composedFolder, name), []byte(text), 0o600))
		}
	}
	files, err := filepath.Glob(composedFolder + "/*.lua")
	require.NoError(t, err)
	assert.Len(t, files, len(texts), "make lua removes what is too much")
	for name, want := range texts {
		got, err := os.ReadFile(filepath.Join(composedFolder, name))
		require.NoError(t, err, "make lua writes it")
		assert.Equal(t, want, string(got), "%s: make lua writes it, after a change that is meant", name)
	}
}

// What several scripts do stands in each of them, so that each can be read alone. It must stay the same.
func TestScriptsSayTheSameInTheSameWords(t *testing.T) {
	files, err := filepath.Glob("scripts/*.lua")
	require.NoError(t, err)
	others, err := filepath.Glob("../internal/*/*.lua")
	require.NoError(t, err)
	files = append(files, others...)
	section := regexp.MustCompile(`(?ms)^-- begin (\w+).*?^-- end [^\n]*$`)
	seen := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range section.FindAllStringSubmatch(string(text), -1) {
			if first, ok := seen[m[1]]; ok {
				assert.Equal(t, first, m[0], f)
			}
			seen[m[1]] = m[0]
		}
	}
	assert.Len(t, seen, 9)
}

// What the searches of test/world and test/quorum take for a server is what the Lua does.

// evalCommand sends a command by its script.
func evalCommand(conn redis.Conn, cmd node.Command) (any, error) {
	args := append(append([]any{cmd.Script.Source, len(cmd.Keys)}, cmd.Keys...), cmd.Args...)
	return conn.Do("EVAL", args...)
}

// A serverTwin is a node next to a server.Server that is to do the same.
type serverTwin struct {
	t       *testing.T
	rand    *rand.Rand
	node    *testcluster.Node
	conn    redis.Conn
	model   server.Server
	fenced  bool
	tick    time.Duration // in which times are counted
	passes  bool          // time does
	now     time.Duration
	claims  []*claim // by token
	deletes string   // the node's command for releases; empty: it has none
	wants   []uint8

	answers [8]int // by stance
	errors  int
	told    int // what counters were before
}

// newServerTwin has two claims for each way to want some of so many resources.
func newServerTwin(t *testing.T, n *testcluster.Node, resources int, fenced bool) *serverTwin {
	t.Helper()
	conn, err := n.Conn(t.Context())
	require.NoError(t, err)
	tw := &serverTwin{
		t: t, rand: rand.New(rand.NewPCG(1, uint64(resources))), node: n, conn: conn, fenced: fenced,
		claims: make([]*claim, 1), wants: make([]uint8, 1),
	}
	for _, tw.deletes = range []string{"DELIFEQ", "DELEX", ""} {
		if _, err = conn.Do(tw.deletes, tw.deletion(&claim{target: &target{keys: []any{"none"}}, args: []any{""}})...); err == nil {
			break
		}
	}
	for wants := uint8(1); wants < 1<<resources; wants++ {
		var names []string
		var keys []any
		for r := range resources {
			if wants>>r&1 != 0 {
				names, keys = append(names, twinName(r)), append(keys, twinName(r))
			}
		}
		for range 2 {
			c := newClaim(names, keys, time.Hour, 1)
			if fenced {
				c.addCounters()
				c.askFence(time.UnixMicro(0), 10000*time.Hour, true)
			}
			tw.claims, tw.wants = append(tw.claims, c), append(tw.wants, wants)
		}
	}
	return tw
}

func twinName(r int) string { return string(rune('x' + r)) }

func twinCounter(r int) string { return reservedMark + fences.Mark + twinName(r) }

// run does random things with both and compares them after each.
func (tw *serverTwin) run(steps int) {
	tw.t.Helper()
	for range steps {
		token := 1 + tw.rand.IntN(len(tw.claims)-1)
		tw.step(token, tw.now+time.Duration(1+tw.rand.IntN(2))*tw.tick)
		require.Equal(tw.t, tw.model, tw.stored())
	}
	require.NoError(tw.t, tw.conn.Close())
	require.Positive(tw.t, tw.answers[node.Yes])
	require.Positive(tw.t, tw.answers[node.No])
	require.Positive(tw.t, tw.answers[node.Gone])
	require.Equal(tw.t, tw.fenced, tw.told > 0)
	require.True(tw.t, tw.errors > 0 == tw.fenced || steps < 1000) // Counters are lost seldom.
}

// step does one of them, with keys that live until then.
func (tw *serverTwin) step(token int, until time.Duration) {
	tw.t.Helper()
	c, wants := tw.claims[token], tw.wants[token]
	ms := serverMillis(until - tw.now - tw.tick/100)
	c.args[1], c.fence = ms, 0
	if tw.fenced {
		c.fence = tw.number(wants)
	}
	switch tw.rand.IntN(12) {
	case 0:
		tw.pass()
	case 1, 2, 3:
		tw.lock(token, until)
	case 4:
		if tw.fenced {
			want := tw.model.Raise(token, wants, c.fence)
			tw.sameGrant(want, tw.same(want.Stance, raiseCommand(c, c.fence)))
		}
	case 5:
		tw.same(tw.model.Extend(token, wants, until, c.fence), extendCommand(c, ms, false))
	case 6:
		tw.same(tw.model.Repair(token, wants, until, c.fence), repairCommand(c, ms))
	case 7:
		tw.same(tw.model.Release(token, wants), undoCommand(c))
	case 8:
		late, _ := c.Release(time.Now(), true)
		if tw.deletes == "" || len(c.keys) > 1 || tw.rand.IntN(2) == 0 {
			tw.same(tw.model.Release(token, wants), late)
			return
		}
		deleted, err := tw.conn.Do(tw.deletes, tw.deletion(c)...)
		require.NoError(tw.t, err)
		require.Equal(tw.t, map[node.Stance]int64{node.Yes: 1, node.Gone: 0}[tw.model.Release(token, wants)], deleted)
	case 9:
		tw.same(tw.model.Leave(token, wants, until), leaveCommand(c, ms))
	case 10:
		all, _, _, _, _ := tw.model.Look(token, wants)
		require.Equal(tw.t, all, tw.look(token))
	case 11:
		tw.lose(tw.rand.IntN(server.Resources))
	}
}

// same sends a command that is to be answered so.
func (tw *serverTwin) same(want node.Stance, cmd node.Command) node.Outcome {
	tw.t.Helper()
	reply, err := evalCommand(tw.conn, cmd)
	require.NoError(tw.t, err, cmd.Script.Name)
	out := cmd.Script.Decode(reply)
	require.Equal(tw.t, want, out.Stance, cmd.Script.Name)
	tw.answers[want]++
	return out
}

// sameGrant looks at what is told of the counters.
func (tw *serverTwin) sameGrant(want server.Grant, out node.Outcome) {
	tw.t.Helper()
	require.Equal(tw.t, want.Fence, out.Fence)
	require.Equal(tw.t, want.Found, out.Found)
	tw.isHolder(want.Holder, out)
	if want.Found > 0 {
		tw.told++
	}
}

// number is one next to the largest counter.
func (tw *serverTwin) number(wants uint8) int64 {
	_, _, _, top, _ := tw.model.Look(0, wants)
	return max(1, top+tw.rand.Int64N(4)-1)
}

// lock sends a lock request, by one of the scripts or as the server's own command.
func (tw *serverTwin) lock(token int, until time.Duration) {
	tw.t.Helper()
	c, wants := tw.claims[token], tw.wants[token]
	cmd := lockCommand(c)
	switch {
	case tw.fenced:
		tw.lockWithFence(token, until)
		return
	case tw.rand.IntN(2) == 0:
		cmd = queueCommand(c, "c", 0, time.Hour, false)
	case len(c.keys) == 1 && tw.rand.IntN(2) == 0:
		stance, _ := tw.model.Lock(token, wants, until)
		require.Equal(tw.t, stance, tw.direct(c))
		return
	}
	stance, holder := tw.model.Lock(token, wants, until)
	tw.isHolder(holder, tw.same(stance, cmd))
}

func (tw *serverTwin) isHolder(holder int, out node.Outcome) {
	tw.t.Helper()
	if holder != 0 {
		require.Equal(tw.t, tokens.Digest(tw.claims[holder].token()), out.Holder.Digest)
	}
}

// lockWithFence is lock for a claim with fencing. A proposal that is far ahead of the server's clock is none. Where a
// counter is missing, the server's clock is the proposal, or one that is near it.
func (tw *serverTwin) lockWithFence(token int, until time.Duration) {
	tw.t.Helper()
	const at = 2 // where a lock request has its proposal
	c, wants := tw.claims[token], tw.wants[token]
	proposal := tw.number(wants)
	c.args[at] = proposal
	if tw.rand.IntN(4) == 0 {
		c.args[at], proposal = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), 0
	}
	cmd := lockCommand(c)
	if tw.rand.IntN(2) == 0 {
		cmd = queueCommand(c, "c", 0, time.Hour, false)
	}
	_, _, _, top, low := tw.model.Look(token, wants)
	before := time.Now()
	reply, err := evalCommand(tw.conn, cmd)
	if low == 0 && err == nil {
		if fence := cmd.Script.Decode(reply).Fence; fence > 0 {
			require.GreaterOrEqual(tw.t, fence, before.Add(-time.Second).UnixMicro())
			require.LessOrEqual(tw.t, fence, max(top+1, proposal, time.Now().UnixMicro()))
			proposal = fence
		}
	}
	want := tw.model.LockWithFence(token, wants, until, proposal)
	if want.Stance == node.Silent {
		tw.errors++
		require.ErrorContains(tw.t, err, "NOFENCE")
		return
	}
	require.NoError(tw.t, err)
	out := cmd.Script.Decode(reply)
	require.Equal(tw.t, want.Stance, out.Stance)
	tw.sameGrant(want, out)
	tw.answers[want.Stance]++
}

// deletion is what the node's command for releases is given.
func (tw *serverTwin) deletion(c *claim) []any {
	if tw.deletes == "DELEX" {
		return []any{c.keys[0], "IFEQ", c.args[0]}
	}
	return []any{c.keys[0], c.args[0]}
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

// look asks for a token in all resources that it wants.
func (tw *serverTwin) look(token int) bool {
	tw.t.Helper()
	cmd := node.Command{Script: node.Look}
	for _, key := range tw.claims[token].keys {
		cmd.Keys, cmd.Args = append(cmd.Keys, key), append(cmd.Args, tw.claims[token].Value())
	}
	places, err := redis.Ints(evalCommand(tw.conn, cmd))
	require.NoError(tw.t, err)
	return len(places) == len(cmd.Keys)
}

// pass has a tick pass, where time does.
func (tw *serverTwin) pass() {
	if tw.passes {
		time.Sleep(tw.tick)
		tw.now += tw.tick
		tw.model.Expire(tw.now)
	}
}

// lose has the node lose a key or, sometimes, a counter.
func (tw *serverTwin) lose(r int) {
	tw.t.Helper()
	if tw.rand.IntN(4) > 0 {
		require.NoError(tw.t, tw.node.Del(twinName(r)))
		tw.model[r].Token, tw.model[r].Until = 0, 0
		return
	}
	require.NoError(tw.t, tw.node.Del(twinCounter(r)))
	tw.model[r].Counter = 0
}

// stored is what the node has.
func (tw *serverTwin) stored() (s server.Server) {
	tw.t.Helper()
	all, err := tw.node.Keys()
	require.NoError(tw.t, err)
	for r := range s {
		if state, held := all[twinName(r)]; held {
			s[r].Until = tw.now + (state.TTL + tw.tick - 1).Truncate(tw.tick)
			s[r].Token = slices.IndexFunc(tw.claims, func(c *claim) bool { return c != nil && c.token() == state.Value })
		}
		if state, there := all[twinCounter(r)]; there {
			s[r].Counter, err = strconv.ParseInt(state.Value, 10, 64)
			require.NoError(tw.t, err)
		}
	}
	return s
}

// serverTwins has a twin of each kind. A tick is a second, or so long that it does not pass.
func serverTwins(t *testing.T, n *testcluster.Node, steps int, passes bool) {
	t.Helper()
	for resources := 1; resources <= server.Resources; resources++ {
		for _, fenced := range []bool{false, true} {
			require.NoError(t, n.Flush())
			tw := newServerTwin(t, n, resources, fenced)
			if tw.tick, tw.passes = time.Hour, passes; passes {
				tw.tick = time.Second
			}
			tw.run(steps)
		}
	}
}

func TestServerIsTheScripts(t *testing.T) {
	steps := rounds(5000, 1500)
	if testcluster.RaceEnabled {
		steps = min(steps, 500)
	}
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) { serverTwins(t, c.Nodes[0], steps, true) })
}

func TestServerIsTheScriptsOnAServer(t *testing.T) {
	if testing.Short() {
		t.Skip("the same as on a node in memory, on a server")
	}
	t.Parallel()
	serverTwins(t, testcluster.RunServers(t, 1).Nodes[0], 3000, false)
}
