// Package libraries has an adapter for each lock library that redlock is compared with, and for redlock: the benchmarks
// and the courses of ../../proof drive all of them in the same way.
package libraries

import (
	"context"
	"errors"
	"time"
)

// A Library is one of those that are compared, in one configuration.
type Library struct {
	Name    string
	Modules []string // whose versions matter, by path
	Setup   string   // the configuration, in words
	OneNode bool     // It cannot lock on more.
	Open    func(o Opening) (Client, error)
}

// An Opening is what a client is made for.
type Opening struct {
	Addrs []string
	TTL   time.Duration

	// Connections is how many a library with a pool may have to a node. 0 has the library set up as its documentation
	// does, which is less than it can do.
	Connections int

	// Drawn is told each value that a call writes to the nodes, if it is not nil.
	Drawn func(ctx context.Context, value string)
}

// A Client is one library, connected to its servers. Each goroutine has a worker of its own.
type Client struct {
	Name      string
	NewWorker func() Worker
	Close     func()
}

// A Worker locks and unlocks for one goroutine, one key at a time.
type Worker interface {
	Try(ctx context.Context, key string) error // makes one attempt
	Unlock(ctx context.Context) error
}

// A Waiter is a worker whose library waits for a lock.
type Waiter interface {
	Worker

	// Lock waits as the library does by default, and not longer than wait if that is positive.
	Lock(ctx context.Context, key string, wait time.Duration) error

	Until() time.Time      // the end of the lock's validity, zero if the library does not say
	Lost() <-chan struct{} // closed when the library says that the lock is lost, nil if it does not say
}

// An Extender is a worker whose library extends a lock on request.
type Extender interface {
	Worker
	Extend(ctx context.Context) error
}

// A Keeper is a worker whose library extends a lock by itself from Keep on.
type Keeper interface {
	Worker
	Keep()
}

// within is a context that ends after a positive wait.
func within(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if wait <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, wait)
}

// refused makes an error of an answer that is none.
func refused(ok bool, err error) error {
	if !ok && err == nil {
		return errors.New("not held by a quorum")
	}
	return err
}
