package dispatch

import (
	"sync"
	"time"
)

// A Limiter lets one of many events pass, which stands for those before it. The zero value is ready for use. It is safe
// for concurrent use.
type Limiter struct {
	mu     sync.Mutex // calls nothing
	last   time.Time  // when an event last passed
	before int        // events that have not passed since then
}

// Pass reports whether an event that happens now may pass: if none has passed for the time every. before is how many
// events before it have not passed.
func (l *Limiter) Pass(now time.Time, every time.Duration) (before int, pass bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.IsZero() && now.Sub(l.last) < every {
		l.before++
		return 0, false
	}
	before = l.before
	l.last, l.before = now, 0
	return before, true
}

// Held returns how many events have not passed since the last one that did, and counts from 0 again.
func (l *Limiter) Held() (before int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, l.before = l.before, 0
	return before
}
