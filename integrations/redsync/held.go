package redsync

import (
	"errors"
	"hash/maphash"
	"sync"

	"github.com/seed6c881748/redlock/redlock"
)

// This file is about the locks that mutexes of this process have, by which a mutex of WithValue finds that of another one.

// A place is where there is one lock at a time.
type place struct {
	r    *redlock.Redlock
	name string
}

// A holding is the lock that a mutex has got there last.
type holding struct {
	lock *redlock.Lock
	own  string // what WithGenValueFunc has returned for it; empty: nothing
}

// A register has the holdings of this process.
type register struct {
	mu    sync.Mutex
	at    map[place]holding
	sweep int // how many there may be until those whose locks are over are dropped

	// Of values of the user's, whether more than one lock has had them; and before these, others.
	more, moreBefore map[uint64]bool
}

const (
	fewest = 1024

	// maxValues is how many values of the user's are remembered at least, by eight bytes each.
	maxValues = 1 << 16
)

var (
	holdings = register{sweep: fewest, at: make(map[place]holding), more: make(map[uint64]bool)}
	seed     = maphash.MakeSeed()
)

var (
	errManyHadIt = errors.New("redsync: more than one lock of this process has had the value that WithGenValueFunc returned, so it" +
		" names none: give WithValue what Token of the mutex returns")

	errForeign = errors.New("redsync: WithValue was given no value of a lock that this process holds, nor the token of another one's:" +
		" what WithGenValueFunc has returned unlocks nothing from another process; hand on what Token of the mutex returns")
)

// add notes that a mutex has a lock.
func (h *register) add(at place, lock *redlock.Lock, own string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.at) >= h.sweep {
		for p, held := range h.at {
			if held.lock.Err() != nil {
				delete(h.at, p)
			}
		}
		h.sweep = max(2*len(h.at), fewest)
	}
	h.at[at] = holding{lock, own}
	if own == "" {
		return
	}
	sum := maphash.String(seed, own)
	if len(h.more) >= maxValues {
		h.moreBefore, h.more = h.more, make(map[uint64]bool)
	}
	_, had := h.more[sum]
	_, hadBefore := h.moreBefore[sum]
	h.more[sum] = had || hadBefore
}

// remove forgets a lock that is being released, and returns its holding; none if that was done.
func (h *register) remove(at place, lock *redlock.Lock) (held holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at[at].lock == lock {
		held = h.at[at]
		delete(h.at, at)
	}
	return held
}

// restore keeps a holding whose release has failed, unless there is another one.
func (h *register) restore(at place, held holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held.lock != nil && h.at[at].lock == nil {
		h.at[at] = held
	}
}

// find returns the lock with a value: its token, or the user's own. Without one, it may be another process's. An error
// says why the value names none.
func (h *register) find(at place, value string) (*redlock.Lock, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.at[at]
	if held.lock != nil && held.lock.Token() == value {
		return held.lock, nil
	}
	sum := maphash.String(seed, value)
	more, had := h.more[sum]
	if !had {
		more, had = h.moreBefore[sum]
	}
	switch {
	case !had:
		return nil, nil //nolint:nilnil // As said.
	case more:
		return nil, errManyHadIt
	case held.lock == nil || held.own != value:
		return nil, redlock.ErrLost
	default:
		return held.lock, nil
	}
}
