// Package locker is a client process of another lock library, or of this one, that speaks as ../../chaos/protocol says.
package locker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/compat/node"
	"github.com/seed6c881748/redlock/proof/chaos/client"
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
)

// Libraries are those that are written in Go, each set up as its documentation does.
var Libraries = map[string]libraries.Library{
	"redlock":         libraries.Redlock,
	"redsync/redigo":  libraries.RedsyncOn("redigo"),
	"redsync/goredis": libraries.RedsyncOn("goredis"),
	"rueidislock":     libraries.Rueidislock,
}

// Node is the command of the client in JavaScript.
func Node() ([]string, error) {
	if err := node.Install(); err != nil {
		return nil, err
	}
	return []string{"node", filepath.Join(node.Folder(), "course.js")}, nil
}

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
	library, ok := Libraries[name]
	if !ok {
		return fmt.Errorf("locker: there is no %q", name)
	}
	o := libraries.Opening{Addrs: cfg.Nodes, TTL: time.Duration(cfg.TTL), Drawn: drew}
	connected, err := library.Open(o)
	for ; err != nil; connected, err = library.Open(o) { // It gives up if a server is away.
		time.Sleep(100 * time.Millisecond)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var workers sync.WaitGroup
	var calls atomic.Int64
	for n := range cfg.Workers {
		lock := connected.NewWorker().(libraries.Waiter) //nolint:forcetypeassert // All of them are.
		lot := rand.New(rand.NewPCG(cfg.Seed, uint64(n)))
		workers.Go(func() { (&worker{Recorder: to, Waiter: lock, cfg: cfg, calls: &calls, lot: lot}).work(ctx) })
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
