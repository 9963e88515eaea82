package main

import (
	"context"
	"strconv"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

var redlockLibrary = library{
	name:  "redlock",
	setup: "NewNode for each node, no options",
	open:  func(name string, o opening) (client, error) { return newRedlock(name, o.addrs, o.ttl) },
}

// fencedLibrary is used where locks with fencing are measured beside those without.
var fencedLibrary = library{
	name:  "redlock, fenced",
	setup: "NewNode for each node, WithFencing",
	open: func(name string, o opening) (client, error) {
		return newRedlock(name, o.addrs, o.ttl, redlock.WithFencing())
	},
}

// openRedlock returns a Redlock over the nodes as the documentation shows it.
func openRedlock(addrs []string, opts ...redlock.Option) (*redlock.Redlock, error) {
	nodes := make([]redlock.Node, len(addrs))
	for i, addr := range addrs {
		nodes[i] = redlock.NewNode(addr)
	}
	return redlock.New(nodes, opts...)
}

func newRedlock(name string, addrs []string, ttl time.Duration, opts ...redlock.Option) (client, error) {
	r, err := openRedlock(addrs, opts...)
	if err != nil {
		return client{}, err
	}
	return client{
		name:      name,
		newWorker: func() worker { return &redlockWorker{r: r, ttl: ttl} },
		close:     func() { closeRedlock(r) },
	}, nil
}

func closeRedlock(r *redlock.Redlock) { _ = r.Close(context.Background()) }

type redlockWorker struct {
	r    *redlock.Redlock
	ttl  time.Duration
	held *redlock.Lock
}

func (w *redlockWorker) lock(ctx context.Context, key string) (err error) {
	w.held, err = w.r.TryLock(ctx, []string{key}, w.ttl)
	return err
}

func (w *redlockWorker) unlock(ctx context.Context) error { return w.held.Unlock(ctx) }

func (w *redlockWorker) extend(ctx context.Context) error { return w.held.Extend(ctx, w.ttl) }

// A setWorker locks a number of resources at once.
type setWorker struct {
	redlockWorker
	number int
	key    string
	set    []string // of the key
}

// lock keeps the names of its resources as long as the key is the same: making them
// is not what is measured.
func (w *setWorker) lock(ctx context.Context, key string) (err error) {
	if w.key != key {
		w.key, w.set = key, nil
		for i := range w.number {
			w.set = append(w.set, key+":"+strconv.Itoa(i))
		}
	}
	w.held, err = w.r.TryLock(ctx, w.set, w.ttl)
	return err
}
