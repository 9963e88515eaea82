package libraries

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Redislock locks on one server.
var Redislock = Library{
	Name:    "redislock",
	Modules: []string{"github.com/bsm/redislock", "github.com/redis/go-redis/v9"},
	Setup:   "one go-redis client: " + poolSetup + "; timeouts of 500 ms, no retries",
	OneNode: true,
	Open: func(o Opening) (Client, error) {
		c := newGoredis(o.Addrs[0], o.Connections)
		locker := redislock.New(c)
		return Client{
			Name:      "redislock",
			NewWorker: func() Worker { return &redislockWorker{locker: locker, ttl: o.TTL} },
			Close:     func() { _ = c.Close() },
		}, nil
	},
}

type redislockWorker struct {
	locker *redislock.Client
	ttl    time.Duration
	held   *redislock.Lock
}

func (w *redislockWorker) Try(ctx context.Context, key string) (err error) {
	w.held, err = w.locker.Obtain(ctx, key, w.ttl, nil)
	return err
}

func (w *redislockWorker) Unlock(ctx context.Context) error { return w.held.Release(ctx) }

// Rueidislock locks on one server.
var Rueidislock = Library{
	Name:    "rueidislock",
	Modules: []string{"github.com/redis/rueidis"},
	Setup: "one Locker: KeyMajority 1, as its README says for one server (a majority is one of keys, not of servers), " +
		"NoLoopTracking. It extends every lock by itself",
	OneNode: true,
	Open:    openRueidislock,
}

func openRueidislock(o Opening) (Client, error) {
	settings := rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: o.Addrs[:1]},
		KeyMajority:  1, NoLoopTracking: true, KeyValidity: o.TTL,
	}
	if o.Drawn != nil {
		settings.ClientBuilder = func(to rueidis.ClientOption) (rueidis.Client, error) {
			c, err := rueidis.NewClient(to)
			return seen{c, o.Drawn}, err
		}
	}
	locker, err := rueidislock.NewLocker(settings)
	if err != nil {
		return Client{}, err
	}
	return Client{
		Name:      "rueidislock",
		NewWorker: func() Worker { return &rueidislockWorker{locker: locker} },
		Close:     locker.Close,
	}, nil
}

type rueidislockWorker struct {
	locker rueidislock.Locker
	kept   context.Context //nolint:containedctx // It is what the library gives its callers.
	cancel context.CancelFunc
}

func (w *rueidislockWorker) Try(ctx context.Context, key string) (err error) {
	w.kept, w.cancel, err = w.locker.TryWithContext(ctx, key)
	return err
}

// Lock cancels the wait by a timer: a deadline of the context would end the lock as well.
func (w *rueidislockWorker) Lock(ctx context.Context, key string, wait time.Duration) error {
	ctx, giveUp := context.WithCancel(ctx)
	if wait > 0 {
		defer time.AfterFunc(wait, giveUp).Stop()
	}
	kept, cancel, err := w.locker.WithContext(ctx, key)
	if err != nil {
		giveUp()
		return err
	}
	w.kept, w.cancel = kept, func() { cancel(); giveUp() }
	return nil
}

// Unlock waits for the release, and cannot say whether it succeeded.
func (w *rueidislockWorker) Unlock(context.Context) error {
	w.cancel()
	return nil
}

func (w *rueidislockWorker) Until() time.Time      { return time.Time{} }
func (w *rueidislockWorker) Lost() <-chan struct{} { return w.kept.Done() }

// seen is a client whose locks' values are told.
type seen struct {
	rueidis.Client

	drawn func(ctx context.Context, value string)
}

// Do sees the script of an acquisition: EVALSHA, its digest, 1, the key, the value, the end of its validity.
func (s seen) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if words := cmd.Commands(); len(words) == 6 {
		s.drawn(ctx, hex.EncodeToString([]byte(words[4])))
	}
	return s.Client.Do(ctx, cmd)
}
