package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Libraries that lock on one server.

var redislockLibrary = library{
	name:    "redislock",
	modules: []string{"github.com/bsm/redislock", "github.com/redis/go-redis/v9"},
	setup:   "one go-redis client: " + poolSetup + "; timeouts of 500 ms, no retries",
	servers: oneNode,
	open:    openRedislock,
}

func openRedislock(name string, o opening) (client, error) {
	c := newGoredis(o.addrs[0], poolSize(o.goroutines))
	locker := redislock.New(c)
	return client{
		name:      name,
		newWorker: func() worker { return &redislockWorker{locker: locker, ttl: o.ttl} },
		close:     func() { _ = c.Close() },
	}, nil
}

type redislockWorker struct {
	locker *redislock.Client
	ttl    time.Duration
	held   *redislock.Lock
}

func (w *redislockWorker) lock(ctx context.Context, key string) (err error) {
	w.held, err = w.locker.Obtain(ctx, key, w.ttl, nil)
	return err
}

func (w *redislockWorker) unlock(ctx context.Context) error { return w.held.Release(ctx) }

var rueidislockLibrary = library{
	name:    "rueidislock",
	modules: []string{"github.com/redis/rueidis"},
	setup: "one Locker: KeyMajority 1, as its README says for one server (a majority is one of keys, not of servers), " +
		"NoLoopTracking. It extends every lock by itself",
	servers: oneNode,
	open:    openRueidislock,
}

func openRueidislock(name string, o opening) (client, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: o.addrs[:1]},
		KeyMajority:  1, NoLoopTracking: true, KeyValidity: o.ttl,
	})
	if err != nil {
		return client{}, err
	}
	return client{name: name, newWorker: func() worker { return &rueidislockWorker{locker: locker} }, close: locker.Close}, nil
}

type rueidislockWorker struct {
	locker rueidislock.Locker
	cancel context.CancelFunc
}

func (w *rueidislockWorker) lock(ctx context.Context, key string) (err error) {
	_, w.cancel, err = w.locker.TryWithContext(ctx, key)
	return err
}

// unlock waits for the release, and cannot say whether it succeeded.
func (w *rueidislockWorker) unlock(context.Context) error {
	w.cancel()
	return nil
}
