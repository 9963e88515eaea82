package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/sets"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// told keeps what a client was told of sets.
type told struct {
	mu    sync.Mutex
	texts []string
}

func (to *told) hook(_ context.Context, e Event) {
	to.mu.Lock()
	defer to.mu.Unlock()
	if e.Set != nil {
		to.texts = append(to.texts, fmt.Sprintf("%s -%s +%s %v%s", e.Kind, strings.Join(e.Set.OnlyHere, ","), strings.Join(e.Set.OnlyThere, ","),
			e.Set.QuorumsMeet, strings.Join(e.Set.Twice, ",")))
	}
}

func (to *told) all() []string {
	to.mu.Lock()
	defer to.mu.Unlock()
	return slices.Clone(to.texts)
}

// some are those of the nodes a, b, c … that are named, each by its letter.
func some(c *testcluster.Cluster, names string) (nodes []Node) {
	for _, name := range names {
		nodes = append(nodes, Node{Name: string(name), Pool: c.Nodes[name-'a'].Pool()})
	}
	return nodes
}

// client has the nodes that are named.
func client(t *testing.T, c *testcluster.Cluster, names string, opts ...Option) (r *Redlock, to *told) {
	t.Helper()
	to = new(told)
	r = newOver(t, some(c, names), append(opts, WithHook(to.hook), WithOwner(names))...)
	warm(t, r)
	return r, to
}

// withSets has five nodes that tell who they are.
func withSets(t *testing.T, fn func(t *testing.T, c *testcluster.Cluster)) {
	t.Helper()
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		for _, n := range c.Nodes {
			require.NoError(t, n.ShowUptime())
		}
		fn(t, c)
	})
}

func TestADifferenceIsTold(t *testing.T) {
	withSets(t, func(t *testing.T, c *testcluster.Cluster) {
		r, to := client(t, c, "abc")
		other, _ := client(t, c, "abd")
		require.Empty(t, r.Stats().Sets)
		start := time.Now()
		time.Sleep(time.Minute)
		for _, n := range r.Stats().Nodes {
			assert.EqualValues(t, 1, n.Connects, "who has d instead has no other server for c")
		}
		all := r.Stats().Sets
		require.Len(t, all, 1)
		all[0].OnlyHere[0], all[0].Nodes[0] = "the caller's", "the caller's"
		all = r.Stats().Sets
		d := all[0]
		assert.WithinRange(t, d.Since, start, start.Add(35*time.Second))
		assert.WithinRange(t, d.Seen, start.Add(40*time.Second), start.Add(time.Minute))
		assert.Contains(t, []string{"a", "b"}, d.Node)
		assert.Equal(t, "abd, a client of x with 3 nodes, has d instead of c: both can get a lock at once, "+
			"unless the prefixes or resources differ on purpose: then WithSetName says so", strings.Replace(d.String(), "of "+d.Node, "of x", 1))
		d.Node, d.Since, d.Seen = "", time.Time{}, time.Time{}
		assert.Equal(t, SetDifference{
			Who: "abd", Nodes: []string{"a", "b", "d"}, OnlyHere: []string{"c"}, OnlyThere: []string{"d"},
		}, d)

		// Whoever only looks sees it at once, and leaves nothing.
		answers := make([]string, 3)
		for i, n := range c.Nodes[:3] {
			conn, err := n.Conn(t.Context())
			require.NoError(t, err)
			cmd := sets.Question(reservedMark)
			answers[i], err = redis.String(conn.Do(cmd[0].(string), cmd[1:]...))
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			assert.Contains(t, answers[i], " 0\n")
		}
		once := setDifferences("", []string{"a", "b", "c"}, answers)
		require.Len(t, once, 1, "though it is on a and b")
		assert.Equal(t, []string{"c"}, once[0].OnlyHere)
		assert.Empty(t, setDifferences("x", []string{"a", "b", "c"}, answers))

		// It is over once nobody has that set.
		require.NoError(t, other.Close(t.Context()))
		time.Sleep(45 * time.Second)
		assert.Len(t, to.all(), 1)
		assert.Len(t, r.Stats().Sets, 1)
		time.Sleep(80 * time.Second)
		assert.Equal(t, []string{"sets differ -c +d false", "sets agree -c +d false"}, to.all())
		assert.Empty(t, r.Stats().Sets)

		// If it comes again, it is told again.
		again, _ := client(t, c, "abd")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"sets differ -c +d false"}, to.all()[2:])
		require.NoError(t, again.Close(t.Context()))
	})
}

func TestWhatIsToldOfSetsMayBeOnPurpose(t *testing.T) {
	withSets(t, func(t *testing.T, c *testcluster.Cluster) {
		_, one := client(t, c, "abc", WithSetName("one"))
		_, same := client(t, c, "abcd", WithSetName("one"))
		_, two := client(t, c, "abd", WithSetName("two"))
		_, other := client(t, c, "abe", WithPrefix("p:"))
		_, none := client(t, c, "ade")
		time.Sleep(2 * time.Minute)
		assert.Equal(t, []string{"sets differ - +d true"}, one.all())
		assert.Equal(t, []int{1, 0, 0, 0}, []int{len(same.all()), len(two.all()), len(other.all()), len(none.all())})
	})
}

func TestTwoNodesThatAreOneServerAreTold(t *testing.T) {
	withSets(t, func(t *testing.T, c *testcluster.Cluster) {
		to, nodes := new(told), some(c, "abc")
		nodes[2].Pool = nodes[0].Pool
		warm(t, newOver(t, nodes, WithHook(to.hook)))
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"sets differ - + falsea,c"}, to.all())
	})
}

// Who is still connected to the old one is not for long: it hears of it from those who share another node with it.
func TestANameThatWasMovedIsFollowed(t *testing.T) {
	withSets(t, func(t *testing.T, c *testcluster.Cluster) {
		p := &moved{Pool: c.Nodes[2].Pool(), to: c.Nodes[3].Pool()}
		nodes := some(c, "abc")
		nodes[2].Pool = p
		early := newOver(t, nodes, WithRetryCount(0))
		warm(t, early)
		time.Sleep(time.Minute)
		p.gone.Store(true)
		late := newOver(t, nodes, WithRetryCount(0))
		warm(t, late)
		time.Sleep(35 * time.Second)
		assert.Equal(t, int64(2), early.Stats().Nodes[2].Connects)
		require.NoError(t, c.Nodes[2].Hang())
		require.NoError(t, c.Nodes[0].Hang())
		l, err := early.Lock(t.Context(), []string{"x"}, time.Minute)
		require.NoError(t, err, "b and what c is now")
		_, err = late.Lock(t.Context(), []string{"x"}, time.Minute)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(3 * time.Minute)
		assert.Empty(t, early.Stats().Sets)
		require.NoError(t, c.Nodes[2].Resume())
		require.NoError(t, c.Nodes[0].Resume())
	})
}

// The machine of a node dies without a word, and its name leads to a replica that has lived for long. Clients that are
// idle find out later than those that are not.
func TestNoDifferenceIsToldOfAReplicaThatTakesOver(t *testing.T) {
	for i := range rounds(60, 8) {
		withSets(t, func(t *testing.T, c *testcluster.Cluster) {
			var all []*told
			var names []*moved
			busy := (*Redlock)(nil)
			for range 12 {
				p, h := &moved{Pool: c.Nodes[2].Pool(), to: c.Nodes[3].Pool()}, new(told)
				names, all = append(names, p), append(all, h)
				nodes := some(c, "abc")
				nodes[2].Pool = p
				busy = newOver(t, nodes, WithHook(h.hook))
				warm(t, busy)
			}
			time.Sleep(time.Duration(60+i) * time.Second)
			for _, p := range names {
				p.gone.Store(true)
			}
			require.NoError(t, c.Nodes[2].Hang())
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(400 * time.Millisecond) {
				if l, err := busy.TryLock(t.Context(), []string{"busy"}, ttl); err == nil {
					_ = l.Unlock(t.Context())
				}
			}
			for _, h := range all {
				assert.Empty(t, h.all())
			}
			require.NoError(t, c.Nodes[2].Resume())
		})
	}
}

// Nodes that do not tell what they are, are asked again now and then.
func TestADifferenceIsToldOnceTheNodesTellWhatTheyAre(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, c *testcluster.Cluster) {
		_, one := client(t, c, "abc")
		client(t, c, "abd")
		time.Sleep(notesPause * 5 / 2)
		require.Empty(t, one.all())
		for _, n := range c.Nodes {
			require.NoError(t, n.ShowUptime())
		}
		time.Sleep(notesPause + time.Minute)
		assert.Equal(t, []string{"sets differ -c +d false"}, one.all())
	})
}

// Whoever writes nonsense is told a few times, and in few words.
func TestNotesOfNobodyWhoMeansWellAreBounded(t *testing.T) {
	withSets(t, func(t *testing.T, c *testcluster.Cluster) {
		r, to := client(t, c, "abc")
		time.Sleep(30 * time.Second)
		key := reservedMark + sets.Mark
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Second) {
			text, _, err := c.Nodes[0].Get(key)
			require.NoError(t, err)
			run, _, _ := strings.Cut(text, " ")
			at := time.Now().UnixMilli()
			var lines []string
			for i := range 200 {
				lines = append(lines, fmt.Sprintf(`%s %d f%03x {"who":"x","servers":[{"name":"n%d","run":"%x","started":9000000000000}]}`, run, at, i, i, i+1))
			}
			lines = append(lines, fmt.Sprintf(`%s %d fff {"who":"%s","servers":[]}`, run, at, strings.Repeat("A", 20_000)))
			require.NoError(t, c.Nodes[0].Set(key, strings.Join(lines, "\n"), time.Minute))
		}
		assert.Len(t, r.Stats().Sets, maxFound)
		for _, d := range r.Stats().Sets {
			assert.Less(t, len(d.String()), 500)
		}
		assert.Len(t, to.all(), maxFound)
	})
}

// moved is a pool of a name that leads to another server once it was moved.
type moved struct {
	Pool

	to   Pool
	gone atomic.Bool
}

func (p *moved) GetContext(ctx context.Context) (redis.Conn, error) {
	if p.gone.Load() {
		return p.to.GetContext(ctx)
	}
	return p.Pool.GetContext(ctx)
}

// While its machine slept, a node has restarted, to which the client does not come back. It does not know how old its
// knowledge is, but that a node's clock has gone on.
func TestAClientThatStoodStillKnowsNothing(t *testing.T) {
	withSets(t, func(t *testing.T, c *testcluster.Cluster) {
		_, to := client(t, c, "abc")
		nodes, far := some(c, "abc"), new(told)
		away := PoolFunc(func(context.Context) (redis.Conn, error) { return nil, errors.New("away") })
		p := &moved{Pool: nodes[1].Pool, to: away}
		nodes[1].Pool = p
		r := newOver(t, nodes, WithHook(far.hook))
		warm(t, r)
		time.Sleep(time.Minute)
		p.gone.Store(true)
		require.NoError(t, c.Nodes[1].Restart(true))
		r.notes.timer.Stop()
		time.Sleep(30 * time.Minute)
		r.notes.mu.Lock()
		for i := range r.notes.nodes {
			n := &r.notes.nodes[i]
			n.read = n.read.Add(30 * time.Minute)
		}
		r.notes.mu.Unlock()
		r.notes.timer.Reset(0)
		time.Sleep(5 * time.Minute)
		assert.Empty(t, far.all())
		assert.Empty(t, to.all())
		assert.Empty(t, r.notes.nodes[1].Run)
	})
}

// A server that came late may carry out what a client has sent long ago.
func TestANoteThatComesLateIsNotWritten(t *testing.T) {
	withSets(t, func(t *testing.T, c *testcluster.Cluster) {
		conn, err := c.Nodes[0].Conn(t.Context())
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		now := time.Duration(time.Now().UnixNano())
		write := func(at time.Duration, who string) sets.Reading {
			s := &sets.Set{Who: who, Servers: []sets.Server{{Name: who, Run: who}}}
			text, err := redis.String(conn.Do("EVAL", append([]any{node.Code(sets.Script), 1, "k"}, sets.Write(at, s)...)...))
			require.NoError(t, err)
			r, ok := sets.Parse(text)
			require.True(t, ok)
			return r
		}
		assert.False(t, write(now-1001*time.Millisecond, "a").Wrote)
		assert.False(t, write(now+1001*time.Millisecond, "a").Wrote)
		assert.True(t, write(now-time.Second, "a").Wrote)
		const fifth = sets.Life / 5
		time.Sleep(fifth)
		assert.False(t, write(now+fifth, "a").Wrote, "it is there")
		assert.True(t, write(now+fifth, "b").Wrote)
		time.Sleep(time.Millisecond)
		assert.True(t, write(now+fifth, "a").Wrote, "once in a fifth of its life")
		time.Sleep(sets.Life)
		assert.Empty(t, keys(t, c.Nodes[0]))
	})
}

// An answer that was on its way for long says what was true once: a server that has restarted meanwhile would look as if
// both its runs had lived at once.
func TestAnAnswerThatComesLateIsIgnored(t *testing.T) {
	withSets(t, func(t *testing.T, c *testcluster.Cluster) {
		r, _ := client(t, c, "abc", WithNodeTimeout(20*time.Second))
		known := func() noted {
			r.notes.mu.Lock()
			defer r.notes.mu.Unlock()
			return r.notes.nodes[0]
		}
		far := func(there time.Duration) noted {
			c.Nodes[0].Proxy().SetDelay(there, there)
			time.Sleep(15 * time.Second) // What was asked before has come.
			return known()
		}
		assert.Empty(t, far(510*time.Millisecond).Run)
		assert.NotEmpty(t, far(490*time.Millisecond).Run)
		read := far(5 * time.Second).read // It comes when the next look is due.
		time.Sleep(10 * time.Minute)
		assert.Equal(t, read, known().read)
	})
}

// A note is no vote and no sign of life.
func TestNotesCostNothingElse(t *testing.T) {
	withSets(t, func(t *testing.T, c *testcluster.Cluster) {
		seen := func(n *testcluster.Node) map[string]int {
			counts := make(map[string]int)
			require.NoError(t, n.OnCommand(func(cmd string, _ []string) { counts[cmd]++ }))
			return counts
		}
		r, _ := client(t, c, "abc")
		a := seen(c.Nodes[0])
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.InDelta(t, 37, a["EVAL"], 5)
		assert.GreaterOrEqual(t, a["PING"], 10)
		assert.Equal(t, map[string]int{"EVAL": a["EVAL"], "PING": a["PING"]}, a)
		votes := r.Stats().Nodes[0].Votes
		assert.Equal(t, int64(2), votes.Yes)
		assert.Zero(t, votes.Failed+votes.Timeout+votes.Lost)
		require.NoError(t, r.Close(t.Context()))
		left := a["EVAL"]
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, left, a["EVAL"])
	})
}

// An error is no loss: not of a vote, and not of a connection, whatever it is.
func TestAnErrorInsteadOfNotesHasNoEffect(t *testing.T) {
	withSets(t, func(t *testing.T, c *testcluster.Cluster) {
		r, to := client(t, c, "abc")
		for _, text := range []string{"READONLY You can't write", "MASTERDOWN Link", "NOPERM this user", "LOADING", "ERR unknown command"} {
			require.NoError(t, c.Nodes[0].SetError(text))
			r.notes.timer.Reset(0)
			time.Sleep(4 * time.Second) // Shorter than an idle connection is left alone.
			require.NoError(t, c.Nodes[0].SetError(""))
			warm(t, r)
		}
		assert.Equal(t, int64(1), r.Stats().Nodes[0].Connects)
		require.NoError(t, r.Stats().Nodes[0].Unresponsive)
		assert.Empty(t, to.all())
	})
}
