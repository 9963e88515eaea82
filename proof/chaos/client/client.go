// Package client is a process that uses the library as its users do, at random, and tells the observer of all it does.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/redlock"
)

type client struct {
	cfg protocol.Config
	rec *Recorder
	lib *redlock.Redlock
	ttl time.Duration

	// wall is by how much the wall clock of this client is wrong: by less than a second, which fences bear.
	wall time.Duration

	bare *redlock.Redlock // Without quarantine.
	long *redlock.Redlock // Of workLong.
	open []*redlock.Redlock
	features

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

// callKey is the key of a call's number in its context, and in those of calls on its lock, which the hook gets.
type callKey struct{}

// hook tells what calls do not return: how nodes voted, who waits, the extensions of KeepAlive, and of sets.
func (c *client) hook(ctx context.Context, e redlock.Event) {
	if c.cfg.Quiet {
		return // What is known of calls would grow.
	}
	call, _ := ctx.Value(callKey{}).(int)
	at := c.rec.Clock.Of(e.Time)
	switch {
	case e.Kind == redlock.EventSettled && e.Op == redlock.OpLock && call != 0:
		c.rec.Log(history.Event{At: at, Kind: history.Votes, Call: max(call, -call), From: at - int64(e.Took), Votes: votes(c.cfg.Set, e, at)})
	case e.Kind == redlock.EventWaiting && call > 0 && c.waitsNow(call):
		c.rec.Log(history.Event{At: at, Kind: history.Wait, Call: call})
	case e.Kind == redlock.EventExtended && e.Kept:
		c.logExtension(call, e, at)
	case e.Kind == redlock.EventReleased && e.Passed:
		c.rec.Log(history.Event{At: at, Kind: history.Passed, Lock: call})
	case e.Kind == redlock.EventSetsDiffer:
		c.rec.Log(history.Event{At: at, Kind: history.Sets, OK: e.Set.QuorumsMeet, Err: e.Set.String()})
	}
}

// waitsNow reports whether this is the first that is heard of the call's waiting.
func (c *client) waitsNow(call int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.waiting[call]
	c.waiting[call] = true
	return first
}

func (c *client) logExtension(call int, e redlock.Event, at int64) {
	c.mu.Lock()
	h := c.held[call]
	c.mu.Unlock()
	if h == nil {
		return
	}
	x := h.given // A lock is kept for what it was asked for.
	x.At, x.Op, x.Call, x.Lock, x.Bound, x.Detail = at-int64(e.Took), history.OpExtend, c.nextCall(), h.call, 0, "keep alive"
	c.rec.Log(x)
	x = c.returned(x)
	x.At = at
	setResult(&x, e.Err)
	if x.OK {
		x.Until = c.rec.Clock.Of(e.Until)
	}
	c.rec.Log(x)
}

// number is that of a node in the run, which is one of the set's.
func number(set []int, node int) int {
	if set == nil {
		return node
	}
	return set[node]
}

// votes are those of an event that happened at a time.
func votes(set []int, e redlock.Event, at int64) []history.Vote {
	all := make([]history.Vote, len(e.Votes))
	for i, v := range e.Votes {
		all[i] = history.Vote{Node: number(set, i), Says: says(v.Err)}
		if v.Took > 0 {
			all[i].At = at - int64(e.Took) + int64(v.Took)
		}
	}
	return all
}

func says(err error) string {
	switch {
	case err == nil:
		return "yes"
	case errors.Is(err, redlock.ErrTaken):
		return "taken"
	}
	return err.Error()
}

func (c *client) nextCall() int { return int(c.calls.Add(1)) }
