package locker

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// ours is this library with its defaults.
type ours struct {
	r     *redlock.Redlock
	ttl   time.Duration
	calls atomic.Int64
}

// label is one for each call, so that it is known whose a key is.
func (o *ours) label(ctx context.Context) redlock.Option {
	label := fmt.Sprintf("%d.%d", os.Getpid(), o.calls.Add(1))
	drew(ctx, label)
	return redlock.WithOwner(label)
}

func openRedlock(addrs []string, ttl time.Duration) (Library, error) {
	var nodes []redlock.Node
	for _, addr := range addrs {
		nodes = append(nodes, redlock.NewNode(addr))
	}
	r, err := redlock.New(nodes)
	return &ours{r: r, ttl: ttl}, err
}

func (o *ours) Try(ctx context.Context, resource string) (Held, error) {
	l, err := o.r.TryLock(ctx, []string{resource}, o.ttl, o.label(ctx))
	if err != nil {
		return nil, err
	}
	return &oursHeld{Lock: l}, nil
}

func (o *ours) Lock(ctx context.Context, resource string, wait time.Duration) (Held, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	l, err := o.r.Lock(ctx, []string{resource}, o.ttl, redlock.WithRetryCount(-1), o.label(ctx))
	if err != nil {
		return nil, err
	}
	return &oursHeld{Lock: l}, nil
}

type oursHeld struct {
	*redlock.Lock
	kept context.Context //nolint:containedctx // It is the loss signal.
}

func (h *oursHeld) Keep(time.Duration) { h.kept = h.KeepAlive(context.Background()) }

func (h *oursHeld) Lost() <-chan struct{} {
	if h.kept == nil {
		return nil
	}
	return h.kept.Done()
}
