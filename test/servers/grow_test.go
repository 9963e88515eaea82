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

// gets waits until a client has got the lock once more.
func (f *fleet) gets(t *testing.T, who string) {
	t.Helper()
	before := f.count(who)
	await(t, time.Minute, who+" gets the lock", func() bool { return f.count(who) > before })
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

// A node is added, and another one leaves. That two neighbouring sets exclude each other, the simulation shows; a real
// server shows that deleting the user of the set before ends a client that was forgotten.
func TestTheSetGrowsUnderLoad(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 4)
	f := new(fleet)
	launch := func(step int, nodes []*testcluster.Node) (who string, r *redlock.Redlock, stop func()) {
		for _, n := range nodes {
			locker(t, n, fmt.Sprint("set", step))
		}
		who = fmt.Sprint("step ", step)
		r, stop = f.locks(t, who, fmt.Sprint("set", step), nodes, redlock.WithQuarantine(growTTL), redlock.WithFencing())
		return who, r, stop
	}
	forgotten, r, _ := launch(0, c.Nodes[:3])
	require.NoError(t, r.Admit(t.Context(), names(c)[:3]...))
	f.gets(t, forgotten)
	before := c.Nodes[:3]
	var stop func()
	for step, nodes := range [][]*testcluster.Node{c.Nodes, c.Nodes[1:]} {
		if step > 0 {
			require.NoError(t, c.Nodes[0].Stop()) // A node that leaves is stopped for good.
		}
		var who string
		who, r, stop = launch(step+1, nodes)
		if step == 0 {
			require.NoError(t, r.Admit(t.Context(), names(c)[3]))
		}
		f.gets(t, who) // Both sets work together.
		f.gets(t, forgotten)
		old := fmt.Sprint("set", step)
		for _, n := range nodes {
			if slices.Contains(before, n) {
				assert.Equal(t, int64(1), admin(t, n, "ACL", "DELUSER", old))
				assert.NotContains(t, string(admin(t, n, "CLIENT", "LIST").([]byte)), "user="+old)
			}
		}
		shut := f.count(forgotten)
		rest(t.Context(), growTTL)
		require.NoError(t, r.Admit(t.Context(), names(c)[step:]...))
		assert.InDelta(t, shut, f.count(forgotten), 1, "but for a lock that it had")
		before, forgotten = nodes, who
	}
	f.gets(t, forgotten)
	stop()
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
	stop := plain("plain")
	plain("forgotten")
	for _, user := range []string{"set1", "set2"} {
		for _, n := range c.Nodes {
			locker(t, n, user)
		}
	}
	two, stopTwo := f.locks(t, "two", "set1", c.Nodes[:2])
	for _, who := range []string{"plain", "forgotten", "two"} {
		f.gets(t, who)
	}
	stop()

	conn := adminConn(t, a)
	_, err := conn.Do("CONFIG", "SET", "requirepass", secret)
	require.NoError(t, err)
	defer func() { _, _ = conn.Do("CONFIG", "SET", "requirepass", "") }()
	ended, err := redis.Int(conn.Do("CLIENT", "KILL", "USER", "default", "SKIPME", "yes"))
	require.NoError(t, err)
	assert.Positive(t, ended)
	shut := f.count("forgotten")
	rest(t.Context(), growTTL)

	_, stopThree := f.locks(t, "three", "set2", c.Nodes)
	f.gets(t, "three")
	f.gets(t, "two")
	stopTwo()
	require.NoError(t, two.Close(t.Context()))
	f.gets(t, "three")
	assert.InDelta(t, shut, f.count("forgotten"), 1)
	stopThree()
	f.check(t)
}
