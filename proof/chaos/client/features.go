package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
)

// featureWorkers is how many workers of a process use what is beyond Lock and Unlock.
const featureWorkers = 8

// What these workers use, one as often as another. Each has resources of its own, which all processes want.
var featureActivities = []func(c *client, ctx context.Context, rng *rand.Rand){
	(*client).holdsAtLeast, (*client).holdsAtLeast, (*client).holdsAtLeast,
	(*client).holdsAtMost, (*client).holdsAtMost,
	(*client).stopsInTime, (*client).stopsInTime,
	(*client).makesRoom, (*client).makesRoom, (*client).makesRoom, (*client).makesRoom,
	(*client).polls,
	(*client).takesEight,
	(*client).extendsBySome, (*client).extendsBySome,
	(*client).takesPermit, (*client).takesPermit, (*client).takesPermit,
	(*client).asksInVain,
	(*client).guards,
	(*client).inspects,
}

// features is what they need.
type features struct {
	apart, far *redlock.Redlock // The connections of each go over a line of its own.
	apartLine  line
	busy       sync.Mutex // Of who holds up apartLine.
	semaphores []*permits
	guard      redlock.Guard
}

func (c *client) newFeatures() (f *features, err error) {
	f = new(features)
	if f.apart, err = c.open(f.apartLine.conns(), append(c.options(), redlock.WithConnectTimeout(0))...); err != nil {
		return nil, err
	}
	slow := new(line)
	if f.far, err = c.open(slow.conns(), c.options()...); err != nil {
		return nil, err
	}
	go func() { // Requests take up to 150 ms.
		for {
			slow.Lock()
			time.Sleep(150 * time.Millisecond)
			slow.Unlock()
			time.Sleep(10 * time.Millisecond)
		}
	}()
	f.semaphores = []*permits{{name: "sem/0", k: 2}, {name: "sem/1", k: 3, period: 300 * time.Millisecond}}
	for _, p := range f.semaphores {
		if p.Semaphore, err = semaphore.New(c.lib, p.name, p.k, c.ttl, redlock.WithMinHold(p.period)); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// useFeatures does one thing after another until ctx ends.
func (c *client) useFeatures(ctx context.Context, rng *rand.Rand) {
	for rest(ctx, between(rng, 5*time.Millisecond, 100*time.Millisecond)) {
		featureActivities[rng.IntN(len(featureActivities))](c, ctx, rng)
	}
}

// some returns one of n resources that are for one feature.
func some(rng *rand.Rand, kind string, n int) []string {
	return []string{fmt.Sprint(kind, "/", rng.IntN(n))}
}

// get makes an attempt with options, of which the event tells the judge. Nobody hears how often it has asked.
func (c *client) get(ctx context.Context, op string, do attempt, e history.Event, within time.Duration, opts ...redlock.Option) *held {
	e = c.begin(op, within, e)
	lock, err := do(ctx, e.Resources, time.Duration(e.TTL), append(opts, redlock.WithRetryCount(-1))...)
	if err != nil {
		c.end(e, err)
		return nil
	}
	return c.acquired(e, lock)
}

// await is get by a Lock that waits for a while.
func (c *client) await(ctx context.Context, lib *redlock.Redlock, patience time.Duration, e history.Event, opts ...redlock.Option) *held {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	e.TTL = c.cfg.TTL
	return c.get(ctx, history.OpLock, lib.Lock, e, patience, opts...)
}

// keep keeps the lock alive. The result waits until it is told how that has ended.
func (c *client) keep(ctx context.Context, h *held) (done func()) {
	h.kept = h.KeepAlive(context.WithoutCancel(ctx))
	if h.call%2 == 0 {
		_ = h.KeepAlive(context.WithoutCancel(ctx)) // Of which the first one must not suffer.
	}
	return c.watch(h)
}

// restKept waits until the hold has ended, or far too long.
func (c *client) restKept(h *held) { rest(h.kept, 2*c.ttl) }

// holdsAtLeast does a short job that nobody may do again for a while.
func (c *client) holdsAtLeast(ctx context.Context, rng *rand.Rand) {
	d := between(rng, 200*time.Millisecond, 650*time.Millisecond)
	e := history.Event{Resources: some(rng, "once", 4), MinHold: int64(d)}
	if rng.IntN(3) == 0 {
		c.doesFor(ctx, e, short(rng), redlock.WithMinHold(d))
		return
	}
	h := c.await(ctx, []*redlock.Redlock{c.far, c.lib}[rng.IntN(2)], between(rng, 200*time.Millisecond, 2*time.Second), e, redlock.WithMinHold(d))
	c.ends(ctx, rng, h)
}

// ends is how a holder has done: it mostly unlocks, or leaves that to another process or to the end of the lock.
func (c *client) ends(ctx context.Context, rng *rand.Rand, h *held) {
	switch lot := rng.IntN(8); {
	case h == nil:
	case lot == 0 && c.cfg.HandOn:
		c.section(ctx, h, short(rng), h.Token())
		c.forget(h)
	case lot == 1:
		c.forget(h)
	default:
		c.works(ctx, h, short(rng))
	}
}

// holdsAtMost goes on until it is told that it has held the lock for long enough.
func (c *client) holdsAtMost(ctx context.Context, rng *rand.Rand) {
	d := between(rng, 50*time.Millisecond, c.ttl*2/3)
	c.holdsFor(ctx, some(rng, "max", 4), d, redlock.WithMaxHold(d))
}

func (c *client) holdsFor(ctx context.Context, resources []string, d time.Duration, opts ...redlock.Option) {
	if h := c.await(ctx, c.lib, time.Second, history.Event{Resources: resources, MaxHold: int64(d)}, opts...); h != nil {
		done := c.keep(ctx, h)
		c.restKept(h)
		c.unlock(ctx, h)
		done()
	}
}

// A line leads to the nodes. As long as it is locked, all that is written is held up.
type line struct{ sync.RWMutex }

func (l *line) conns() []redis.DialOption {
	return []redis.DialOption{redis.DialNetDial(func(network, addr string) (net.Conn, error) {
		conn, err := net.Dial(network, addr)
		return lineConn{conn, l}, err
	})}
}

type lineConn struct {
	net.Conn
	line *line
}

func (c lineConn) Write(b []byte) (int, error) {
	c.line.RLock()
	defer c.line.RUnlock()
	return c.Conn.Write(b)
}

// stopsInTime is told to stop as long before the end as it needs, when the nodes cannot be reached any more.
func (c *client) stopsInTime(ctx context.Context, rng *rand.Rand) {
	d := between(rng, c.ttl/8, c.ttl*3/4)
	c.stops(ctx, rng, some(rng, "stop", 4), d, redlock.WithStopTime(d))
}

func (c *client) stops(ctx context.Context, rng *rand.Rand, resources []string, d time.Duration, opts ...redlock.Option) {
	if !c.busy.TryLock() {
		return
	}
	defer c.busy.Unlock()
	e := history.Event{Resources: resources, TTL: c.cfg.TTL, StopTime: int64(d)}
	h := c.get(ctx, history.OpTryLock, c.apart.TryLock, e, connect+3*c.nodeTimeout(), opts...)
	if h == nil {
		return
	}
	done := c.keep(ctx, h)
	c.apartLine.Lock()
	c.restKept(h)
	rest(ctx, between(rng, 0, d*5/4)) // Mostly it is done before the end.
	c.apartLine.Unlock()
	c.unlock(ctx, h)
	done()
}

// asksInVain makes an attempt that no node answers: it ends with the node timeout. Its Redlock does not wait for connections,
// for which it would have longer.
func (c *client) asksInVain(ctx context.Context, rng *rand.Rand) {
	if !c.busy.TryLock() {
		return
	}
	defer c.busy.Unlock()
	c.apartLine.Lock()
	defer c.apartLine.Unlock()
	e := history.Event{Resources: some(rng, "vain", 4), TTL: c.cfg.TTL}
	if h := c.get(ctx, history.OpTryLock, c.apart.TryLock, e, c.nodeTimeout()); h != nil {
		c.forget(h)
	}
}

// makesRoom holds a lock until somebody else wants it.
func (c *client) makesRoom(ctx context.Context, rng *rand.Rand) {
	c.holdsUntil(ctx, rng, (*redlock.Lock).Wanted)
}

func (c *client) holdsUntil(ctx context.Context, rng *rand.Rand, hears func(*redlock.Lock) <-chan struct{}) {
	h := c.lock(ctx, some(rng, "room", 1), 2*time.Second)
	if h == nil {
		return
	}
	done := c.keep(ctx, h)
	about := history.Event{Kind: history.Wanted, Lock: h.call, Resources: h.Resources()}
	wanted := hears(h.Lock)
	c.rec.Log(about)
	end, cancel := context.WithTimeout(h.kept, between(rng, 0, 2*c.ttl))
	defer cancel()
	select {
	case <-wanted:
		about.OK = true
		c.rec.Log(about)
	case <-end.Done():
	}
	c.unlock(ctx, h)
	done()
}

// polls waits without being woken, or beside others that do so.
func (c *client) polls(ctx context.Context, rng *rand.Rand) {
	e := history.Event{Resources: some(rng, "poll", 2), Polls: true}
	opts := []redlock.Option{redlock.WithPolling(), redlock.WithRetryDelay(between(rng, 10*time.Millisecond, 80*time.Millisecond))}
	if rng.IntN(3) == 0 {
		opts, e.Polls = nil, false
	}
	c.works(ctx, c.await(ctx, c.lib, time.Second, e, opts...), between(rng, 0, 100*time.Millisecond))
}

// takesEight locks eight resources at once, or some of them.
func (c *client) takesEight(ctx context.Context, rng *rand.Rand) {
	var resources []string
	for _, i := range rng.Perm(8)[:[]int{1, 2, 8}[rng.IntN(3)]] {
		resources = append(resources, fmt.Sprint("m/", i))
	}
	c.works(ctx, c.lock(ctx, resources, 2*time.Second), short(rng))
}

// extendsBySome extends a lock by longer and by shorter ttls, and leaves it to expire or not.
func (c *client) extendsBySome(ctx context.Context, rng *rand.Rand) {
	h := c.await(ctx, []*redlock.Redlock{c.far, c.lib}[rng.IntN(2)], 3*time.Second, history.Event{Resources: some(rng, "ext", 4)})
	if h == nil {
		return
	}
	longest := 2 * c.ttl
	if c.cfg.MaxTTL > 0 {
		longest = min(longest, time.Duration(c.cfg.MaxTTL))
	}
	for range rng.IntN(4) {
		rest(ctx, between(rng, 0, time.Until(h.Until())*3/4))
		if !c.extend(ctx, h, between(rng, c.ttl/8, longest)) {
			break
		}
	}
	if rng.IntN(2) == 0 {
		c.forget(h)
		return
	}
	c.works(ctx, h, short(rng))
}

// inspects asks who has what others use.
func (c *client) inspects(ctx context.Context, rng *rand.Rand) {
	seen, err := c.lib.Inspect(ctx, c.draw(rng)[0])
	if err != nil {
		return
	}
	told := history.Event{Kind: history.Votes}
	for i, n := range seen.Nodes {
		told.Votes = append(told.Votes, history.Vote{Node: number(c.cfg.Set, i), Says: "taken", Holder: n.Holder, Owner: n.Owner})
	}
	c.rec.Log(told)
}
