package servers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// These are the procedures of docs/operations.md#changing-the-set, under load, and with a client of each old set that was
// forgotten.

// grown is what all clients lock, and growTTL the longest ttl.
const (
	grown   = "locks:grown"
	growTTL = 2 * time.Second
)

// A fleet is what clients hold: from when a call has returned, until it is released or ends.
type fleet struct {
	mu     sync.Mutex
	spells []spell
	last   int64 // The fence of the last lock.
	behind int   // Fences that were not above the last one.
}

type spell struct {
	who      string
	from, to time.Time
}

func (f *fleet) held(who string, from, until time.Time) {
	now := time.Now()
	if until.Before(now) {
		now = until
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spells = append(f.spells, spell{who, from, now})
}

// count is how often a client has had the lock.
func (f *fleet) count(who string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.spells {
		if s.who == who {
			n++
		}
	}
	return n
}

// check checks that nobody has held the lock together with somebody else.
func (f *fleet) check(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortFunc(f.spells, func(a, b spell) int { return a.from.Compare(b.from) })
	last := f.spells[0]
	for _, s := range f.spells[1:] {
		if s.from.Before(last.to) && s.to.After(s.from) {
			t.Errorf("%s has got the lock %v before it was over for %s", s.who, last.to.Sub(s.from), last.who)
		}
		if s.to.After(last.to) {
			last = s
		}
	}
	assert.Zero(t, f.behind, "fences that did not grow")
	t.Logf("%d locks", len(f.spells))
}

// work has something done again and again until it is stopped.
func work(t *testing.T, once func(ctx context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			once(ctx)
			rest(ctx, 2*time.Millisecond)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// locks has a Redlock of these nodes lock again and again. The lock that it has when it is stopped is released.
func (f *fleet) locks(t *testing.T, who, user string, set []*testcluster.Node, opts ...redlock.Option) (r *redlock.Redlock, stop func()) {
	t.Helper()
	var nodes []redlock.Node
	for _, n := range set {
		nodes = append(nodes, redlock.Node{Name: n.Name(), Pool: redlock.NewNode(n.DirectAddr(), redis.DialUsername(user), redis.DialPassword(secret)).Pool})
	}
	r = newPatient(t, nodes, append(opts, redlock.WithPrefix("locks:"))...)
	stop = work(t, func(ctx context.Context) {
		l, err := r.Lock(ctx, []string{strings.TrimPrefix(grown, "locks:")}, growTTL, redlock.WithRetryCount(-1), redlock.WithRetryDelay(5*time.Millisecond))
		if err != nil {
			return
		}
		from := time.Now()
		f.mu.Lock()
		if l.Fence() > 0 && l.Err() == nil { // Else the next one may have come in between.
			if l.Fence() <= f.last {
				f.behind++
			}
			f.last = max(f.last, l.Fence())
		}
		f.mu.Unlock()
		rest(ctx, time.Millisecond)
		f.held(who, from, l.Until())
		_ = l.Unlock(context.WithoutCancel(ctx))
	})
	return r, stop
}

// locker is the user of a set on a node, as in docs/operations.md.
func locker(t *testing.T, n *testcluster.Node, name string) {
	t.Helper()
	setUser(t, n, name, strings.Fields(documentedRights(t))...)
}

func TestTheSetGrowsUnderLoad(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 5)
	set := func(indices ...int) (nodes []*testcluster.Node) {
		for _, i := range indices {
			nodes = append(nodes, c.Nodes[i])
		}
		return nodes
	}
	namesOf := func(nodes []*testcluster.Node) (all []string) {
		for _, n := range nodes {
			all = append(all, n.Name())
		}
		return all
	}
	f := new(fleet)
	type running struct {
		r    *redlock.Redlock
		stop func()
	}
	launch := func(step int, nodes []*testcluster.Node, who string) running {
		r, stop := f.locks(t, fmt.Sprint(who, " of step ", step), fmt.Sprint("set", step), nodes, redlock.WithQuarantine(growTTL), redlock.WithFencing())
		return running{r, stop}
	}
	gets := func(step int, who string) {
		who = fmt.Sprint(who, " of step ", step)
		before := f.count(who)
		await(t, time.Minute, who+" gets the lock", func() bool { return f.count(who) > before })
	}
	before := set(0, 1, 2)
	for _, n := range before {
		locker(t, n, "set0")
	}
	fleet0 := []running{launch(0, before, "a"), launch(0, before, "b"), launch(0, before, "forgotten")}
	require.NoError(t, fleet0[0].r.Admit(t.Context(), namesOf(before)...))
	gets(0, "a")
	sets := [][]*testcluster.Node{set(0, 1, 2, 3), set(0, 1, 2, 3, 4), set(0, 1, 2, 3), set(1, 2, 3)}
	if testing.Short() {
		sets = [][]*testcluster.Node{sets[0], sets[3]} // A node is replaced.
	}
	for step, nodes := range sets {
		step++
		old := fmt.Sprint("set", step-1)
		for _, n := range nodes {
			locker(t, n, fmt.Sprint("set", step))
		}
		for _, n := range before { // A node that leaves is stopped for good.
			if !slices.Contains(nodes, n) {
				require.NoError(t, n.Stop())
			}
		}
		var fleet1 []running
		for i, who := range []string{"a", "b"} { // One after the other, and both sets work together.
			next := launch(step, nodes, who)
			for _, n := range nodes {
				if i == 0 && !slices.Contains(before, n) {
					require.NoError(t, next.r.Admit(t.Context(), n.Name()))
				}
			}
			gets(step, who)
			gets(step-1, "forgotten")
			fleet0[i].stop()
			require.NoError(t, fleet0[i].r.Close(t.Context()))
			fleet1 = append(fleet1, next)
		}
		for _, n := range before {
			if slices.Contains(nodes, n) {
				assert.Equal(t, int64(1), admin(t, n, "ACL", "DELUSER", old))
				assert.NotContains(t, string(admin(t, n, "CLIENT", "LIST").([]byte)), "user="+old)
			}
		}
		shut := f.count(fmt.Sprint("forgotten of step ", step-1))
		rest(t.Context(), growTTL)
		require.NoError(t, fleet1[0].r.Admit(t.Context(), namesOf(nodes)...))
		assert.InDelta(t, shut, f.count(fmt.Sprint("forgotten of step ", step-1)), 1, "but for a lock that it had")
		before, fleet0 = nodes, append(fleet1, launch(step, nodes, "forgotten"))
	}
	gets(len(sets), "b")
	for _, r := range fleet0 {
		r.stop()
	}
	f.check(t)
}

// A program locks on one server with SET NX PX, and releases as redsync does.
func TestOneRedisBecomesThree(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	a := c.Nodes[0]
	const unlock = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`
	f := new(fleet)
	plain := func(who string) (stop func()) {
		conn, err := redis.Dial("tcp", a.DirectAddr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		n := 0
		return work(t, func(ctx context.Context) {
			n++
			asked, token := time.Now(), fmt.Sprint(who, n)
			if reply, err := conn.Do("SET", grown, token, "NX", "PX", growTTL.Milliseconds()); err != nil || reply != "OK" {
				return
			}
			from := time.Now()
			rest(ctx, time.Millisecond)
			f.held(who, from, asked.Add(growTTL))
			_, _ = conn.Do("EVAL", unlock, 1, grown, token)
		})
	}
	gets := func(who string) {
		before := f.count(who)
		await(t, time.Minute, who+" gets the lock", func() bool { return f.count(who) > before })
	}
	stop := plain("plain")
	plain("forgotten")
	for _, user := range []string{"set1", "set2"} {
		for _, n := range c.Nodes {
			locker(t, n, user)
		}
	}
	two, stopTwo := f.locks(t, "two", "set1", c.Nodes[:2])
	for _, who := range []string{"plain", "forgotten", "two"} {
		gets(who)
	}
	stop()

	conn := adminConn(t, a)
	_, err := conn.Do("CONFIG", "SET", "requirepass", secret)
	require.NoError(t, err)
	defer func() { _, _ = conn.Do("CONFIG", "SET", "requirepass", "") }()
	ended, err := redis.Int(conn.Do("CLIENT", "KILL", "USER", "default", "SKIPME", "yes"))
	require.NoError(t, err)
	assert.Positive(t, ended)
	list, err := redis.String(conn.Do("CLIENT", "LIST"))
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(list, "user=default"), "only who asks")
	shut := f.count("forgotten")
	rest(t.Context(), growTTL)

	_, stopThree := f.locks(t, "three", "set2", c.Nodes)
	gets("three")
	gets("two")
	stopTwo()
	require.NoError(t, two.Close(t.Context()))
	gets("three")
	assert.InDelta(t, shut, f.count("forgotten"), 1)
	stopThree()
	f.check(t)
}
