// Package locker is a client process of another lock library, or of this one, that speaks as ../../chaos/protocol says.
package locker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/proof/chaos/client"
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
)

// How the clients of all libraries work, in compat/node/course.js as well.
const (
	// Patience is how long a call may wait for others; what is not over then is given up.
	Patience = 3 * time.Second

	shortWork = 40 * time.Millisecond // The longest of the short sections.
	pause     = 60 * time.Millisecond // The longest pause between two locks of a worker.
	longShare = 24                    // One section in so many takes up to three ttls, and is extended.
	waitShare = 2                     // One call in so many waits; the others try once.
)

// Run is a client process of the library of that name: it does what it is told on in.
func Run(name string, in io.Reader, out io.Writer) error {
	cfg, orders, err := protocol.Orders(in)
	if err != nil {
		return err
	}
	to, err := client.NewRecorder(cfg)
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintln(out, protocol.Ready); err != nil {
		return err
	}
	library, err := open(name, cfg)
	if err != nil {
		return err
	}
	c := &process{Recorder: to, cfg: cfg}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	workers := sync.WaitGroup{}
	for n := range cfg.Workers {
		lock := library.NewWorker().(libraries.Waiter) //nolint:forcetypeassert // All of them are.
		workers.Go(func() { c.work(ctx, lock, rand.New(rand.NewPCG(cfg.Seed, uint64(n)))) })
	}
	for orders.Scan() {
		var order protocol.Command
		if json.Unmarshal(orders.Bytes(), &order) == nil && order.Do == protocol.Stop {
			stop()
			go func() {
				workers.Wait()
				_, _ = fmt.Fprintln(out, protocol.Done)
			}()
		}
	}
	return orders.Err()
}

// open connects. A library that gives up because a server is away is opened again.
func open(name string, cfg protocol.Config) (libraries.Client, error) {
	library, ok := Libraries[name]
	if !ok {
		return libraries.Client{}, fmt.Errorf("locker: there is no %q", name)
	}
	for {
		c, err := library.Open(libraries.Opening{Addrs: cfg.Nodes, TTL: time.Duration(cfg.TTL), Drawn: drew})
		if err == nil {
			return c, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// A process locks, works and releases until it is stopped.
type process struct {
	*client.Recorder

	cfg   protocol.Config
	calls atomic.Int64
}

// work goes on until ctx ends. What is under way then is finished.
func (c *process) work(ctx context.Context, lock libraries.Waiter, lot *rand.Rand) {
	for ctx.Err() == nil {
		resource := c.cfg.Resources[lot.IntN(len(c.cfg.Resources))]
		length := time.Duration(lot.Int64N(int64(shortWork)))
		long := lot.IntN(longShare) == 0
		if long {
			length = time.Duration(c.cfg.TTL + lot.Int64N(2*c.cfg.TTL))
		}
		if id, ok := c.acquire(ctx, lock, resource, lot.IntN(waitShare) == 0); ok {
			s := &section{process: c, Waiter: lock, id: id, resource: resource}
			s.run(ctx, length, long)
			s.release(ctx)
		}
		time.Sleep(time.Duration(lot.Int64N(int64(pause))))
	}
}

// acquire returns the call's number, and whether it got the lock.
func (c *process) acquire(ctx context.Context, lock libraries.Waiter, resource string, wait bool) (id int, ok bool) {
	op, limit := history.OpTryLock, time.Duration(0)
	if wait {
		op, limit = history.OpLock, Patience
	}
	ctx, values := drawing(context.WithoutCancel(ctx))
	id = c.call(history.Event{Op: op, Resources: []string{resource}, TTL: c.cfg.TTL}, limit,
		func() (until int64, token string, err error) {
			if wait {
				err = lock.Lock(ctx, resource, Patience)
			} else {
				err = lock.Try(ctx, resource)
			}
			if ok = err == nil; ok {
				until = c.at(lock.Until())
			}
			return until, values.String(), err
		})
	return id, ok
}

// slow is what a call may take that was not told to wait.
const slow = time.Second

// call tells of a call before and after it, and returns its number. It was told to wait as long as limit.
func (c *process) call(e history.Event, limit time.Duration, do func() (until int64, token string, err error)) int {
	e.At, e.Kind, e.Call = c.Clock.Now(), history.Call, int(c.calls.Add(1))
	e.Bound = e.At + int64(limit+slow)
	c.Log(e)
	until, token, err := do()
	end := history.Event{
		Kind: history.Return, Op: e.Op, Call: e.Call, Lock: e.Lock, Resources: e.Resources, OK: err == nil,
		Until: until, Token: token,
	}
	if err != nil {
		end.Err = err.Error()
	}
	c.Log(end)
	return e.Call
}

// at is a time of the run, 0 if there is none.
func (c *process) at(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return c.Clock.Of(t)
}
