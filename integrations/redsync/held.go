package redsync

import (
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

// This file is about the locks that mutexes of this process have, by which a mutex of WithValue finds that of another one.

// A holding is a lock that a mutex has got.
type holding struct {
	lock *redlock.Lock
	r    *redlock.Redlock
	own  string      // what WithGenValueFunc has returned for it; empty: nothing
	told atomic.Bool // an Unlock has returned that it has released the lock
}

// A named value is by what a lock is found: its token, or the user's own value.
type named struct{ name, value string }

// A register has the holdings of this process.
type register struct {
	mu    sync.Mutex
	at    map[named]*holding
	sweep int // how many there may be until those whose locks are over are dropped

	// Of tokens and of values of the user's, whether more than one lock has had them; and before these, others.
	more, moreBefore map[uint64]bool
}

const (
	fewest = 1024

	// maxValues is how many values are remembered at least, by eight bytes each.
	maxValues = 1 << 15
)

var (
	holdings = register{sweep: fewest, at: make(map[named]*holding), more: make(map[uint64]bool)}
	seed     = maphash.MakeSeed()
)

var (
	errManyHadIt = errors.New("redsync: more than one lock of this process has had the value that WithGenValueFunc returned, so it" +
		" names none: give WithValue what Token of the mutex returns")

	errForeign = errors.New("redsync: WithValue was given no value of a lock of this process on these servers, nor the token of another" +
		" one's: what WithGenValueFunc has returned names nothing to another process; hand on what Token of the mutex returns")

	errHanded = errors.New("redsync: WithValue was given a token that no lock of this process has had, as far as it remembers:" +
		" only the process that took a lock can extend it")
)

// add notes that a mutex of that name has a lock.
func (h *register) add(r *redlock.Redlock, name string, lock *redlock.Lock, own string) *holding {
	held := &holding{lock: lock, r: r, own: own}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.at) >= h.sweep {
		for n, held := range h.at {
			if held.lock.Err() != nil {
				delete(h.at, n)
			}
		}
		h.sweep = max(2*len(h.at), fewest)
	}
	h.put(name, lock.Token(), held)
	if own != "" {
		h.put(name, own, held)
	}
	return held
}

func (h *register) put(name, value string, held *holding) {
	h.at[named{name, value}] = held
	if len(h.more) >= maxValues {
		h.moreBefore, h.more = h.more, make(map[uint64]bool)
	}
	sum := maphash.String(seed, value)
	_, had := h.seen(sum)
	h.more[sum] = had
}

// seen says whether a lock has had a value with that sum, and whether more than one has.
func (h *register) seen(sum uint64) (more, had bool) {
	if more, had = h.more[sum]; !had {
		more, had = h.moreBefore[sum]
	}
	return more, had
}

// remove forgets a lock that is over.
func (h *register) remove(name string, held *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.at, named{name, held.lock.Token()})
	if own := (named{name, held.own}); h.at[own] == held {
		delete(h.at, own)
	}
}

// find returns the lock with a value: its token, or, on the servers of r, the user's own. Without one, the value is the
// token of a lock of another process. An error says why it names no lock; it matches redlock.ErrLost if that is over.
func (h *register) find(r *redlock.Redlock, name, value string) (*holding, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.at[named{name, value}]
	if held != nil && held.lock.Token() == value { // It is wherever it was taken.
		return held, nil
	}
	more, had := h.seen(maphash.String(seed, value))
	switch {
	case more:
		return nil, errManyHadIt
	case held != nil && held.r == r && had:
		return held, nil
	case held == nil && had:
		return nil, redlock.ErrLost
	case tokens.Check(value) != nil:
		return nil, errForeign
	default:
		return nil, nil //nolint:nilnil // As said.
	}
}
