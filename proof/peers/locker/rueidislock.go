package locker

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidisLibrary locks on one server, set up as in rueidislock's README.
type rueidisLibrary struct{ locker rueidislock.Locker }

func openRueidislock(addrs []string, ttl time.Duration) (Library, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: addrs[:1]},
		KeyMajority:    1,
		NoLoopTracking: true,
		KeyValidity:    ttl,
		ClientBuilder: func(o rueidis.ClientOption) (rueidis.Client, error) {
			c, err := rueidis.NewClient(o)
			return seen{c}, err
		},
	})
	if err != nil {
		return nil, err
	}
	return &rueidisLibrary{locker}, nil
}

func (l *rueidisLibrary) Try(ctx context.Context, resource string) (Held, error) {
	kept, cancel, err := l.locker.TryWithContext(ctx, resource)
	if err != nil {
		return nil, err
	}
	return rueidisHeld{kept, cancel}, nil
}

// Lock cancels the wait by a timer: a deadline of the context would end the lock as well.
func (l *rueidisLibrary) Lock(ctx context.Context, resource string, wait time.Duration) (Held, error) {
	ctx, giveUp := context.WithCancel(ctx)
	timer := time.AfterFunc(wait, giveUp)
	defer timer.Stop()
	kept, cancel, err := l.locker.WithContext(ctx, resource)
	if err != nil {
		giveUp()
		return nil, err
	}
	return rueidisHeld{kept, func() { cancel(); giveUp() }}, nil
}

type rueidisHeld struct {
	kept    context.Context //nolint:containedctx // It is what the library gives its callers.
	release context.CancelFunc
}

func (h rueidisHeld) Until() time.Time      { return time.Time{} }
func (h rueidisHeld) Lost() <-chan struct{} { return h.kept.Done() }
func (h rueidisHeld) Keep(time.Duration)    {}

func (h rueidisHeld) Unlock(context.Context) error {
	h.release()
	return nil
}

// seen is a client whose locks' values are told.
type seen struct{ rueidis.Client }

// Do sees the script of an acquisition: EVALSHA, its digest, 1, the key, the value, the end of its validity.
func (s seen) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if words := cmd.Commands(); len(words) == 6 {
		drew(ctx, hex.EncodeToString([]byte(words[4])))
	}
	return s.Client.Do(ctx, cmd)
}
