package client

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
)

// features is what workers need beside a Redlock.
type features struct {
	apart, far *redlock.Redlock // The connections of each go over a line of its own.
	apartLine  line
	busy       sync.Mutex // Of who holds up apartLine.
	semaphores []*permits
	guard      redlock.Guard
}

// connectAll makes the Redlocks. The options of most exclude the locks of other clients.
func (c *client) connectAll() (err error) {
	usual := []redlock.Option{redlock.WithOwner(c.cfg.Client), redlock.WithHook(c.hook)}
	if c.bare, err = c.connect(nil, usual...); err != nil {
		return err
	}
	if c.cfg.MaxTTL > 0 {
		usual = append(usual, redlock.WithQuarantine(time.Duration(c.cfg.MaxTTL)))
	}
	slow := new(line)
	for _, r := range []struct {
		lib   **redlock.Redlock
		conns []redis.DialOption
		opts  []redlock.Option
	}{
		{&c.lib, nil, usual},
		{&c.apart, c.apartLine.conns(), append(usual, redlock.WithConnectTimeout(0))},
		{&c.far, slow.conns(), usual},
		{&c.long, nil, []redlock.Option{redlock.WithPrefix("long:"), redlock.WithFencing()}},
	} {
		if *r.lib, err = c.connect(r.conns, r.opts...); err != nil {
			return err
		}
	}
	go func() { // Requests take up to a third of the node timeout.
		for {
			slow.Lock()
			time.Sleep(c.nodeTimeout() / 3)
			slow.Unlock()
			time.Sleep(10 * time.Millisecond)
		}
	}()
	c.semaphores = []*permits{{name: "sem/0", k: 2}, {name: "sem/1", k: 3, period: 300 * time.Millisecond}}
	for _, p := range c.semaphores {
		p.Semaphore, err = semaphore.New(c.lib, p.name, p.k, c.ttl, redlock.WithMinHold(p.period))
		if err != nil {
			return err
		}
	}
	return nil
}

// holdsAtMost goes on until it is told that it has held the lock for long enough.
func (c *client) holdsAtMost(ctx context.Context, rng *rand.Rand, e history.Event) {
	e.MaxHold = int64(between(rng, 50*time.Millisecond, c.ttl*2/3))
	if h := c.lock(ctx, e, time.Second); h != nil {
		done := c.keep(ctx, h)
		c.restKept(h)
		c.unlock(ctx, h)
		done()
	}
}

// restKept waits until the hold has ended, or far too long.
func (c *client) restKept(h *held) { rest(h.kept, 2*c.ttl) }

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
func (c *client) stopsInTime(ctx context.Context, rng *rand.Rand, e history.Event) {
	e.StopTime = int64(between(rng, c.ttl/8, time.Duration(e.TTL)*3/4))
	if !c.busy.TryLock() {
		return
	}
	defer c.busy.Unlock()
	h := c.tryLock(ctx, c.apart.TryLock, e)
	if h == nil {
		return
	}
	done := c.keep(ctx, h)
	c.apartLine.Lock()
	// An attempt that no node answers ends with the node timeout: this Redlock waits for no connections.
	vain := c.wish(rng)
	if unlikely := c.acquire(ctx, history.OpTryLock, c.apart.TryLock, vain, c.timeout(vain)); unlikely != nil {
		c.forget(unlikely)
	}
	c.restKept(h)
	rest(ctx, between(rng, 0, time.Duration(e.StopTime)*5/4)) // Mostly it is done before the end.
	c.apartLine.Unlock()
	c.unlock(ctx, h)
	done()
}

// makesRoom holds a lock until somebody else wants it.
func (c *client) makesRoom(ctx context.Context, rng *rand.Rand, e history.Event) {
	e.Resources, e.Polls = c.cfg.Resources[:1], false // Somebody in this process is likely to want it, too.
	h := c.lock(ctx, e, 2*time.Second)
	if h == nil {
		return
	}
	done := c.keep(ctx, h)
	about := history.Event{Kind: history.Wanted, Lock: h.call, Resources: h.Resources()}
	wanted := h.Wanted()
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
