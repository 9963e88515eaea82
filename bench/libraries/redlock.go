package libraries

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// Redlock is this library with its defaults, and Fenced the same with fencing.
var (
	Redlock = Ours("redlock", "NewNode for each node, no options")
	Fenced  = Ours("redlock, fenced", "NewNode for each node, WithFencing", redlock.WithFencing())
)

// Ours is this library with options.
func Ours(name, setup string, opts ...redlock.Option) Library {
	return ours(name, setup, func(w *redlockWorker) Worker { return w }, opts)
}

// OfSets is this library where each lock is on so many resources.
func OfSets(name string, number int, opts ...redlock.Option) Library {
	return ours(name, "", func(w *redlockWorker) Worker { return &setWorker{redlockWorker: w, number: number} }, opts)
}

func ours(name, setup string, worker func(*redlockWorker) Worker, opts []redlock.Option) Library {
	return Library{
		Name: name, Setup: setup,
		Open: func(o Opening) (Client, error) {
			r, err := OpenRedlock(o.Addrs, opts...)
			if err != nil {
				return Client{}, err
			}
			return Client{
				Name:      name,
				NewWorker: func() Worker { return worker(&redlockWorker{r: r, ttl: o.TTL, drawn: o.Drawn}) },
				Close:     func() { _ = r.Close(context.Background()) },
			}, nil
		},
	}
}

// OpenRedlock returns a Redlock over the nodes as the documentation shows it.
func OpenRedlock(addrs []string, opts ...redlock.Option) (*redlock.Redlock, error) {
	nodes := make([]redlock.Node, len(addrs))
	for i, addr := range addrs {
		nodes[i] = redlock.NewNode(addr)
	}
	return redlock.New(nodes, opts...)
}

type redlockWorker struct {
	r     *redlock.Redlock
	ttl   time.Duration
	held  *redlock.Lock
	kept  context.Context //nolint:containedctx // It is the loss signal.
	drawn func(ctx context.Context, value string)
}

func (w *redlockWorker) Try(ctx context.Context, key string) error {
	return w.try(ctx, []string{key})
}

func (w *redlockWorker) try(ctx context.Context, keys []string) (err error) {
	w.kept = nil
	w.held, err = w.r.TryLock(ctx, keys, w.ttl, w.label(ctx)...)
	return err
}

func (w *redlockWorker) Lock(ctx context.Context, key string, wait time.Duration) (err error) {
	ctx, cancel := within(ctx, wait)
	defer cancel()
	w.kept = nil
	w.held, err = w.r.Lock(ctx, []string{key}, w.ttl, append(w.label(ctx), redlock.WithRetryCount(-1))...)
	return err
}

var labels atomic.Int64

// label is one for each call where somebody looks, so that it is known whose a key is.
func (w *redlockWorker) label(ctx context.Context) []redlock.Option {
	if w.drawn == nil {
		return nil
	}
	label := fmt.Sprintf("%d.%d", os.Getpid(), labels.Add(1))
	w.drawn(ctx, label)
	return []redlock.Option{redlock.WithOwner(label)}
}

func (w *redlockWorker) Unlock(ctx context.Context) error { return w.held.Unlock(ctx) }
func (w *redlockWorker) Extend(ctx context.Context) error { return w.held.Extend(ctx, w.ttl) }
func (w *redlockWorker) Until() time.Time                 { return w.held.Until() }
func (w *redlockWorker) Keep()                            { w.kept = w.held.KeepAlive(context.Background()) }

func (w *redlockWorker) Lost() <-chan struct{} {
	if w.kept == nil {
		return nil
	}
	return w.kept.Done()
}

type setWorker struct {
	*redlockWorker

	number int
	key    string
	set    []string // of the key
}

// Try keeps the names of its resources as long as the key is the same: making them
// is not what is measured.
func (w *setWorker) Try(ctx context.Context, key string) error {
	if w.key != key {
		w.key, w.set = key, nil
		for i := range w.number {
			w.set = append(w.set, key+":"+strconv.Itoa(i))
		}
	}
	return w.try(ctx, w.set)
}
