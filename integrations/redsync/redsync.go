// Package redsync has the API of github.com/go-redsync/redsync/v4 on a Redlock, for programs that use redsync. They change
// the path of redsync in their imports, those of its pools included:
//
//	client := goredislib.NewClient(&goredislib.Options{Addr: "10.0.0.1:6379"})
//	rs := redsync.New(goredis.NewPool(client))
//
//	mutex := rs.NewMutex("my-global-mutex")
//	if err := mutex.Lock(); err != nil {
//		…
//	}
//	defer mutex.Unlock()
//
// Mutexes, calls of a Redlock on the same servers, and processes that still use redsync exclude each other. What behaves
// differently from redsync is in docs/migrating.md.
//
// # Errors
//
// A call returns what it returns in redsync, by the same types and values: test for them with errors.Is and
// errors.As. *[ErrTaken] may also be tested for by its type. Each error of a call also matches the error of
// package redlock that it is made of, and errors.As finds a *[redlock.QuorumError] with the votes of all nodes,
// by name, if nodes were asked. Node numbers count from 0 in the order of the pools.
//
// # Wrong arguments
//
// New and NewMutex report nothing, as in redsync. An option that has a wrong value, a wrong name, and pools that cannot be
// used have each call fail, before any I/O, with an error that says what is wrong and matches none of redsync's: no program
// takes it for a lock that somebody else has.
//
// Values of this package's types must not be copied.
package redsync

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/redlock"
)

// Redsync makes mutexes. It is safe for concurrent use.
type Redsync struct {
	pools []redis.Pool
	now   atomic.Pointer[shared] // what it has used last

	once sync.Once
	made []redlock.Node
	err  error // why there are none
}

// New returns a Redsync whose mutexes are locked on the servers of pools, as nodes of a Redlock. It does no I/O, and
// there is nothing to close: Redsyncs whose pools have the same clients share a Redlock, with two connections to each
// node. It is made at the first call of a mutex, closed when none was made for ten seconds or so, no lock is held and all
// nodes have released what they were to, and made again at the next call. So it may be called for each lock.
//
// If a pool cannot be used, New logs why, and each call fails with an error that says what to do: no pools at all, a pool
// that is no [redis.NodePool], and what its package says. For options of the Redlock, see [Over].
func New(pools ...redis.Pool) *Redsync {
	r := &Redsync{pools: slices.Clone(pools)} // The caller may change its own.
	r.announce()
	return r
}

// Over returns a Redsync whose mutexes are locked with r. r remains the caller's: close it when the mutexes are
// no longer used, and before the process exits, as releases may still be on their way.
func Over(r *redlock.Redlock) *Redsync {
	rs := new(Redsync)
	s := &shared{r: r}
	if r == nil {
		s.err = errNoRedlock
	}
	rs.now.Store(s)
	return rs
}

// The defaults of redsync.
const (
	defaultExpiry = 8 * time.Second
	defaultTries  = 32
	defaultDelay  = 150 * time.Millisecond
	defaultJitter = 100 * time.Millisecond
)

// NewMutex returns a mutex with the given name, which is the resource of the Redlock: the key in redsync, with
// the prefix of [Over]'s Redlock in front if it has one. It does no I/O. Options hold for this mutex only; what they leave
// open is redsync's default, or a setting of the Redlock where the option says so.
func (r *Redsync) NewMutex(name string, options ...Option) *Mutex {
	m := &Mutex{rs: r, resources: [1]string{name}, set: &ofNew}
	if r != nil && r.pools == nil {
		m.set = &ofOver
	}
	for _, o := range options {
		if o == nil {
			m.own().refuse("nil Option")
			continue
		}
		o.Apply(m)
	}
	return m
}
