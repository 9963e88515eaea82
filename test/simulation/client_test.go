package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

const (
	// simCalm is for how long a node must have had no fault, so that a client
	// that is closed then has no excuse to leave anything on it.
	simCalm = 5 * time.Second

	// simUnhurried is a time in which every Close ends by itself.
	simUnhurried = time.Minute
)

// simTimeouts are the node timeouts of the clients and calls.
var simTimeouts = []time.Duration{
	20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond,
}

// simAges are the ages at which clients make connections anew, one after another.
var simAges = []time.Duration{time.Hour, time.Second, 0, 30 * time.Second, 5 * time.Second}

// A simClient is one Redlock.
type simClient struct {
	s       *sim
	name    string
	r       *redlock.Redlock
	o       simOptions
	timeout time.Duration
	nodes   []*simNode // of its set
	need    int
	pools   []*redis.Pool
	taps    []*testkit.Tap // on its connections

	// Guarded by s.mu.
	closing time.Time // when Close was first called, zero before
	rough   bool      // its context may have ended before
	calm    []bool    // by node: it had no fault for long before the end of Close
	jumps   []simJump
}

// simOptions are the options that the checks have to know.
type simOptions struct {
	timeout          time.Duration // of nodes
	minHold, maxHold time.Duration
	fencing          bool
	turn             time.Duration // of the call
}

// over returns the options of a call of a client that has others of its own.
func (o simOptions) over(client simOptions) simOptions {
	return simOptions{
		timeout: cmp.Or(o.timeout, client.timeout), minHold: cmp.Or(o.minHold, client.minHold),
		maxHold: cmp.Or(o.maxHold, client.maxHold), fencing: o.fencing || client.fencing, turn: o.turn,
	}
}

// raised is the ttl of a lock that is asked for with ttl: beyond a min hold, it leaves what an attempt may take.
func (o simOptions) raised(ttl time.Duration) time.Duration {
	if o.minHold == 0 {
		return ttl
	}
	valid := o.minHold + min(3*o.timeout, testkit.Validity(ttl))
	return max(ttl, time.Duration(math.Ceil(float64(valid+2*time.Millisecond)/(1-testkit.DefaultDriftFactor))))
}

func (o simOptions) options() (opts []redlock.Option) {
	if o.timeout > 0 {
		opts = append(opts, redlock.WithNodeTimeout(o.timeout))
	}
	if o.minHold > 0 {
		opts = append(opts, redlock.WithMinHold(o.minHold))
	}
	if o.maxHold > 0 {
		opts = append(opts, redlock.WithMaxHold(o.maxHold))
	}
	if o.turn > 0 {
		opts = append(opts, redlock.WithTurn(o.turn))
	}
	if o.fencing {
		opts = append(opts, redlock.WithFencing())
	}
	return opts
}

// openClient makes a client of all nodes.
func (s *sim) openClient(o simOptions, opts ...redlock.Option) *simClient {
	s.t.Helper()
	return s.openOn(s.nodes, o, opts...)
}

// openOn makes one of these nodes, with a tap on every connection. It has pools of its own for every other one.
func (s *sim) openOn(set []*simNode, o simOptions, opts ...redlock.Option) *simClient {
	s.t.Helper()
	id := len(s.clients) + 1
	c := &simClient{s: s, name: fmt.Sprintf("c%d", id), nodes: set, need: len(set)/2 + 1, calm: make([]bool, len(s.nodes))}
	c.o = o.over(simOptions{timeout: testkit.DefaultNodeTimeout})
	c.timeout = c.o.timeout
	all, taps := testkit.Tapped(s.c)
	nodes := make([]redlock.Node, len(set))
	for i, n := range set {
		d := all[n.index].Pool.(*conn.Dialer)
		d.Dial = c.owning(d.Dial)
		nodes[i] = all[n.index]
		if (id+i)%2 != 0 {
			p := n.Pool()
			p.DialContext = func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", n.Addr(), redis.DialContextFunc(d.Dial))
			}
			c.pools = append(c.pools, p)
			nodes[i].Pool = p
		}
	}
	age := simAges[(s.seed+uint64(id))%uint64(len(simAges))]
	r, err := redlock.New(nodes, slices.Concat(opts, o.options(), []redlock.Option{
		redlock.WithPrefix(s.prefix), redlock.WithConnectionAge(age),
		redlock.WithHook(func(_ context.Context, e redlock.Event) {
			if s.verbose {
				s.tracef("  %s: %+v", c.name, e)
			}
		}),
	})...)
	require.NoError(s.t, err)
	c.r, c.taps = r, taps
	s.clients = append(s.clients, c)
	s.tracef("client %s: node timeout %v, connection age %v", c.name, c.timeout, age)
	return c
}

type simDial = func(ctx context.Context, network, address string) (net.Conn, error)

// owning has connections note which tokens are the client's.
func (c *simClient) owning(dial simDial) simDial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &simConn{Conn: conn, c: c}, nil
	}
}

// A simConn is a connection of a client.
type simConn struct {
	net.Conn

	c    *simClient
	tail []byte // of what was written: a token may be in two writes
}

// simToken is a token in what a client writes.
var simToken = regexp.MustCompile(`\r\n([0-9a-f]{32}(` + tokens.LabelMark + `[^\r]*)?)\r\n`)

// Write notes whose the tokens are: of all clients that write a token, its own is the first.
func (o *simConn) Write(b []byte) (int, error) {
	o.tail = append(o.tail, b...)
	s := o.c.s
	s.mu.Lock()
	for _, found := range simToken.FindAllSubmatch(o.tail, -1) {
		if token := string(found[1]); s.owners[token] == nil {
			s.owners[token], s.tokens[tokens.Digest(token)] = o.c, token
		}
	}
	s.mu.Unlock()
	o.tail = slices.Clone(o.tail[max(0, len(o.tail)-2*tokens.MaxLabel):])
	return o.Conn.Write(b)
}

// open returns the clients that were not closed.
func (s *sim) open() []*simClient {
	return slices.DeleteFunc(slices.Clone(s.clients), (*simClient).isClosed)
}

func (s *sim) longestTimeout() (longest time.Duration) {
	for _, c := range s.clients {
		longest = max(longest, c.timeout)
	}
	return longest
}

// closedAt returns when Close was called, zero if it was not.
func (c *simClient) closedAt() time.Time {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.closing
}

func (c *simClient) isClosed() bool { return !c.closedAt().IsZero() }

// close closes the client, if nobody has, with a context that ends within limit.
func (c *simClient) close(limit time.Duration) (took time.Duration, err error, first bool) {
	s := c.s
	start := time.Now()
	s.mu.Lock()
	first = c.closing.IsZero()
	if first {
		c.closing, c.rough = start, limit < simUnhurried
	}
	s.mu.Unlock()
	if !first {
		return 0, nil, false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), limit)
	defer cancel()
	s.tracef("%s closes, within %v", c.name, limit)
	err = c.r.Close(ctx)
	took = time.Since(start)
	s.tracef("%s closed after %v: %v", c.name, took, err)
	calm := make([]bool, len(s.nodes))
	for i, n := range s.nodes {
		calm[i] = n.calmSince(start.Add(-simCalm))
	}
	s.mu.Lock()
	c.calm = calm
	s.mu.Unlock()
	if (err != nil) != (took >= limit) {
		s.failf("(7) Close of %s took %v of %v: %v", c.name, took, limit, err)
	}
	if _, refused := c.r.TryLock(s.t.Context(), []string{"x"}, 50*time.Millisecond); !errors.Is(refused, redlock.ErrClosed) {
		s.failf("(7) TryLock after Close of %s: %v", c.name, refused)
	}
	return took, err, true
}

// closeIdle closes a client that holds nothing for which Close waits.
func (c *simClient) closeIdle(limit time.Duration) {
	if took, _, first := c.close(limit); first && took > 2*c.timeout { // The releases, and what was asked before.
		c.s.failf("(7) Close of %s took %v, node timeout %v", c.name, took, c.timeout)
	}
}

// checkStats checks that nothing is outstanding while all nodes are well.
func (c *simClient) checkStats() {
	s, st := c.s, c.r.Stats()
	held := 0
	for _, l := range s.allLocks() {
		if l.c == c && l.releasedAt().IsZero() && time.Now().Before(l.lapse(l.Until())) {
			held++
		}
	}
	if st.Held != held || st.Waiting != 0 || st.Asking != 0 || st.EventsDropped != 0 {
		s.failf("(5) stats of %s, which holds %d: %+v", c.name, held, st)
	}
	for _, n := range st.Nodes {
		if !n.Up || n.Err != nil || n.Backlog != 0 || n.PendingReleases != 0 {
			s.failf("(5) %s after the recovery: %+v", c.name, n)
		}
	}
}

// checkConnections checks (10): after Close no connection is open or borrowed.
// That no goroutine is left is checked by the end of the bubble.
func (s *sim) checkConnections() {
	for _, c := range s.clients {
		for _, p := range c.pools {
			if borrowed := p.ActiveCount() - p.IdleCount(); borrowed != 0 {
				s.failf("(10) %s has %d connections after Close", c.name, borrowed)
			}
			s.must(p.Close())
		}
	}
	synctest.Wait()
	for _, n := range s.nodes {
		if open := n.Proxy().Conns(); open != 0 {
			s.failf("(10) %d connections to %s are open", open, n.Name())
		}
	}
}

// Clocks: those of the nodes run fast and slow, as much as the drift factor allows, the wall clocks of clients jump, and
// all machines sleep at once: to clients the nodes' clocks leap, and so do their own wall clocks, while the monotonic ones
// stand still.

// A simJump is a jump of a wall clock forward, or a sleep.
type simJump struct {
	at time.Time
	by time.Duration
}

// clockRand returns random numbers that are apart from those of the schedule: with and without other clocks, a seed
// does the same.
func (s *sim) clockRand() *rand.Rand {
	s.clockRands++
	return rand.New(rand.NewPCG(s.seed, 1<<32+s.clockRands))
}

// setRates has the nodes' clocks run fast and slow: all as fast as they may, all as slow, or each by itself.
func (s *sim) setRates() {
	rng := s.clockRand()
	all := testkit.Pick(rng, 0, 0, 1, -1.0)
	for _, n := range s.nodes {
		off := all
		if off == 0 {
			off = testkit.Pick(rng, 1, -1, 2*rng.Float64()-1)
		}
		n.rate = 1 + off*s.rateError
		s.must(n.SetRate(n.rate))
		s.tracef("the clock of %s runs at %.4f", n.Name(), n.rate)
	}
}

// soonest is the least time in which d may pass by a node's clock, longest the most.
func (s *sim) soonest(d time.Duration) time.Duration {
	return time.Duration(float64(d) / (1 + s.rateError))
}

func (s *sim) longest(d time.Duration) time.Duration {
	return time.Duration(float64(d)/(1-s.rateError)) + 1
}

// moveClocks has wall clocks jump and machines sleep at random moments of the span, by at most so long. Only clients
// that there are take part. settleClocks ends it.
func (s *sim) moveClocks(span, most time.Duration) {
	rng, clients := s.clockRand(), slices.Clone(s.clients)
	for range testkit.Pick(rng, 0, 0, 1, 2, 3) {
		at, by := testkit.Magnitude(rng, time.Millisecond, max(span, 2*time.Millisecond)), testkit.Magnitude(rng, 2*time.Millisecond, max(most, 4*time.Millisecond))
		c, all := testkit.Pick(rng, clients...), rng.IntN(2) == 0
		s.moves = append(s.moves, time.AfterFunc(at, func() {
			if all {
				s.sleep(clients, by)
			} else {
				c.jump(by)
			}
		}))
	}
}

// settleClocks has no clock jump any more.
func (s *sim) settleClocks() {
	for _, t := range s.moves {
		t.Stop()
	}
	s.moves = nil
}

// sleep has all machines sleep. No client may see a key expire before its own clock has moved.
func (s *sim) sleep(clients []*simClient, by time.Duration) {
	s.tracef("all machines sleep for %v", by)
	s.mu.Lock()
	s.sleeps = append(s.sleeps, simJump{time.Now(), by})
	s.mu.Unlock()
	for _, c := range clients {
		c.jump(by)
	}
	for _, n := range s.nodes {
		s.must(n.LeapClock(by))
	}
}

// jump has the client's wall clock jump forward, as after a sleep of its machine.
func (c *simClient) jump(by time.Duration) {
	s := c.s
	s.mu.Lock()
	c.jumps = append(c.jumps, simJump{time.Now(), by})
	testkit.WallOffset(c.r).Add(int64(by))
	s.mu.Unlock()
	s.tracef("the wall clock of %s jumps by %v", c.name, by)
}

// cutShort is when a time ends that began at start and would end at end, if jumps, in their order, come off it.
func cutShort(start, end time.Time, jumps []simJump) time.Time {
	for _, j := range jumps {
		if !j.at.Before(start) && j.at.Before(end) {
			end = laterOf(j.at, end.Add(-j.by))
		}
	}
	return end
}

// passed is when a time ends that began at start and would end at end, by clocks that count the sleep.
func (s *sim) passed(start, end time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cutShort(start, end, s.sleeps)
}

// keptTo is until when, at least, the keys of a lock with a min hold outlive its release, if that is counted from the
// time from: min holds pass by the nodes' clocks.
func (l *simLock) keptTo(from time.Time) time.Time {
	return l.s.passed(from, from.Add(l.s.soonest(l.o.minHold)))
}
