package semaphore

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/redlock"
)

// A search is for all callers in line, from when the first of them comes until nobody is left. It is a
// number of calls of Lock, each on a slot of its own, which go on until they have it.
//
// It begins with one call for each caller. To wait for a slot costs a few requests to each node, which
// is more than a slot is worth that is held for moments. So each refusal adds only two calls, until there
// are as many as eager says. If that was not enough, the calls become three times as many whenever the time
// of patience is over, until each slot has one.
type search struct {
	ctx    context.Context //nolint:containedctx // It ends with the search, not with a call.
	cancel context.CancelFunc
	opts   []redlock.Option
	widen  *time.Timer
	asked  []bool // by slot: a call of Lock wants it
	calls  int    // how many do
	last   error  // the last refusal
}

const (
	eager    = 5
	patience = 50 * time.Millisecond
)

func (s *Semaphore) newSearch() *search {
	h := &search{asked: make([]bool, len(s.slots))}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.opts = append(slices.Clip(s.opts), redlock.WithRetryIf(func(err error) bool { s.refused(h, err); return true }))
	h.widen = time.AfterFunc(patience, func() { s.widen(h) })
	return h
}

// ask has n more calls want a slot, as far as there are slots. s.mu is held.
func (s *Semaphore) ask(n int) {
	if s.search == nil {
		s.search = s.newSearch()
	}
	h := s.search
	if n = min(n, len(s.slots)-h.calls); n == 0 {
		return
	}
	for _, slot := range s.order() {
		if n > 0 && !h.asked[slot] {
			n--
			h.asked[slot] = true
			h.calls++
			go s.fetch(h, slot)
		}
	}
}

// order returns the slots at random, but last those that this process holds.
func (s *Semaphore) order() (slots []int) {
	var own []int
	for _, slot := range rand.Perm(len(s.slots)) {
		if l := s.won[slot].Load(); l != nil && l.Err() == nil {
			own = append(own, slot)
		} else {
			slots = append(slots, slot)
		}
	}
	return append(slots, own...)
}

// widen has a search ask for more slots that goes on for a while.
func (s *Semaphore) widen(h *search) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.search == h && h.calls < len(s.slots) {
		s.ask(2 * h.calls)
		h.widen.Reset(patience)
	}
}

// refused notes that an attempt has failed.
func (s *Semaphore) refused(h *search, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.last = err
	if s.search == h && h.calls < eager {
		s.ask(2)
	}
}

// fetch gets a slot for whoever is first in line then. If nobody is, it gives the slot back; Close of the
// Redlock waits for that.
func (s *Semaphore) fetch(h *search, slot int) {
	defer settings.Enter(s.r)()
	l, err := s.r.Lock(h.ctx, s.slots[slot], s.ttl, h.opts...)
	s.mu.Lock()
	h.asked[slot] = false
	h.calls--
	surplus := err == nil && len(s.line) == 0
	switch {
	case surplus:
	case err == nil:
		s.serve(0, s.permit(l, slot), nil)
		if len(s.line) > 0 {
			s.ask(1)
		}
	case h.ctx.Err() == nil: // Close of the Redlock, which is everybody's.
		for len(s.line) > 0 {
			s.serve(0, nil, s.failed(err, nil))
		}
	}
	s.mu.Unlock()
	if surplus {
		giveBack(h.ctx, l)
	}
}
