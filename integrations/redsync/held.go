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
	name string
	own  string      // what WithGenValueFunc has returned for it; empty: nothing
	told atomic.Bool // an Unlock has returned that it has released the lock
}

// A register has the holdings of this process.
type register struct {
	mu    sync.Mutex
	with  map[string]*holding // by token, and by the user's own value
	sweep int                 // how many there may be until those whose locks are over are dropped

	// Of values of the user's, whether more than one lock has had them; and before these, others.
	more, moreBefore map[uint64]bool
}

const (
	fewest = 1024

	// maxValues is how many values of the user's are remembered at least, by eight bytes each.
	maxValues = 1 << 16
)

var (
	holdings = register{sweep: fewest, with: make(map[string]*holding), more: make(map[uint64]bool)}
	seed     = maphash.MakeSeed()
)

var (
	errManyHadIt = errors.New("redsync: more than one lock of this process has had the value that WithGenValueFunc returned, so it" +
		" names none: give WithValue what Token of the mutex returns")

	errForeign = errors.New("redsync: WithValue was given no value of a lock of this process on these servers, nor the token of another" +
		" one's: what WithGenValueFunc has returned names nothing to another process; hand on what Token of the mutex returns")

	errHanded = errors.New("redsync: WithValue was given the token of another process's lock: only that one can extend it")
)

// add notes that a mutex has a lock.
func (h *register) add(held *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.with) >= h.sweep {
		for v, held := range h.with {
			if held.lock.Err() != nil {
				delete(h.with, v)
			}
		}
		h.sweep = max(2*len(h.with), fewest)
	}
	h.with[held.lock.Token()] = held
	if held.own == "" {
		return
	}
	other := h.with[held.own]
	isToken := other != nil && other.lock.Token() == held.own
	if !isToken {
		h.with[held.own] = held
	}
	if len(h.more) >= maxValues {
		h.moreBefore, h.more = h.more, make(map[uint64]bool)
	}
	sum := maphash.String(seed, held.own)
	_, had := h.seen(sum)
	h.more[sum] = had || isToken
}

// seen says whether a lock has had the user's value with that sum, and whether more than one has.
func (h *register) seen(sum uint64) (more, had bool) {
	if more, had = h.more[sum]; !had {
		more, had = h.moreBefore[sum]
	}
	return more, had
}

// remove forgets a lock that is over.
func (h *register) remove(held *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.with, held.lock.Token())
	if held.own != "" && h.with[held.own] == held {
		delete(h.with, held.own)
	}
}

// find returns the lock of that name with a value: its token, or, if it was taken with r, the user's own. Without one, the
// value is a token of another process, or of a lock that is over. An error says why the value names no lock; it matches
// redlock.ErrLost if that is over.
func (h *register) find(r *redlock.Redlock, name, value string) (*holding, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.with[value]
	if held != nil && held.name != name {
		held = nil
	}
	if held != nil && held.lock.Token() == value { // It is wherever it was taken.
		return held, nil
	}
	more, had := h.seen(maphash.String(seed, value))
	switch {
	case more:
		return nil, errManyHadIt
	case had && held == nil:
		return nil, redlock.ErrLost
	case had && held.r == r:
		return held, nil
	case tokens.Check(value) != nil:
		return nil, errForeign
	default:
		return nil, nil //nolint:nilnil // As said.
	}
}
