// Package client is a process that uses the library as its users do, at random, and tells the observer of all it does.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
)

type client struct {
	cfg protocol.Config
	rec *Recorder
	lib *redlock.Redlock
	ttl time.Duration

	// wall is by how much the wall clock of this client is wrong: by less than a second, which fences bear.
	wall time.Duration

	bare *redlock.Redlock // Without quarantine.
	far  *redlock.Redlock // Over slow connections.
	long *redlock.Redlock // Of workLong.
	open []*redlock.Redlock

	semaphores []*permits

	calls atomic.Int64

	mu      sync.Mutex
	held    map[int]*held // By the calls that have got them.
	waiting map[int]bool  // The calls that are known to wait.
}

// Run works as the configuration on stdin says, until stdin ends.
func Run(stdin io.Reader, stdout io.Writer) error {
	cfg, lines, err := protocol.Orders(stdin)
	if err != nil {
		return err
	}
	c, err := newClient(cfg)
	if err != nil {
		return err
	}
	go c.rec.findStalls()
	go c.rec.tellStalls()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var workers sync.WaitGroup
	c.startWorkers(ctx, &workers)
	if _, err = fmt.Fprintln(stdout, protocol.Ready); err != nil {
		return err
	}
	for lines.Scan() {
		var cmd protocol.Command
		if err = json.Unmarshal(lines.Bytes(), &cmd); err != nil {
			return fmt.Errorf("client: command: %w", err)
		}
		switch cmd.Do {
		case protocol.Stop:
			stop()
			go func() {
				workers.Wait()
				_, _ = fmt.Fprintln(stdout, protocol.Done)
			}()
		case protocol.Release:
			workers.Go(func() { c.releaseForeign(ctx, cmd) })
		case protocol.Admit:
			go func() {
				c.admit(cmd.Node)
				_, _ = fmt.Fprintln(stdout, protocol.Admitted(cmd.Node))
			}()
		case protocol.Sample:
			go c.sample(cmd.Tick)
		}
	}
	stop()
	workers.Wait()
	for _, lib := range c.open {
		err = errors.Join(err, lib.Close(context.Background()))
	}
	return errors.Join(err, c.rec.failed())
}

func (c *client) startWorkers(ctx context.Context, workers *sync.WaitGroup) {
	cfg := c.cfg
	for i := range 3 * cfg.Workers {
		workers.Go(func() { c.work(ctx, rand.New(rand.NewPCG(cfg.Seed, uint64(i)))) })
	}
	for i, res := range cfg.Expiring {
		workers.Go(func() { c.lapses(ctx, rand.New(rand.NewPCG(cfg.Seed, uint64(100+i))), res) })
	}
	for i, res := range cfg.Led {
		workers.Go(func() { c.leads(ctx, res, i == 0) })
	}
	if len(cfg.Led) > 0 { // What nobody else wants shows whether nodes get back keys that they have lost.
		workers.Go(func() { c.leads(ctx, "own/"+cfg.Client, true) })
	}
	for i := range cfg.Callers {
		workers.Go(func() { c.crowds(ctx, fmt.Sprint("crowd/", i)) })
	}
	if cfg.Long {
		workers.Go(func() { c.workLong(ctx) })
	}
}

// newClient connects to the observer; the nodes are connected to when they are needed.
func newClient(cfg protocol.Config) (*client, error) {
	rec, err := NewRecorder(cfg)
	if err != nil {
		return nil, err
	}
	c := &client{
		cfg: cfg, rec: rec, ttl: time.Duration(cfg.TTL),
		held: make(map[int]*held), waiting: make(map[int]bool),
		wall: between(rand.New(rand.NewPCG(cfg.Seed, 300)), -400*time.Millisecond, 400*time.Millisecond),
	}
	return c, c.connectAll()
}

// connect returns a Redlock on the run's nodes, over such connections.
func (c *client) connect(conns []redis.DialOption, opts ...redlock.Option) (*redlock.Redlock, error) {
	nodes := make([]redlock.Node, len(c.cfg.Nodes))
	for i, addr := range c.cfg.Nodes {
		nodes[i] = c.node(addr, conns)
	}
	lib, err := redlock.New(nodes, append([]redlock.Option{redlock.WithNodeTimeout(c.nodeTimeout())}, opts...)...) // opts stay as they are.
	if err == nil {
		settings.Inside(lib).WallOffset.Store(int64(c.wall))
		c.open = append(c.open, lib)
	}
	return lib, err
}

// node is connected to as the client is.
func (c *client) node(addr string, conns []redis.DialOption) redlock.Node {
	switch c.cfg.Conn {
	case protocol.Mute:
		conns = append(conns, redis.DialUsername(protocol.Mute), redis.DialPassword("any"))
	case protocol.Single:
		dial := func(ctx context.Context) (redis.Conn, error) { return redis.DialContext(ctx, "tcp", addr, conns...) }
		return redlock.Node{Name: addr, Pool: &redis.Pool{MaxActive: 1, DialContext: dial}}
	}
	return redlock.NewNode(addr, conns...)
}

func (c *client) admit(node int) {
	for range 20 {
		if c.lib.Admit(context.Background(), c.cfg.Nodes[node]) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
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
	slow := redis.DialNetDial(func(network, addr string) (net.Conn, error) {
		conn, failed := net.Dial(network, addr)
		return slowConn{conn, c.nodeTimeout() / 3}, failed
	})
	for _, r := range []struct {
		lib   **redlock.Redlock
		conns []redis.DialOption
		opts  []redlock.Option
	}{
		{&c.lib, nil, usual},
		{&c.far, []redis.DialOption{slow}, usual},
		{&c.long, nil, []redlock.Option{redlock.WithPrefix("long:"), redlock.WithFencing()}},
	} {
		if *r.lib, err = c.connect(r.conns, r.opts...); err != nil {
			return err
		}
	}
	c.semaphores = []*permits{{name: "sem/0", k: 2}, {name: "sem/1", k: 3, period: 300 * time.Millisecond}}
	for _, p := range c.semaphores {
		p.Semaphore, err = semaphore.New(c.lib, p.name, p.k, c.ttl, redlock.WithMinHold(p.period))
		if err != nil {
			return err
		}
	}
	return nil
}

// A slowConn is a connection whose requests take up to a time.
type slowConn struct {
	net.Conn
	most time.Duration
}

func (s slowConn) Write(b []byte) (int, error) {
	time.Sleep(rand.N(s.most))
	return s.Conn.Write(b)
}
