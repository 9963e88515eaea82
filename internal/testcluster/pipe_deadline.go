package testcluster

import (
	"net"
	"sync"
	"time"
)

// pipeError makes the error of a failed operation look like one of a socket,
// because the code under test may tell errors apart by their type: a missed
// deadline then shows in both errors.Is and net.Error.Timeout.
func pipeError(op string, err error) error {
	return &net.OpError{Op: op, Net: "pipe", Source: pipeAddr{}, Addr: pipeAddr{}, Err: err}
}

// deadline is a settable point in time that can be waited for.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	past  chan struct{}
}

func newDeadline() *deadline {
	return &deadline{past: make(chan struct{})}
}

// set moves the deadline; the zero time means none. A channel handed out
// before stays valid unless it was already closed.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		// The timer has fired, so its callback is about to close the channel
		// or has done so. It holds on to that channel, not to the next one.
		d.past = make(chan struct{})
	} else if isClosed(d.past) {
		d.past = make(chan struct{})
	}
	d.timer = nil
	if t.IsZero() {
		return
	}
	past := d.past
	if wait := time.Until(t); wait > 0 {
		d.timer = time.AfterFunc(wait, func() { close(past) })
		return
	}
	close(past)
}

// expired returns a channel that is closed once the deadline has passed.
func (d *deadline) expired() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.past
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
