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
func (s *section) run(ctx context.Context, length time.Duration, long bool) {
	s.Log(history.Event{Kind: history.Enter, Lock: s.id, Resources: []string{s.resource}})
	defer func() { s.Log(history.Event{Kind: history.Leave, Lock: s.id, Resources: []string{s.resource}}) }()
	if keeper, ok := s.Waiter.(libraries.Keeper); ok && long {
		keeper.Keep()
	}
	read := s.Ask(history.Event{Kind: history.Read, Lock: s.id, Resources: []string{s.resource}})
	if read.OK && s.last(ctx, length) {
		s.Ask(history.Event{Kind: history.Write, Lock: s.id, Resources: []string{s.resource}, Value: read.Value + 1})
	}
}

// last works for as long as it is told, and returns whether the lock is held to the end.
func (s *section) last(ctx context.Context, length time.Duration) bool {
	done := time.After(length)
	for {
		over, again := s.timers()
		select {
		case <-s.Lost():
			return s.valid()
		case <-over:
			return false
		case <-again:
			s.extendNow(ctx)
		case <-done:
			return s.valid()
		case <-ctx.Done():
			return s.valid()
		}
	}
}

// timers are when the lock is over, and when to extend it: never, if the library does it or does not say.
func (s *section) timers() (over, again <-chan time.Time) {
	until := s.Until()
	if until.IsZero() || s.Lost() != nil { // What tells of a loss is extended, so until moves on.
		return nil, nil
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
func (s *section) extendNow(ctx context.Context) {
	s.about(ctx, history.Event{Op: history.OpExtend, TTL: s.cfg.TTL}, s.Waiter.(libraries.Extender).Extend) //nolint:forcetypeassert // timers has asked.
}

func (s *section) release(ctx context.Context) {
	s.about(ctx, history.Event{Op: history.OpUnlock, Until: s.at(s.Until())}, s.Unlock)
}

// about makes a call about the lock, which is given up after Patience.
func (s *section) about(ctx context.Context, e history.Event, do func(context.Context) error) {
	e.Lock, e.Resources = s.id, []string{s.resource}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Patience)
	defer cancel()
	s.call(e, 0, func() (until int64, token string, err error) {
		if err = do(ctx); err == nil && e.Op == history.OpExtend {
			until = s.at(s.Until())
		}
		return until, "", err
	})
}
