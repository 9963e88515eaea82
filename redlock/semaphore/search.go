package semaphore

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/internal/waiting"
	"github.com/seed6c881748/redlock/redlock"
)

// A search is a [waiting.Search] with its calls.
type search struct {
	ctx    context.Context //nolint:containedctx // It ends with the search, not with a call.
	cancel context.CancelFunc
	rules  *waiting.Search
	opts   []redlock.Option
	widen  *time.Timer
	last   error // the last refusal
}

func (s *Semaphore) newSearch() *search {
	h := &search{rules: waiting.NewSearch(len(s.slots))}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.opts = append(slices.Clip(s.opts), redlock.WithRetryIf(func(err error) bool { s.refused(h, err); return true }))
	h.widen = time.AfterFunc(waiting.Patience, func() { s.widen(h) })
	return h
}

// ask makes n more calls want a slot, if there are slots left. s.mu is held.
func (s *Semaphore) ask(n int) {
	if s.search == nil {
		s.search = s.newSearch()
	}
	for _, slot := range s.search.rules.Ask(n, s.order()) {
		go s.fetch(s.search, slot)
	}
}

// order returns the slots at random, those that this process holds last.
func (s *Semaphore) order() []int {
	return waiting.Order(rand.Perm(len(s.slots)), func(slot int) bool {
		l := s.won[slot].Load()
		return l != nil && l.Err() == nil
	})
}

// widen makes a search that goes on for long ask for more slots.
func (s *Semaphore) widen(h *search) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.search != h {
		return
	}
	if more := h.rules.Widen(); more > 0 {
		s.ask(more)
		h.widen.Reset(waiting.Patience)
	}
}

// refused notes that an attempt has failed.
func (s *Semaphore) refused(h *search, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.last = err
	if more := h.rules.Refused(); s.search == h && more > 0 {
		s.ask(more)
	}
}

// fetch gets a slot for the first call in line. If there is none by then, it gives the slot back; Close of the Redlock
// waits for that.
func (s *Semaphore) fetch(h *search, slot int) {
	defer settings.Enter(s.r)()
	l, err := s.r.Lock(h.ctx, s.slots[slot], s.ttl, h.opts...)
	s.mu.Lock()
	h.rules.Done(slot)
	surplus := err == nil && len(s.line) == 0
	switch {
	case surplus:
	case err == nil:
		s.serve(0, s.permit(l, slot), nil)
		if len(s.line) > 0 {
			s.ask(1)
		}
	case h.ctx.Err() == nil: // The Redlock was closed, which ends all calls.
		for len(s.line) > 0 {
			s.serve(0, nil, s.failed(err, nil))
		}
	}
	s.mu.Unlock()
	if surplus {
		giveBack(h.ctx, l)
	}
}
