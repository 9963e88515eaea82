package redsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/redlock"
)

// This file is about the Redlocks of New, which nobody closes.

// A shared is a Redlock that all Redsyncs whose pools have the same clients use. Or one of Over, which is never closed here.
type shared struct {
	r       *redlock.Redlock
	err     error // why there is none
	clients []any // of the pools; nil: of Over

	// releases are those of other processes' locks that are under way: of simultaneous ones, one has done it.
	releases singleflight.Group

	calls atomic.Int64 // under way; negative once it is closed
	used  atomic.Bool  // since look has looked
	timer *time.Timer
}

const (
	// idle is after what time without a call a Redlock is closed, at the soonest; at the latest after twice that. Shorter,
	// and a program that locks now and then would connect each time; longer, and one that makes a client for each call
	// would have more of them.
	idle = 10 * time.Second

	// most is how many stay open though nothing needs them: a program that makes a client for each call has the connections
	// of so many, and one that has more clients than that connects again.
	most = 64

	over = math.MinInt64 / 2 // the calls of a shared that is closed
)

// Redlocks are those that are open.
var open struct {
	mu  sync.Mutex
	all []*shared
}

var (
	errNoRedlock = errors.New("redsync: Over was given a nil Redlock")
	errNoPools   = errors.New("there is no pool: New needs one for each server")
	errNoRedsync = errors.New("redsync: the mutex is of a nil Redsync")
)

// begin is called before what uses r, and end after it. Without success, r is closed.
func (s *shared) begin() bool {
	if s.calls.Add(1) <= 0 {
		s.calls.Add(-1)
		return false
	}
	return true
}

func (s *shared) end() {
	s.used.Store(true)
	s.calls.Add(-1)
}

// use returns the Redlock of a call, whose end must be called after it.
func (r *Redsync) use() (*shared, error) {
	s := r.now.Load()
	if s == nil || !s.begin() {
		s = r.find()
		r.now.Store(s)
	}
	if s.err != nil {
		s.end()
		return nil, s.err
	}
	return s, nil
}

// find returns the Redlock of r's pools, which is made if there is none. A call has begun on it.
func (r *Redsync) find() *shared {
	clients := r.clients()
	if s := opened(clients); s != nil {
		return s
	}
	nodes, err := r.nodes() // Without the lock: pools may be the program's own.
	open.mu.Lock()
	defer open.mu.Unlock()
	if s := begun(clients); s != nil {
		return s
	}
	s := &shared{clients: clients}
	s.calls.Store(1)
	if err == nil {
		s.r, err = redlock.New(nodes, defaultOptions...)
	}
	if err != nil {
		s.err = fmt.Errorf("redsync: the pools of New cannot be used: %w", err)
		return s
	}
	if len(open.all) >= most {
		closeOne()
	}
	open.all = append(open.all, s)
	s.timer = time.AfterFunc(idle, s.look)
	return s
}

// closeOne closes the oldest Redlock that nothing needs at the moment, if there is one. open.mu is held.
func closeOne() {
	for _, s := range open.all {
		if s.leave() {
			s.timer.Stop()
			time.AfterFunc(0, s.close) // Not within a call of somebody else's.
			return
		}
	}
}

// opened returns the Redlock of these clients, on which a call has begun; nil if there is none.
func opened(clients []any) *shared {
	open.mu.Lock()
	defer open.mu.Unlock()
	return begun(clients)
}

// begun is opened where open.mu is held.
func begun(clients []any) *shared {
	for _, s := range open.all {
		if slices.Equal(s.clients, clients) && s.begin() {
			return s
		}
	}
	return nil
}

// clients are what the pools are of. What cannot be compared, or is not told, is like no other.
func (r *Redsync) clients() []any {
	clients := make([]any, len(r.pools))
	for i, p := range r.pools {
		clients[i] = &r.pools[i]
		if n, ok := p.(redis.NodePool); ok {
			if c := n.Client(); reflect.ValueOf(c).Comparable() {
				clients[i] = c
			}
		}
	}
	return clients
}

// nodes are those of the pools. They are made once, and what there is to say of them is logged.
func (r *Redsync) nodes() ([]redlock.Node, error) {
	r.once.Do(func() {
		if r.made, r.err = nodesOf(r.pools); r.err != nil {
			once("the pools of New cannot be used, and each call fails: " + r.err.Error())
		}
	})
	return r.made, r.err
}

func nodesOf(pools []redis.Pool) (nodes []redlock.Node, err error) {
	if len(pools) == 0 {
		return nil, errNoPools
	}
	for i, p := range pools {
		of, ok := p.(redis.NodePool)
		if !ok {
			return nil, fmt.Errorf("pool %d is a %T, through which a Redlock cannot send its commands: "+
				"take one of the packages redigo and goredis, or give it the methods of redis.NodePool", i, p)
		}
		node, warning, err := of.Node()
		if err != nil {
			return nil, fmt.Errorf("pool %d: %w", i, err)
		}
		if warning != "" {
			once(fmt.Sprintf("pool %d: %s", i, warning))
		}
		if node.Name == "" {
			node.Name = fmt.Sprintf("pool %d", i)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// announce has New log what there is to say of its pools. If a Redlock of the same clients is open, that was said.
func (r *Redsync) announce() {
	if s := opened(r.clients()); s != nil {
		s.end()
		return
	}
	_, _ = r.nodes()
}

var (
	saidMu sync.Mutex
	said   = make(map[string]bool)
)

// maxSaid is how many lines are remembered. Without a bound, whoever has addresses without end would have the lines, too.
const maxSaid = 1000

// once logs a line, unless it was logged before.
func once(text string) {
	saidMu.Lock()
	defer saidMu.Unlock()
	if said[text] || len(said) >= maxSaid {
		return
	}
	said[text] = true
	slog.Warn("redsync: " + text) //nolint:sloglint // A default is what is wanted.
}

// look closes the Redlock, if nothing is under way, nor was since it has looked last.
func (s *shared) look() {
	open.mu.Lock()
	left := !s.used.Swap(false) && s.leave()
	if !left && s.calls.Load() >= 0 {
		s.timer.Reset(idle)
	}
	open.mu.Unlock()
	if left {
		s.close()
	}
}

// CloseIdle closes the Redlocks of New that nothing needs at the moment, as otherwise happens ten seconds or so after the last
// call: for tests that look for goroutines or connections that are left. They are made again at the next call. One whose
// node is owed a release stays open until that can have nothing to do any more.
func CloseIdle() {
	open.mu.Lock()
	var left []*shared
	for _, s := range slices.Clone(open.all) {
		if !s.leave() {
			continue
		}
		s.timer.Stop()
		left = append(left, s)
	}
	open.mu.Unlock()
	for _, s := range left {
		s.close()
	}
}

// leave has no further call use the Redlock, unless something needs it. open.mu is held.
func (s *shared) leave() bool {
	if s.isBusy() || !s.calls.CompareAndSwap(0, over) {
		return false
	}
	if s.isBusy() { // A call has come and gone meanwhile.
		s.calls.Add(-over)
		return false
	}
	open.all = slices.DeleteFunc(open.all, func(o *shared) bool { return o == s })
	return true
}

func (s *shared) close() { _ = s.r.Close(context.Background()) } // Nothing is on its way.

// isBusy reports whether a lock is held, or something of one may still be on a node.
func (s *shared) isBusy() bool {
	stats := s.r.Stats()
	return stats.Held > 0 || slices.ContainsFunc(stats.Nodes, func(n redlock.NodeStats) bool { return n.PendingReleases+n.Repeats > 0 })
}
