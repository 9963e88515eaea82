package redsync

import (
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
	return OptionFunc(func(m *Mutex) { m.expiry = expiry })
}

// WithTries sets how many attempts Lock makes before it fails. With less than 1 it fails at once. Unlike in
// redsync, attempts that another client's release sets off do not count. Default 32.
func WithTries(tries int) Option {
	return OptionFunc(func(m *Mutex) { m.tries = tries })
}

// WithRetryDelay sets how long to wait between tries, at most 24 h. A release by a client of this library ends
// the wait. Default: a random time from 50 to 250 ms.
func WithRetryDelay(delay time.Duration) Option {
	return OptionFunc(func(m *Mutex) { m.delay, m.jitter, m.delayFunc = delay, 0, nil })
}

// WithRetryDelayFunc has delayFunc say how long to wait between tries. What it returns is raised to 1 ms, or cut
// to 24 h. A release by a client of this library ends the wait.
func WithRetryDelayFunc(delayFunc DelayFunc) Option {
	return OptionFunc(func(m *Mutex) {
		if delayFunc == nil {
			m.refuse("WithRetryDelayFunc: nil function")
		}
		m.delayFunc, m.delay, m.jitter = delayFunc, defaultDelay, 0
	})
}

// WithSetNXOnExtend has [Mutex.Extend] lock a mutex that has no lock any more, or never had one: by one attempt, with a new
// value, as others may have had the lock meanwhile. It does not after an Unlock. So a program that only calls Extend gets
// its lock back once it is free; what it did under the lost one, it must not go on with. In redsync, the value stays the
// same, so that a late release or extension of the lost lock is one of the new lock. Keys that only single nodes have lost,
// Extend restores without this option.
func WithSetNXOnExtend() Option {
	return OptionFunc(func(m *Mutex) { m.setNXOnExtend = true })
}

// WithDriftFactor sets the share of the expiry that is given up because clocks run at different rates, from 0
// to less than 1. Unlike in redsync, 2 ms more are given up. Default: that of the Redlock, which is 0.01 if
// redlock.New was not told otherwise.
func WithDriftFactor(factor float64) Option {
	return OptionFunc(func(m *Mutex) { m.driftFactor = &factor })
}

// WithTimeoutFactor sets the node timeout of this mutex to that share of the expiry. In redsync it bounds an
// attempt of Lock; here it also bounds Extend and Unlock. It must be positive. Default: the node timeout of the
// Redlock, 250 ms if redlock.New was not told otherwise, whatever the expiry. Redsync's default, a twentieth of
// the expiry, has locks with a short expiry fail on a busy network.
func WithTimeoutFactor(factor float64) Option {
	return OptionFunc(func(m *Mutex) { m.timeoutFactor = &factor })
}

// WithGenValueFunc has Lock call genValueFunc before its first attempt, and fail with its error if it returns one. What it
// returns is what [Mutex.Value] says, and the label of the lock, which whoever is refused is shown: at most 128 bytes of
// printable UTF-8, or Lock fails.
//
// It is never the whole of what the key holds: two processes with one value would both hold the lock. A program that reads
// the key by GET finds a token of 32 digits and " owner=" in front of it. A mutex of this process unlocks and extends by
// it, see [WithValue], but another process cannot: hand on what [Mutex.Token] returns. The first use is logged, to say so.
func WithGenValueFunc(genValueFunc func() (string, error)) Option {
	return OptionFunc(func(m *Mutex) {
		if genValueFunc == nil {
			m.refuse("WithGenValueFunc: nil function")
		}
		m.genValueFunc = genValueFunc
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

// refuse has each call fail, unless something was wrong before.
func (m *Mutex) refuse(text string) {
	if m.wrong == nil {
		m.wrong = errors.New("redsync: " + text)
	}
}

// defaultOptions are those of most mutexes, made once.
var defaultOptions = retryOptions(defaultTries, defaultDelay, defaultJitter)

func retryOptions(tries int, delay, jitter time.Duration) []redlock.Option {
	return []redlock.Option{redlock.WithRetryCount(max(tries, 1) - 1), redlock.WithRetryDelay(delay), redlock.WithRetryJitter(jitter)}
}

// prepare makes the options of the Redlock's calls of those of the mutex, once. What they allow, the Redlock knows.
func (m *Mutex) prepare() error {
	m.prepared.Do(func() {
		if m.setNXOnExtend {
			m.locking = make(chan struct{}, 1)
		}
		if m.tries != defaultTries || m.delay != defaultDelay || m.jitter != defaultJitter {
			m.opts = retryOptions(m.tries, m.delay, m.jitter)
		} else if m.rs != nil && m.rs.pools == nil { // A Redlock of New has the defaults.
			m.opts = defaultOptions[:len(defaultOptions):len(defaultOptions)]
		}
		if f := m.delayFunc; f != nil {
			// The Redlock takes a negative delay for the end of the wait, redsync for none.
			m.opts = append(m.opts, redlock.WithRetryBackoff(func(tries int) time.Duration { return max(f(tries), 0) }))
		}
		if f := m.driftFactor; f != nil {
			m.opts = append(m.opts, redlock.WithDriftFactor(*f))
		}
		if f := m.timeoutFactor; f != nil {
			if !(*f > 0) || math.IsInf(*f, 1) { // Also what is no number.
				m.refuse(fmt.Sprintf("timeout factor %v: must be positive and finite", *f))
				return
			}
			m.opts = append(m.opts, redlock.WithNodeTimeout(timeout(m.expiry, *f)))
		}
	})
	return m.wrong
}

// timeout is a share of the expiry, as far as durations go.
func timeout(expiry time.Duration, factor float64) time.Duration {
	d := float64(expiry) * factor
	if d >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(d)
}
