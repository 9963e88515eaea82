// Package redsync has the API of github.com/go-redsync/redsync/v4 on a Redlock, for programs that use
// redsync in many places. They change the import path and what they pass to [New]:
//
//	r, err := redlock.New([]redlock.Node{redlock.NewNode("10.0.0.1:6379"), redlock.NewNode("10.0.0.2:6379"), redlock.NewNode("10.0.0.3:6379")})
//	…
//	defer r.Close(ctx)
//	rs := redsync.New(r)
//
//	mutex := rs.NewMutex("my-global-mutex")
//	if err := mutex.Lock(); err != nil {
//		…
//	}
//	defer mutex.Unlock()
//
// Mutexes, calls of the Redlock itself, and processes that still use redsync on the same servers exclude
// each other. What behaves differently from redsync is in docs/migrating.md.
//
// # Errors
//
// A call returns what it returns in redsync, by the same types and values: test for them with errors.Is and
// errors.As. *[ErrTaken] may also be tested for by its type. Each error of a call also matches the error of
// package redlock that it is made of, and errors.As finds a *[redlock.QuorumError] with the votes of all nodes,
// by name, if nodes were asked. Node numbers count from 0 in the order of the nodes of redlock.New.
//
// # Wrong arguments
//
// NewMutex reports nothing, as in redsync. An option that has a wrong value, a nil Redlock and a wrong name have
// each call fail, before any I/O, with an error that says what is wrong.
//
// Values of this package's types must not be copied.
package redsync

import (
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// Redsync makes mutexes that are locked with one Redlock. It is safe for concurrent use.
type Redsync struct{ r *redlock.Redlock }

// New returns a Redsync whose mutexes are locked with r. r remains the caller's: close it when the mutexes are
// no longer used, and before the process exits, as releases may still be on their way.
func New(r *redlock.Redlock) *Redsync { return &Redsync{r} }

// The defaults of redsync.
const (
	defaultExpiry = 8 * time.Second
	defaultTries  = 32
	defaultDelay  = 150 * time.Millisecond
	defaultJitter = 100 * time.Millisecond
)

// NewMutex returns a mutex with the given name, which is the resource of the Redlock: the key in redsync, with
// the Redlock's prefix in front if it has one. It does no I/O. Options hold for this mutex only; what they leave
// open is redsync's default, or a setting of the Redlock where the option says so.
func (r *Redsync) NewMutex(name string, options ...Option) *Mutex {
	m := &Mutex{name: name, expiry: defaultExpiry, tries: defaultTries, delay: defaultDelay, jitter: defaultJitter}
	if r != nil {
		m.r = r.r
	}
	for _, o := range options {
		if o == nil {
			m.refuse("nil Option")
			continue
		}
		o.Apply(m)
	}
	return m
}
