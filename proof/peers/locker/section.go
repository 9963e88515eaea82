package locker

import (
	"context"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/proof/history"
)

// A section is the work under one lock.
type section struct {
	*process
	libraries.Waiter

	id       int // The call that acquired the lock.
	resource string
}

// run reads the register, works, and writes it, unless its library has said by then that the lock is over.
func (s *section) run(length time.Duration, long bool) {
	s.Log(history.Event{Kind: history.Enter, Lock: s.id, Resources: []string{s.resource}})
	defer func() { s.Log(history.Event{Kind: history.Leave, Lock: s.id, Resources: []string{s.resource}}) }()
	if keeper, ok := s.Waiter.(libraries.Keeper); ok && long {
		keeper.Keep()
	}
	read := s.Ask(history.Event{Kind: history.Read, Lock: s.id, Resources: []string{s.resource}})
	if read.OK && s.last(length) {
		s.Ask(history.Event{Kind: history.Write, Lock: s.id, Resources: []string{s.resource}, Value: read.Value + 1})
	}
}

// last works for as long as it is told, and returns whether the lock is held to the end.
func (s *section) last(length time.Duration) bool {
	done := time.After(length)
	for {
		over, again := s.timers()
		select {
		case <-s.Lost():
			s.Log(history.Event{Kind: history.Lost, Lock: s.id})
			return false
		case <-over:
			return false
		case <-again:
			s.extendNow()
		case <-done:
			return s.valid()
		case <-s.stopped:
			return s.valid()
		}
	}
}

// timers are when the lock is over, and when to extend it: never, if the library does it or does not say.
func (s *section) timers() (over, again <-chan time.Time) {
	until := s.Until()
	if until.IsZero() {
		return nil, nil
	}
	if s.Lost() != nil {
		return nil, nil // It is extended, so until moves on.
	}
	over = time.After(time.Until(until))
	if _, keeps := s.Waiter.(libraries.Keeper); keeps {
		return over, nil
	}
	return over, time.After(time.Until(until) / 2)
}

// valid is what a careful user asks before a write.
func (s *section) valid() bool {
	select {
	case <-s.Lost():
		s.Log(history.Event{Kind: history.Lost, Lock: s.id})
		return false
	default:
	}
	until := s.Until()
	return until.IsZero() || time.Now().Before(until)
}

// extendNow has the work wait for the extension, as a program without a second thread would.
func (s *section) extendNow() {
	s.call(history.Event{Op: history.OpExtend, Lock: s.id, Resources: []string{s.resource}, TTL: s.cfg.TTL}, 0,
		func() (until int64, token string, err error) {
			ctx, cancel := context.WithTimeout(context.Background(), Patience)
			defer cancel()
			if err = s.Waiter.(libraries.Extender).Extend(ctx); err != nil { //nolint:forcetypeassert // timers has asked.
				return 0, "", err
			}
			return s.at(s.Until()), "", nil
		})
}

func (s *section) release() {
	s.call(history.Event{Op: history.OpUnlock, Lock: s.id, Resources: []string{s.resource}, Until: s.at(s.Until())}, 0,
		func() (until int64, token string, err error) {
			ctx, cancel := context.WithTimeout(context.Background(), Patience)
			defer cancel()
			return 0, "", s.Unlock(ctx)
		})
}
