package redsync

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// An Option configures a mutex.
type Option interface {
	Apply(*Mutex)
}

// OptionFunc is a function that configures a mutex.
type OptionFunc func(*Mutex)

// Apply calls f(mutex).
func (f OptionFunc) Apply(mutex *Mutex) { f(mutex) }

// A DelayFunc says how long to wait between tries. tries is how many there were, so 1 at first.
type DelayFunc func(tries int) time.Duration

// WithExpiry sets how long the mutex stays locked unless it is extended or unlocked: the ttl of a lock.
// At least 1 ms. Default 8 s.
func WithExpiry(expiry time.Duration) Option {
	return setting(func(s *settings) { s.expiry = expiry })
}

// WithTries sets how many attempts Lock makes before it fails. With less than 1 it fails at once. Unlike in
// redsync, attempts that another client's release sets off do not count. Default 32.
func WithTries(tries int) Option {
	return setting(func(s *settings) { s.tries = tries })
}

// WithRetryDelay sets how long to wait between tries, at most 24 h. A release by a client of this library ends
// the wait. Default: a random time from 50 to 250 ms.
func WithRetryDelay(delay time.Duration) Option {
	return setting(func(s *settings) { s.delay, s.jitter, s.delayFunc = delay, 0, nil })
}

// WithRetryDelayFunc has delayFunc say how long to wait between tries. What it returns is raised to 1 ms, or cut
// to 24 h. A release by a client of this library ends the wait.
func WithRetryDelayFunc(delayFunc DelayFunc) Option {
	return setting(func(s *settings) {
		if delayFunc == nil {
			s.refuse("WithRetryDelayFunc: nil function")
		}
		s.delayFunc, s.delay, s.jitter = delayFunc, defaultDelay, 0
	})
}

// WithSetNXOnExtend has [Mutex.Extend] lock a mutex that has no lock any more, or never had one: by one attempt, with a new
// value, as others may have had the lock meanwhile. It does not after an Unlock, nor what [WithValue] names: nobody else would
// know of the new lock. So a program that only calls Extend gets its lock back once it is free; what it did under the lost
// one, it must not go on with. Calls of Lock and Extend on the mutex wait for each other. In redsync, the value stays the
// same, so that a late release or extension of the lost lock is one of the new lock. Keys that only single nodes have lost,
// Extend restores without this option.
func WithSetNXOnExtend() Option {
	return setting(func(s *settings) { s.setNXOnExtend, s.locking = true, make(chan struct{}, 1) })
}

// WithDriftFactor sets the share of the expiry that is given up because clocks run at different rates, from 0
// to less than 1. Unlike in redsync, 2 ms more are given up. Default: that of the Redlock, which is 0.01 if
// redlock.New was not told otherwise.
func WithDriftFactor(factor float64) Option {
	return setting(func(s *settings) { s.driftFactor = &factor })
}

// WithTimeoutFactor sets the node timeout of this mutex to that share of the expiry. In redsync it bounds an
// attempt of Lock; here it also bounds Extend and Unlock. It must be positive. Default: the node timeout of the
// Redlock, 250 ms if redlock.New was not told otherwise, whatever the expiry. Redsync's default, a twentieth of
// the expiry, has locks with a short expiry fail on a busy network.
func WithTimeoutFactor(factor float64) Option {
	return setting(func(s *settings) { s.timeoutFactor = &factor })
}

// WithGenValueFunc has Lock call genValueFunc before its first attempt, and fail with its error if it returns one. What it
// returns is what [Mutex.Value] says, and the label of the lock, which whoever is refused is shown: at most 128 bytes of
// printable UTF-8, or Lock fails.
//
// It is never the whole of what the key holds: two processes with one value would both hold the lock. A program that reads
// the key by GET finds a token of 32 digits and " owner=" in front of it. A mutex of this process unlocks and extends by
// it, see [WithValue], but another process cannot: hand on what [Mutex.Token] returns. The first use is logged, to say so.
// genValueFunc must not call methods of the mutex.
func WithGenValueFunc(genValueFunc func() (string, error)) Option {
	return setting(func(s *settings) {
		if genValueFunc == nil {
			s.refuse("WithGenValueFunc: nil function")
		}
		s.genValueFunc = genValueFunc
	})
}

// WithValue makes a mutex of a lock that another one has, so that Unlock and Valid work; and Extend, by the expiry of this
// mutex, if the lock is of this process. v is what [Mutex.Token] or [Mutex.Value] returned there, or the token of a
// redlock.Lock; of another process, it must be the token. What [WithGenValueFunc] has returned names a lock only if no other
// lock of this process has had it, among the last 65 536 at least.
//
// Extend is refused if the lock is another process's, as two processes that know a token could both be told that they hold
// the lock: only the one that took it can extend it. Values of redsync itself can be unlocked by redsync only, and redsync
// can unlock by the tokens of this package.
func WithValue(v string) Option {
	return OptionFunc(func(m *Mutex) { m.value, m.handed = v, true })
}

// WithFailFast has no effect: no call waits for nodes that cannot change its result.
func WithFailFast(bool) Option { return noEffect }

// WithShufflePools has no effect: all nodes are asked at the same time.
func WithShufflePools(bool) Option { return noEffect }

var noEffect = OptionFunc(func(*Mutex) {})

// Settings are what options say.
type settings struct {
	expiry        time.Duration
	tries         int
	delay, jitter time.Duration
	delayFunc     DelayFunc // instead of delay and jitter; nil: none
	driftFactor   *float64  // nil: the Redlock's
	timeoutFactor *float64  // nil: the Redlock's node timeout
	genValueFunc  func() (string, error)
	setNXOnExtend bool
	locking       chan struct{} // with setNXOnExtend: full while a call locks

	wrong    error // of an option
	prepared bool
	opts     []redlock.Option
}

// Most mutexes have no options, and are made for one lock each: they share these.
var (
	ofNew  = settings{expiry: defaultExpiry, tries: defaultTries, delay: defaultDelay, jitter: defaultJitter, prepared: true}
	ofOver = settings{expiry: defaultExpiry, tries: defaultTries, delay: defaultDelay, jitter: defaultJitter, prepared: true, opts: defaultOptions}
)

// setting is an option that changes the settings, which become the mutex's own.
func setting(f func(*settings)) Option {
	return OptionFunc(func(m *Mutex) { f(m.own()) })
}

func (m *Mutex) own() *settings {
	if m.set == &ofNew || m.set == &ofOver {
		set := *m.set
		m.set = &set
	}
	m.set.prepared, m.set.opts = false, nil
	return m.set
}

// alone waits until no other call locks a mutex with WithSetNXOnExtend: an Extend would find the lock of another Extend, or of
// a Lock, in its way. The caller calls done after its own.
func (s *settings) alone(ctx context.Context) (done func(), err error) {
	if s.locking == nil {
		return func() {}, nil
	}
	select {
	case s.locking <- struct{}{}:
		return func() { <-s.locking }, nil
	case <-endless(ctx).Done():
		return nil, context.Cause(ctx)
	}
}

// refuse has each call fail, unless something was wrong before.
func (s *settings) refuse(text string) {
	if s.wrong == nil {
		s.wrong = errors.New("redsync: " + text)
	}
}

// defaultOptions are those of most mutexes, made once.
var defaultOptions = retryOptions(defaultTries, defaultDelay, defaultJitter)

func retryOptions(tries int, delay, jitter time.Duration) []redlock.Option {
	return []redlock.Option{
		redlock.WithRetryCount(max(tries, 1) - 1), redlock.WithRetryDelay(delay), redlock.WithRetryJitter(jitter),
		redlock.WithTurn(0), // The key is to have the mutex's own token: others unlock by it.
	}
}

// prepare makes the options of the Redlock's calls of the settings, once. What they allow, the Redlock knows.
func (s *settings) prepare(over bool) error {
	if s.prepared {
		return s.wrong
	}
	s.prepared = true
	if over || s.tries != defaultTries || s.delay != defaultDelay || s.jitter != defaultJitter { // A Redlock of New has the defaults.
		s.opts = retryOptions(s.tries, s.delay, s.jitter)
	}
	if f := s.delayFunc; f != nil {
		// The Redlock takes a negative delay for the end of the wait, redsync for none.
		s.opts = append(s.opts, redlock.WithRetryBackoff(func(tries int) time.Duration { return max(f(tries), 0) }))
	}
	if f := s.driftFactor; f != nil {
		s.opts = append(s.opts, redlock.WithDriftFactor(*f))
	}
	if f := s.timeoutFactor; f != nil {
		if !(*f > 0) || math.IsInf(*f, 1) { // Also what is no number.
			s.refuse(fmt.Sprintf("timeout factor %v: must be positive and finite", *f))
			return s.wrong
		}
		s.opts = append(s.opts, redlock.WithNodeTimeout(timeout(s.expiry, *f)))
	}
	return s.wrong
}

// timeout is a share of the expiry, as far as durations go.
func timeout(expiry time.Duration, factor float64) time.Duration {
	d := float64(expiry) * factor
	if d >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(d)
}
