package redsync

import (
	"errors"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/stored"
)

// This file is about the locks that mutexes of this process have, by which a mutex of WithValue finds that of another one.

// A holding is a lock that a mutex has got.
type holding struct {
	lock *redlock.Lock
	r    *redlock.Redlock
	name string
	own  string      // what WithGenValueFunc has returned for it; empty: nothing
	told atomic.Bool // an Unlock has returned that it has released the lock
}

// A register has the holdings of this process, in shards by name: most locks are never looked for, so what counts is what it
// costs to note one.
type register struct {
	shards [256]shard
	users  values
}

type shard struct {
	mu  sync.Mutex
	all []*holding // those that are over too, until there is no room
}

// Values are those of the user's, and whether more than one lock has had them.
type values struct {
	mu           sync.Mutex
	more, before map[uint64]bool // by a sum; before are older ones
}

// maxValues is how many values of the user's are remembered at least, by eight bytes each.
const maxValues = 1 << 16

var (
	holdings register
	seed     = maphash.MakeSeed()
)

var (
	errManyHadIt = errors.New("redsync: more than one lock of this process has had the value that WithGenValueFunc returned, so it" +
		" names none: give WithValue what Token of the mutex returns")

	errForeign = errors.New("redsync: WithValue was given no value of a lock of this process on these servers, nor the token of another" +
		" one's: what WithGenValueFunc has returned names nothing to another process; hand on what Token of the mutex returns")

	errHanded = errors.New("redsync: WithValue was given the token of another process's lock: only that one can extend it")
)

func (h *register) shard(name string) *shard {
	return &h.shards[maphash.String(seed, name)%uint64(len(h.shards))]
}

// add notes that a mutex has a lock.
func (h *register) add(held *holding) {
	if held.own != "" {
		h.users.add(held.own)
	}
	s := h.shard(held.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == cap(s.all) {
		now := time.Now() // A release before the end may have to be repeated.
		s.all = slices.DeleteFunc(s.all, func(held *holding) bool { return !now.Before(held.lock.Until()) })
		s.all = append(make([]*holding, 0, 2*len(s.all)+4), s.all...)
	}
	s.all = append(s.all, held)
}

// remove forgets a lock that is over.
func (h *register) remove(held *holding) {
	s := h.shard(held.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, last := slices.Index(s.all, held), len(s.all)-1; i >= 0 {
		s.all[i], s.all[last] = s.all[last], nil
		s.all = s.all[:last]
	}
}

// find returns the lock of that name with a value: its token, or, if it was taken with r, the user's own. Without one, the
// value is a token of another process, or of a lock that is over. An error says why the value names no lock; it matches
// redlock.ErrLost if that is over.
func (h *register) find(r *redlock.Redlock, name, value string) (held *holding, err error) {
	s := h.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	elsewhere := false
	for _, is := range s.all {
		switch {
		case is.name != name:
		case is.lock.Token() == value: // It is wherever it was taken.
			return is, nil
		case is.own == "" || is.own != value:
		case is.r == r:
			held = is
		case is.lock.Err() == nil:
			elsewhere = true
		}
	}
	more, had := h.users.seen(value)
	switch {
	case more:
		return nil, errManyHadIt
	case had && held == nil && !elsewhere:
		return nil, redlock.ErrLost
	case held == nil && stored.CheckToken(value) != nil:
		return nil, errForeign
	default:
		return held, nil
	}
}

// add notes that one more lock has had a value.
func (v *values) add(value string) {
	sum := maphash.String(seed, value)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.more == nil || len(v.more) >= maxValues {
		v.before, v.more = v.more, make(map[uint64]bool)
	}
	_, v.more[sum] = v.find(sum)
}

// seen says whether a lock has had the value, and whether more than one has.
func (v *values) seen(value string) (more, had bool) {
	sum := maphash.String(seed, value)
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.find(sum)
}

func (v *values) find(sum uint64) (more, had bool) {
	if more, had = v.more[sum]; !had {
		more, had = v.before[sum]
	}
	return more, had
}
